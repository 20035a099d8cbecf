# nvcc of a host build: `write_nvcc` sets the variables nvcc, options, gencode, named, left_out and accepted above this.
object='' before='' files=''
for word; do
    case $before in
        -o | --output-file) object=$word ;;
        -optf | --options-file) files="$files $word" ;;
    esac
    case $word in -optf=* | --options-file=*) files="$files ${word#*=}" ;; esac
    before=$word
done
# nvcc reports with --dryrun which images a command embeds. A command without options for them gets `gencode`; one with
# options for others ends. CMake's test of the compiler embeds machine code alone.
images() {
    "$nvcc" --dryrun "$@" 2>&1 | grep -oE 'kind=[a-z]+,sm=[0-9]+[af]?' |
        sed 's/kind=ptx,sm=/compute_/; s/kind=[a-z]*,sm=/sm_/' | sort -u
}
own=''
case $PWD in */CompilerIdCUDA) ;; *) if [ "$gencode" ]; then own=$(images "$@"); fi ;; esac
if [ "$own" ]; then
    all=$(images $gencode "$@") # nothing where nvcc refuses both together, as sm_120 of compute_120 and of compute_120f
    words="$NVCC_PREPEND_FLAGS $* $(cat $(echo "$files" | tr , ' ') </dev/null) $NVCC_APPEND_FLAGS"
    option='--?(arch|gpu-architecture|code|gpu-code|gencode|generate-code)[= ] *[^ ]+'
    given=$(printf ' %s' "$words" | tr -s '\n\t' '  ' | grep -oE " $option" | sort -u | tr -d '\n')
    others=''
    if [ "$all$given" ]; then others=$(echo "${all:-$own}" | grep -vxF "$named${left_out:+
$left_out}"); fi
    missing=${given:+${all:+$(echo "$all" | grep -vxF "$own")}}
    case $accepted in *others*) others='' ;; esac
    case $accepted in *missing*) missing='' ;; esac
    if [ "$others$missing" ]; then
        echo "gpuforge: error: nvcc compiles" ${others:+for $others, not in the manifest${missing:+,}} \
            ${missing:+without $missing} "(${given# })" >&2
        exit 1
    fi
    # For a quick try, a command with options for some of the architectures and for those left out loses the options.
    try=''
    if [ "$left_out" ] && echo "$own" | grep -qxF "$named" && echo "$own" | grep -qxF "$left_out"; then
        try=$given count=$# before=''
        while [ "$count" -gt 0 ]; do
            word=$1 count=$((count - 1))
            shift
            case $before$word in
                -arch | --gpu-architecture | -code | --gpu-code | -gencode | --generate-code) before=' ' ;;
                -arch=* | --gpu-architecture=* | -code=* | --gpu-code=* | -gencode=* | --generate-code=*) ;;
                ' '*) before='' ;;
                *) set -- "$@" "$word" ;;
            esac
        done
    fi
    if [ "$all" ] && [ -z "$given" ] || [ "$try" ]; then set -- $gencode "$@"; fi
fi
case $options in *seed*) set -- ${object:+"-frandom-seed=$object"} "$@" ;; esac
case $options in *objdir*) set -- --objdir-as-tempdir "$@" ;; esac
exec "$nvcc" "$@"
