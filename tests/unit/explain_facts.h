/* The facts of a case of the conformance suite, read from a file: a line each, its fields apart by tabs. */
#define GPUFORGE_KERNELS_IMPLEMENTATION
#include <gpuforge_kernels.h>

enum { MOST = 64 };

typedef struct facts {
    char *text;
    const char *names[MOST], *keys[MOST], *values[MOST], *archs[MOST], *opencl_names[MOST];
    const char *files[MOST]; /* that may be damaged */
    size_t name_count, key_count, file_count;
    gpuforge_device devices[MOST];
    gpuforge_nvrtc nvrtc;
    gpuforge_opencl opencl;
    gpuforge_machine machine;
    gpuforge_host host;
} facts;

static const char *variable(const char *name, void *data)
{
    const facts *known = (const facts *)data;
    size_t n;
    for (n = 0; n < known->key_count; ++n)
        if (strcmp(known->keys[n], name) == 0)
            return known->values[n];
    return NULL;
}

/* kind, then for each fact its name, "text" or "number", and its value */
static gpuforge_reason reason_of(char **fields, int count)
{
    gpuforge_reason reason;
    int n, fact = 0;
    memset(&reason, 0, sizeof reason);
    reason.kind = fields[0];
    for (n = 1; n + 2 < count; n += 3, ++fact) {
        reason.facts[fact].name = fields[n];
        if (strcmp(fields[n + 1], "text") == 0)
            reason.facts[fact].text = fields[n + 2];
        else
            reason.facts[fact].number = atoll(fields[n + 2]);
    }
    return reason;
}

static void add(facts *known, char **fields, int count)
{
    gpuforge_machine *machine = &known->machine;
    const char *what = fields[0];
    int n;
    if (strcmp(what, "home") == 0)
        known->host.home = fields[1];
    else if (strcmp(what, "package") == 0)
        known->host.package = fields[1];
    else if (strcmp(what, "name") == 0)
        known->names[known->name_count++] = fields[1];
    else if (strcmp(what, "file") == 0 && known->file_count < MOST)
        known->files[known->file_count++] = fields[1];
    else if (strcmp(what, "variable") == 0) {
        known->keys[known->key_count] = fields[1];
        known->values[known->key_count++] = fields[2];
    } else if (strcmp(what, "driver") == 0) {
        machine->has_driver = 1;
        machine->cuda_major = atoi(fields[1]), machine->cuda_minor = atoi(fields[2]);
    } else if (strcmp(what, "device") == 0) {
        gpuforge_device *device = &known->devices[machine->device_count++];
        device->major = atoi(fields[1]), device->minor = atoi(fields[2]), device->name = fields[3];
    } else if (strcmp(what, "cpu") == 0)
        machine->cpu_machine = fields[1];
    else if (strcmp(what, "cpu-features") == 0)
        machine->cpu_features = fields[1];
    else if (strcmp(what, "problem") == 0)
        machine->problem = reason_of(fields + 1, count - 1);
    else if (strcmp(what, "nvrtc") == 0) {
        machine->nvrtc = &known->nvrtc;
        known->nvrtc.major = atoi(fields[1]), known->nvrtc.minor = atoi(fields[2]), known->nvrtc.release = fields[3];
        known->nvrtc.archs = known->archs;
        for (n = 4; n < count; ++n)
            known->archs[known->nvrtc.arch_count++] = fields[n];
    } else if (strcmp(what, "no-nvrtc") == 0) {
        machine->nvrtc = &known->nvrtc;
        known->nvrtc.problem = reason_of(fields + 1, count - 1);
    } else if (strcmp(what, "opencl") == 0) {
        machine->opencl = &known->opencl;
        known->opencl.devices = known->opencl_names;
        for (n = 1; n < count; ++n)
            known->opencl_names[known->opencl.device_count++] = fields[n];
    } else if (strcmp(what, "no-opencl") == 0) {
        machine->opencl = &known->opencl;
        known->opencl.problem = reason_of(fields + 1, count - 1);
    }
}

static facts *read_facts(const char *path)
{
    facts *known = (facts *)calloc(1, sizeof *known);
    FILE *file = fopen(path, "rb");
    char *line, *fields[MOST];
    long size;
    if (!known || !file)
        exit(2);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    known->text = (char *)calloc(1, (size_t)size + 1);
    if (!known->text || fread(known->text, 1, (size_t)size, file) != (size_t)size)
        exit(2);
    fclose(file);
    for (line = known->text; *line;) {
        char *end = line + strcspn(line, "\n"), *at = line;
        int count = 0;
        line = *end ? end + 1 : end;
        *end = 0;
        for (;;) {
            fields[count++] = at;
            at += strcspn(at, "\t");
            if (!*at || count == MOST)
                break;
            *at++ = 0;
        }
        add(known, fields, count);
    }
    known->machine.devices = known->devices;
    known->host.machine = &known->machine;
    known->host.variable = variable;
    known->host.data = known;
    return known;
}

static void free_facts(facts *known)
{
    free(known->text);
    free(known);
}
