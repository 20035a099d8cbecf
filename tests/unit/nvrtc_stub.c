// Stands in for NVRTC: "compiles" a source into a text of what it was given, and refuses one that holds "error".
// A source that includes a header of CUDA needs --use-bundled-headers, which a real one takes from 13.3 on.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program { char text[8192]; };
int stub_compiled;

int nvrtcVersion(int *major, int *minor)
{
    *major = 12;
    *minor = 4;
    return getenv("STUB_NVRTC_VERSION") ? 11 : 0; // NVRTC_ERROR_INTERNAL_ERROR
}
int nvrtcGetNumSupportedArchs(int *count) { *count = 2; return 0; }
int nvrtcGetSupportedArchs(int *archs) { archs[0] = 80; archs[1] = 90; return 0; }

int nvrtcCreateProgram(struct program **made, const char *source, const char *name, int count,
                       const char **headers, const char **names)
{
    struct program *program = calloc(1, sizeof *program);
    int at = sprintf(program->text, "a fatbin of %s|%s", name, source);
    for (int i = 0; i < count; i++)
        at += sprintf(program->text + at, "|%s=%s", names[i], headers[i]);
    *made = program;
    return 0;
}

static const char LOG[] = "op.cu(1): error: an identifier is expected";
static const char NO_HEADER[] = "op.cu(1): catastrophic error: could not open source file \"cuda_fp16.h\" (no directories)";
static const char *log_of = LOG;
#ifdef BUNDLED
int nvrtcGetBundledHeadersInfo(void *info, const char **log) { (void)info, (void)log; return 0; }
#endif

int nvrtcCompileProgram(struct program *program, int count, const char **options)
{
    int bundled = 0;
    stub_compiled++;
    for (int i = 0; i < count; i++)
        bundled |= !strncmp(options[i], "--use-bundled-headers=/", 23);
    log_of = strstr(program->text, "cuda_fp16.h") && !bundled ? NO_HEADER : LOG;
    if (strstr(program->text, "error") || log_of == NO_HEADER)
        return 6;
    for (int i = 0; i < count; i++)
        strcat(strcat(program->text, "|"), options[i]);
    return 0;
}

int nvrtcGetCUBINSize(struct program *program, size_t *size) { *size = strlen(program->text); return 0; }
int nvrtcGetCUBIN(struct program *program, char *code) { memcpy(code, program->text, strlen(program->text)); return 0; }
int nvrtcGetProgramLogSize(struct program *program, size_t *size) { (void)program; *size = strlen(log_of) + 1; return 0; }
int nvrtcGetProgramLog(struct program *program, char *log) { (void)program; strcpy(log, log_of); return 0; }
int nvrtcDestroyProgram(struct program **program) { free(*program); *program = NULL; return 0; }
