#define _GNU_SOURCE
#include "tests/lib/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void leave(const char *path, const char *why)
{
    fprintf(stderr, "%s: %s\n", path, why);
    exit(2);
}

/* Returns the text after `"key": ` in a line, or NULL. */
static char *value_of(char *line, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    char *at = strstr(line, quoted);
    return at ? at + strlen(quoted) : NULL;
}

static void take_contest(struct recording *r, char *line)
{
    char *n = value_of(line, "n"), *moduli = value_of(line, "constants"), *end;
    if (r->n || !n || !moduli || !(end = strchr(moduli, ']')))
        return;
    r->n = (uint32_t)strtoul(n, NULL, 10);
    *end = '\0';
    for (char *word = strtok(moduli, "[\", "); word; word = strtok(NULL, "[\", "))
        if (r->modulus_count < RECORDING_MODULUS_COUNT_MAX)
            r->moduli[r->modulus_count++] = strdup(word);
}

static void take_burst(struct recording *r, char *line, size_t digits_max, uint64_t *before_ns)
{
    char *digits = value_of(line, "digits"), *ns = value_of(line, "ns");
    if (!digits || !ns)
        return;
    const uint64_t now_ns = strtoull(ns, NULL, 10);
    size_t count = strspn(++digits, "0123456789");
    count = count < digits_max - r->digit_count ? count : digits_max - r->digit_count;
    if (count == 0)
        return;
    r->bursts = realloc(r->bursts, (r->burst_count + 1) * sizeof *r->bursts);
    r->digits = realloc(r->digits, r->digit_count + count);
    if (!r->bursts || !r->digits)
        leave("recording", "no memory");
    memcpy(r->digits + r->digit_count, digits, count);
    r->digit_count += count;
    r->bursts[r->burst_count++] = (struct recording_burst){ count, *before_ns && now_ns > *before_ns
                                                                       ? now_ns - *before_ns
                                                                       : 0 };
    *before_ns = now_ns;
}

struct recording recording_read(const char *path, size_t digits_max)
{
    struct recording r = { 0 };
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    uint64_t before_ns = 0;
    if (!file)
        leave(path, "cannot be read");
    while (getline(&line, &room, file) > 0)
        if (strstr(line, "\"kind\": \"contest\""))
            take_contest(&r, line);
        else if (strstr(line, "\"kind\": \"burst\""))
            take_burst(&r, line, digits_max, &before_ns);
    free(line);
    fclose(file);
    if (!r.n || !r.modulus_count || !r.burst_count)
        leave(path, "holds no N, no moduli or no digits: not a file of `contest record`");
    return r;
}
