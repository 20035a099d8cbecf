/* Explains cases of the conformance suite through gpuforge_kernels.h. Each argument is a file with the facts of a case;
   for each the text and the JSON are printed, both ended by a NUL. */
#include "explain_facts.h"

int main(int count, char **arguments)
{
    int n, json;
    for (n = 1; n < count; ++n) {
        facts *known = read_facts(arguments[n]);
        for (json = 0; json < 2; ++json) {
            char *text = gpuforge_explain(&known->host, known->names, known->name_count, json);
            fputs(text ? text : "no memory", stdout);
            putchar(0);
            free(text);
        }
        free_facts(known);
    }
    return 0;
}
