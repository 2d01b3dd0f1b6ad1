/* See script.h. */
#include "tests/wire/script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tcp/wire.h"

enum { LINES_MAX = 1000, LINE_BYTES_MAX = 400 };

void script_fault(const struct script *s, const char *what)
{
    printf("%s:%zu: the timeline is not understood: %s, at \"%s\"\n", s->path, s->line + 1, what, s->at);
    exit(2);
}

void script_open(struct script *s, const char *path)
{
    static char text[LINES_MAX][LINE_BYTES_MAX];
    static char *lines[LINES_MAX];
    FILE *file = fopen(path, "r");
    *s = (struct script){ .path = path, .lines = lines, .at = "" };
    if (file == NULL)
        script_fault(s, "the file cannot be read");
    while (s->line_count < LINES_MAX && fgets(text[s->line_count], LINE_BYTES_MAX, file) != NULL) {
        char *comment = strchr(text[s->line_count], '#');
        if (comment != NULL)
            *comment = 0;
        lines[s->line_count] = text[s->line_count];
        s->line_count++;
    }
    if (!feof(file))
        script_fault(s, "too long");
    fclose(file);
}

void script_go(struct script *s, size_t line)
{
    s->line = line;
    s->at = s->lines[line];
}

static void blanks_skip(struct script *s)
{
    while (isspace((unsigned char)*s->at))
        s->at++;
}

bool script_at_end(struct script *s)
{
    blanks_skip(s);
    return *s->at == 0;
}

bool script_take(struct script *s, const char *word)
{
    blanks_skip(s);
    size_t length = strlen(word);
    bool whole = !isalnum((unsigned char)word[length - 1])
                 || !(isalnum((unsigned char)s->at[length]) || s->at[length] == '_');
    if (strncmp(s->at, word, length) != 0 || !whole)
        return false;
    s->at += length;
    return true;
}

void script_word(struct script *s, char *word, size_t bytes)
{
    size_t length = 0;
    blanks_skip(s);
    while (*s->at != 0 && !isspace((unsigned char)*s->at) && *s->at != '=' && length + 1 < bytes)
        word[length++] = *s->at++;
    word[length] = 0;
    if (length == 0)
        script_fault(s, "a word is missing");
}

static int64_t factor(struct script *s)
{
    if (*s->at == 'i') {
        s->at++;
        return s->i;
    }
    if (!isdigit((unsigned char)*s->at))
        script_fault(s, "a number is missing");
    char *end;
    int64_t value = strtoll(s->at, &end, 0);
    s->at = end;
    return value;
}

int64_t script_number(struct script *s)
{
    blanks_skip(s);
    int64_t sum = 0, sign = *s->at == '-' ? -1 : 1;
    if (*s->at == '-')
        s->at++;
    for (;;) {
        int64_t product = factor(s);
        while (*s->at == '*') {
            s->at++;
            product *= factor(s);
        }
        sum += sign * product;
        if (*s->at != '+' && *s->at != '-')
            return sum;
        sign = *s->at++ == '+' ? 1 : -1;
    }
}

uint64_t script_seconds_ns(struct script *s)
{
    blanks_skip(s);
    uint64_t ns = 0, unit_ns = 1000000000;
    if (!isdigit((unsigned char)*s->at))
        script_fault(s, "a time is missing");
    while (isdigit((unsigned char)*s->at))
        ns = ns * 10 + (uint64_t)(*s->at++ - '0') * 1000000000;
    if (*s->at != '.')
        return ns;
    for (s->at++; isdigit((unsigned char)*s->at); s->at++) {
        unit_ns /= 10;
        ns += (uint64_t)(*s->at - '0') * unit_ns;
    }
    return ns;
}

/* ---- Segments ---- */

static void must_take(struct script *s, const char *word)
{
    if (!script_take(s, word))
        script_fault(s, word);
}

static void option_raw(struct script *s, struct wire_option *o)
{
    unsigned byte;
    blanks_skip(s);
    while (o->raw_bytes < sizeof o->raw && isxdigit((unsigned char)*s->at) && sscanf(s->at, "%2x", &byte) == 1) {
        o->raw[o->raw_bytes++] = (uint8_t)byte;
        s->at += 2;
    }
    if (o->raw_bytes == 0)
        script_fault(s, "the bytes of a raw option are missing");
}

static void option_value(struct script *s, struct wire_option *o)
{
    o->values[o->value_count++] = (uint32_t)script_number(s);
}

