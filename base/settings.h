/* The settings: `key=value` words, the same text on GRUB's and QEMU's command lines, in a module file and on a
 * hosted program's command line. Each owner declares its keys in a table of its own; this is the table's type, and
 * the one parser. Pure: text in, values or a message out; knows no clock, no device, no log, and no key.
 *
 *     settings_begin(&settings, tables, count);
 *     settings_add(&settings, "command line", text, bytes);   any number of sources, any order
 *     if (!settings_finish(&settings)) refuse(settings.error);
 *
 * Words are separated by white space; a `#` at the start of a word is a comment up to the end of its line; there is
 * no quoting. A key may be given once, over all sources together. After a mistake the parser reads on, so that the
 * machine learns how its mistakes are to be reported, and keeps the first message. Until settings_finish has
 * returned true nobody else uses a value. docs/settings.md lists the keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum {
    SETTINGS_TABLE_COUNT_MAX = 16,
    SETTINGS_ROW_COUNT_MAX = 64, /* in a table */
    SETTINGS_ERROR_BYTES_MAX = 320,
    SETTINGS_VALUE_BYTES_MAX = 160, /* written by settings_describe */
    ENDPOINT_COUNT_MAX = 8,
};

struct endpoint {
    uint32_t address; /* host order; 0: not given */
    uint16_t port;
};

struct endpoints {
    uint32_t count;
    struct endpoint at[ENDPOINT_COUNT_MAX];
};

/* The kind of a value, and the type of the member that it goes into. */
enum setting_kind {
    SETTING_FOREIGN,   /* for boot loaders: ignored with any value, however often */
    SETTING_NUMBER,    /* decimal: an unsigned integer of any size */
    SETTING_TIME,      /* "30" (seconds), "0.5", "200ms", with `zero` also "off": uint64_t, nanoseconds */
    SETTING_SWITCH,    /* "on" or "off": bool */
    SETTING_CHOICE,    /* one of `choices`: its index, an enum */
    SETTING_TEXT,      /* char[max + 1], ended by a NUL */
    SETTING_ADDRESS,   /* an IPv4 address of one machine: uint32_t, host order */
    SETTING_ENDPOINT,  /* IP:PORT: struct endpoint */
    SETTING_ENDPOINTS, /* several with commas: struct endpoints */
    SETTING_CUSTOM,    /* `set` reads the value */
};

/* The reason why a value is refused, and the part of the value that is to blame. */
struct settings_refusal {
    const char *reason; /* NULL: accepted; SETTINGS_EXPECTED: the message says what the row expects */
    struct bytes part;  /* `data` NULL: the whole value */
};
#define SETTINGS_EXPECTED ""

/* Returns an acceptance, or refusals of the whole value and of a part of it. */
static inline struct settings_refusal settings_refuse(const char *reason)
{
    const struct settings_refusal refusal = { reason, { NULL, 0 } };
    return refusal;
}
static inline struct settings_refusal settings_accept(void) { return settings_refuse(NULL); }
/*@ requires readable(part); assigns \nothing; */
static inline struct settings_refusal settings_refuse_part(const char *reason, struct bytes part)
{
    const struct settings_refusal refusal = { reason, part };
    return refusal;
}

struct setting {
    const char *name;
    enum setting_kind kind;
    uint16_t offset, bytes;     /* the member's, in the table's values: SETTING_AT */
    uint64_t min, max;          /* for a number, a time (max 0: none), or a text's bytes */
    const char *initial;        /* the default, as text; NULL: the member stays zero */
    const char *unset;          /* without `initial`: the default in words */
    const char *zero;           /* 0 is accepted besides min..max, and means this */
    const char *noun;           /* "a TCP port": the value in words; NULL: what the kind says */
    const char *const *choices; /* ended by a NULL */
    /* Reads a SETTING_CUSTOM: the value, borrowed for the call, into the row's member, else the table's values. */
    struct settings_refusal (*set)(void *member, struct bytes value);
    bool required;
    bool secret;  /* no message repeats the value */
    bool repeats; /* the key may be given again */
    const char *help;
};
/* Names the member of the values that a row fills. */
#define SETTING_AT(type, member) .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)

struct settings_table {
    const struct setting *rows;
    size_t count;
    void *values; /* the owner's struct; settings_begin fills it with the defaults */
    size_t values_bytes;
    /* Checks the values against each other, and completes them. NULL, or a message. May itself be NULL. */
    const char *(*finish)(void);
    /* Further tables of the owner, which have none themselves, ended by a NULL. NULL: none. */
    const struct settings_table *const *parts;
};

/* One reading of all sources. */
struct settings {
    const struct settings_table *tables[SETTINGS_TABLE_COUNT_MAX];
    size_t table_count;
    const char *program;                     /* the program's name, for messages; NULL: none */
    bool table_wrong;                        /* no word is read */
    uint64_t seen[SETTINGS_TABLE_COUNT_MAX]; /* a bit for each row */
    char error[SETTINGS_ERROR_BYTES_MAX];    /* the first mistake, one printable line; "": none so far */
};

/* Fills the values of each table with the defaults. A mistake in a table is noted as one in a word is: the reading is
 * refused, by the row's name. */
void settings_begin(struct settings *settings, const struct settings_table *const tables[], size_t count);

/* Adds the words of one source, named for messages ("command line", a file's name). The text is borrowed for the
 * call, may hold any bytes, and ends after `bytes` or at its first NUL. */
/*@ requires \valid(settings) && settings->table_count > 0 && text != \null && \valid_read(text + (0 .. bytes - 1));
    assigns *settings; */
void settings_add(struct settings *settings, const char *source, const char *text, size_t bytes);

/* Notes a mistake, unless there was one before. */
void settings_fail(struct settings *settings, const char *form, ...) __attribute__((format(printf, 2, 3)));

/* Returns true if no mistake was made, all required words were given, and the words agree with each other. */
bool settings_finish(struct settings *settings);

/* ---- for the platform ---- */

/* Reports the secrets of a text that was parsed: the value of each row that is `secret`, or the whole word if the value
 * has fewer than 4 bytes. */
void settings_secrets(const struct settings *settings, const char *text, void (*note)(const void *bytes, size_t count));

/* Asserts the invariant. */
void settings_check(const struct settings *settings);

/* Writes in words what value a row expects: "a TCP port, 1 to 65535; 0: none". Returns `out`. */
const char *settings_describe(const struct setting *row, char out[SETTINGS_VALUE_BYTES_MAX]);

/* Returns true if one machine can have the address: neither "this network" nor multicast nor beyond. */
static inline bool endpoint_address_is_unicast(uint32_t address) { return address >> 24 != 0 && address >> 28 < 0xe; }
