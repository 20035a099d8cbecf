/* The ABI id of a library, which the runtime reads from the file before it loads it. */
#ifndef GPUFORGE_ABI_ID
#error "define GPUFORGE_ABI_ID as a string literal"
#endif

#if defined(__GNUC__)
#define GPUFORGE_EXPORT __attribute__((visibility("default")))
#else
#define GPUFORGE_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif
GPUFORGE_EXPORT extern const char gpuforge_abi_id[];
const char gpuforge_abi_id[] = GPUFORGE_ABI_ID;
#ifdef __cplusplus
}
#endif
