# The end of a wrapper: calls "$compiler", by way of sccache if the call is cacheable. sccache then calls "$called".
# A compiler's own failures end with 1 or a signal; sccache's with 2, or 254 when its server failed. Then the compiler
# is called without it, and the output so far is not repeated.
if [ "$cacheable" ] && [ -x "$GPUFORGE_SCCACHE" ]; then
    errors=$(mktemp) || exit
    GPUFORGE_BEHIND_SCCACHE=1 "$GPUFORGE_SCCACHE" "$called" "$@" 2>"$errors"
    status=$?
    case $status in 2 | 254) rm -f "$errors" ;; *) cat "$errors" >&2; rm -f "$errors"; exit $status ;; esac
fi
if [ -z "$made" ]; then exec "$compiler" "$@"; fi
"$compiler" "$@"
