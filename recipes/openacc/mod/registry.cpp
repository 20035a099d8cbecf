// The list of this library's mechanisms, whichever sources it was compiled from.
#include "mechanisms.h"

#include <string.h>

static struct mechanism *first;

const struct mechanism *mechanisms(void)
{
    return first;
}

int add_mechanism(struct mechanism *added)
{
    struct mechanism **place = &first;
    while (*place && strcmp((*place)->name, added->name) < 0)
        place = &(*place)->next;
    added->next = *place;
    *place = added;
    return 0;
}
