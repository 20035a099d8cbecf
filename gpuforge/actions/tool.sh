# A program that nvcc calls. sccache does not compare the names of some outputs, which are in the written file.
export SCCACHE_C_CUSTOM_CACHE_BUSTER="$PWD $*"
called=$compiler cacheable=yes made=''
