# A compiler of a host build: `write_wrapper` sets the variables compiler, cpu, libraries, rpath, options_file, files and linker_lists above
# this. sccache calls this program, too, to preprocess and to compile.
if [ "$GPUFORGE_BEHIND_SCCACHE" ]; then
    case " $* " in *" -E "*) ;; *) exec "$compiler" "$@" ;; esac
    # -P would remove the line numbers from the text that the cache compares: they are in debug information and in
    # std::source_location. Assembly that reads a file cannot be compared.
    for word; do shift; [ "$word" = -P ] || set -- "$@" "$word"; done
    text=$(mktemp) || exit
    "$compiler" "$@" >"$text"
    status=$?
    cat "$text"
    if grep -qF .incbin "$text"; then date "+// %s %N $$"; fi
    rm -f "$text"
    exit $status
fi
compiles='' cacheable=yes options='' source='' object='' kind='' made='' depends='' before=''
for word; do
    shift
    case $before in -MF) made=$word ;; -o) object=$word ;; esac
    before=$word
    case $word in
        -march=native | -mcpu=native | -mtune=native)
            if [ "$cpu" ]; then continue; fi
            echo "gpuforge: error: ${0##*/} $word compiles for the processor of this machine" >&2
            exit 1
            ;;
        -c) compiles=yes kind="read" ;;
        -E | -S) kind="read" ;;
        -MMD) depends=yes word=-MD ;; # which lists the system's headers, too
        -M*) depends=yes ;;
        -o | -shared) kind=${kind:-link} ;;
        -m*) options="$options$word " ;;
        *--dependency-file=*) made=${word##*--dependency-file=} ;;
        # what sccache does not look into: modules, plugins, and files that assembly includes
        -fmodule* | -fplugin* | -specs* | --specs* | -fdump* | -fstack-usage | *.s | *.S | *.sx) cacheable='' ;;
        *.c | *.cc | *.cpp | *.cxx | *.C) source=$word ;;
    esac
    set -- "$@" "$word"
done
case $PWD/$source in
    */CMakeScratch/* | */CompilerId* | */meson-private/* | */conftest*) made='' ;;
    *)
        if [ "$compiles" ] && [ "$options" ]; then echo "$options$source" >>"$options_file"; fi
        case $made$depends$kind in
            # read by GCC, and by clang
            "read") export SUNPRO_DEPENDENCIES="$files/$$" CC_PRINT_HEADERS=1 CC_PRINT_HEADERS_FILE="$files/$$" ;;
            yesread) made=${object%.*}.d ;;
            link)
                if [ "$libraries" ]; then set -- "$@" "-L$libraries"; fi # after the project's own folders
                if [ "$linker_lists" ]; then set -- "$@" "-Wl,--dependency-file=$files/$$"; fi
                ;;
        esac
        ;;
esac
if [ "$kind" = link ] && [ "$rpath" ]; then set -- "$@" "-Wl,-rpath,$rpath"; fi
if [ "$cpu" ]; then
    # the linker notes the level in what it makes: the loader of an older processor refuses it, and the audit reads it
    case "$cpu $* " in x86-64-v*" -shared "*) set -- "$@" "-Wl,-z,$cpu" ;; esac
    set -- "-march=$cpu" "$@"
fi
if [ "$made" ]; then trap 'cp "$made" "$files/$$" 2>/dev/null' EXIT; fi
called=$0 cacheable=${compiles:+$cacheable}
