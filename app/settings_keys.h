/* The keys of the settings, and for each what turns its value into fields of struct settings. For app/settings.c alone,
 * which knows words and messages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "app/settings.h"
#include "app/span.h"

/* What a value is refused with: the reason, a literal, and the part of the value that is to blame. */
struct settings_refusal {
    const char *reason;                 /* NULL: accepted */
    struct span part;                   /* `at` NULL: the whole value */
};

struct settings_key {
    const char *name;
    /* Takes the key's value, borrowed for the call, into *settings, where a refused one leaves nothing of use. */
    struct settings_refusal (*set)(struct settings *settings, struct span value);
    bool required;
    bool secret;                        /* a refused value is not repeated in the message */
};

extern const struct settings_key settings_keys[];       /* in the order of docs/settings.md */
extern const size_t settings_key_count;