static void option_parse(struct script *s, struct wire_option *o)
{
    *o = (struct wire_option){ 0 };
    if (script_take(s, "nop")) {
        o->kind = TCP_OPTION_NOP;
    } else if (script_take(s, "eol")) {
        o->kind = TCP_OPTION_END;
    } else if (script_take(s, "sackOK")) {
        o->kind = TCP_OPTION_SACK_PERMITTED;
    } else if (script_take(s, "mss")) {
        o->kind = TCP_OPTION_MSS;
        option_value(s, o);
    } else if (script_take(s, "ws")) {
        o->kind = TCP_OPTION_WINDOW_SCALE;
        option_value(s, o);
    } else if (script_take(s, "ts")) {
        o->kind = TCP_OPTION_TIMESTAMPS;
        o->any = script_take(s, "*");
        if (o->any)
            o->value_count = 1;
        else
            option_value(s, o);
        option_value(s, o);
    } else if (script_take(s, "sack")) {
        o->kind = TCP_OPTION_SACK;
        while (!script_at_end(s) && *s->at != ',' && *s->at != '>' && o->value_count < 8) {
            option_value(s, o);
            must_take(s, ":");
            option_value(s, o);
        }
    } else {
        must_take(s, "raw");
        option_raw(s, o);
    }
}

static void options_parse(struct script *s, struct wire_segment *segment)
{
    segment->options_said = true;
    while (!script_take(s, ">")) {
        if (script_take(s, "...")) {
            segment->options_any = true;
            continue;
        }
        option_parse(s, &segment->options[segment->option_count++]);
        script_take(s, ",");
    }
}

static uint32_t address_parse(struct script *s)
{
    unsigned a, b, c, d;
    int length;
    blanks_skip(s);
    if (sscanf(s->at, "%u.%u.%u.%u%n", &a, &b, &c, &d, &length) != 4)
        script_fault(s, "an address is missing");
    s->at += length;
    return a << 24 | b << 16 | c << 8 | d;
}

static void flags_parse(struct script *s, struct wire_segment *segment)
{
    static const char letters[] = "FSRP.UEW";
    blanks_skip(s);
    for (; *s->at != 0 && !isspace((unsigned char)*s->at); s->at++) {
        const char *letter = strchr(letters, *s->at);
        if (letter != NULL)
            segment->flags |= (uint8_t)(1u << (letter - letters));
        else if (*s->at != '-')
            script_fault(s, "a flag is none of FSRP.UEW");
    }
}

void script_segment(struct script *s, struct wire_segment *segment)
{
    *segment = (struct wire_segment){
        .window = -1, .fill = -1, .source = WIRE_PEER_ADDRESS, .destination = WIRE_STACK_ADDRESS
    };
    if (script_take(s, "icmp")) { /* icmp TYPE CODE [mtu N] [quoting SEQ:END(LEN)] */
        segment->icmp = true;
        segment->icmp_type = (uint8_t)script_number(s);
        segment->icmp_code = (uint8_t)script_number(s);
        if (script_take(s, "mtu"))
            segment->icmp_mtu = (uint16_t)script_number(s);
        if (!script_take(s, "quoting"))
            return;
    } else {
        flags_parse(s, segment);
    }
    segment->seq = (uint32_t)script_number(s);
    must_take(s, ":");
    uint32_t end = (uint32_t)script_number(s);
    must_take(s, "(");
    segment->bytes = (uint32_t)script_number(s);
    must_take(s, ")");
    if (end != segment->seq + segment->bytes)
        script_fault(s, "sequence numbers and length do not agree");
    bool ack_said = false;
    while (!script_at_end(s)) {
        if (script_take(s, "ack")) {
            segment->ack = (uint32_t)script_number(s);
            ack_said = true;
        } else if (script_take(s, "win")) {
            segment->window = script_number(s);
        } else if (script_take(s, "ecn")) {
            segment->codepoint = (uint8_t)script_number(s);
        } else if (script_take(s, "urg")) {
            segment->urgent = (uint32_t)script_number(s);
        } else if (script_take(s, "<")) {
            options_parse(s, segment);
        } else if (script_take(s, "from")) {
            segment->peer_port = (uint16_t)script_number(s);
        } else if (script_take(s, "to")) {
            segment->port = (uint16_t)script_number(s);
        } else if (script_take(s, "fill")) {
            segment->fill = (int)script_number(s);
        } else if (script_take(s, "words")) {
            segment->header_words = (int)script_number(s);
        } else if (script_take(s, "reserved")) {
            segment->reserved = (uint8_t)script_number(s);
        } else if (script_take(s, "source")) {
            segment->source = address_parse(s);
        } else if (script_take(s, "destination")) {
            segment->destination = address_parse(s);
        } else if (script_take(s, "corrupt")) {
            segment->corrupt = true;
        } else if (script_take(s, "queued")) {
            segment->queued = true;
        } else {
            script_fault(s, "an unknown word");
        }
    }
    if (!segment->icmp && ack_said != ((segment->flags & TCP_ACK) != 0))
        script_fault(s, "`ack` and the flag `.` go together");
}
