# Compile /sources/cpython-MINOR.tar into /opt/python/cpXY-cpXY, as manylinux does: no shared libpython, no tests.
# A MINOR such as 3.13t is the free-threaded build: /opt/python/cp313-cp313t.
set -eu
minor=$1
tag="cp$(echo "$minor" | tr -d .)"
prefix="/opt/python/${tag%t}-$tag"
case $minor in *t) gil=--disable-gil ;; *) gil= ;; esac
work="/tmp/cpython-$minor"
mkdir -p "$work"
tar -xf "/sources/cpython-$minor.tar" --strip-components=1 --directory="$work"
cd "$work"
# OPT is CPython's default without -g (configure adds -DNDEBUG): setuptools gives it to every extension that is built
# with this Python.
OPT="-fwrapv -O3 -Wall" ./configure --quiet --build="$TRIPLET" --prefix="$prefix" --disable-test-modules \
  --without-static-libpython --with-ensurepip=no $gil
# No bytecode for -O and -OO: 3.13 makes all in one call, 3.11 each in its own.
sed -i 's/-o 0 -o 1 -o 2/-o 0/; s/\S* -Wi -OO\? /true /' Makefile
make --silent -j"$(nproc)"
make --silent install > /dev/null
cd /
rm -rf "$work"
lib="$prefix/lib/python$minor"
rm -rf "$lib/idlelib" "$lib/test" "$lib/tkinter" "$lib/turtledemo" "$prefix/share" "$prefix"/bin/idle3* "$prefix"/bin/pydoc3*
strip --strip-unneeded "$prefix/bin/python$minor" "$lib"/lib-dynload/*.so
ln -s python3 "$prefix/bin/python"
# Modules that configure leaves out when a library is missing; a Python without them cannot install or test a wheel.
"$prefix/bin/python" -c 'import bz2, ctypes, curses, hashlib, lzma, readline, sqlite3, ssl, uuid, venv, zlib'
"$prefix/bin/python" -VV
