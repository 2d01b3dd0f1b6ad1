/* Parses words by tables, checks that required keys are given, and describes the tables. Knows no key. */
#include "base/settings.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/time.h"

/* ---- values ---- */

static bool number_fits(const struct setting *row, uint64_t value)
{
    if (value == 0 && row->zero)
        return true;
    return value >= row->min && (row->max == 0 || value <= row->max);
}

/* Stores an integer in a member of its size. All our machines are little-endian. */
static void store(const struct setting *row, void *member, uint64_t value)
{
    ASSERT(row->bytes >= 1 && row->bytes <= sizeof value);
    ASSERT(row->bytes == sizeof value || value >> (8 * row->bytes) == 0);
    memcpy(member, &value, row->bytes);
}

static bool set_choice(const struct setting *row, void *member, struct bytes value)
{
    ASSERT(row->choices && row->choices[0]);
    for (size_t i = 0; row->choices[i]; i++) {
        if (text_is(value, row->choices[i])) {
            store(row, member, i);
            return true;
        }
    }
    return false;
}

static bool set_text(const struct setting *row, char *member, struct bytes value)
{
    ASSERT(row->bytes == row->max + 1);
    if (value.count < row->min || value.count > row->max)
        return false;
    text_to_string(member, value);
    return true;
}

static bool set_endpoint(struct endpoint *endpoint, struct bytes value)
{
    struct bytes address, port;
    uint64_t number;
    if (!text_split(&value, ':', &address) || !text_split(&value, ':', &port) || value.data)
        return false;
    if (!text_address(address, &endpoint->address) || !endpoint_address_is_unicast(endpoint->address)
        || !text_number(port, 1, UINT16_MAX, &number))
        return false;
    endpoint->port = (uint16_t)number;
    return true;
}

static struct settings_refusal set_endpoints(struct endpoints *endpoints, struct bytes value)
{
    ASSERT(endpoints->count <= ENDPOINT_COUNT_MAX);
    struct bytes part;
    while (text_split(&value, ',', &part)) {
        if (endpoints->count == ENDPOINT_COUNT_MAX || !set_endpoint(&endpoints->at[endpoints->count], part))
            return settings_refuse_part(SETTINGS_EXPECTED, part);
        endpoints->count++;
    }
    return settings_accept();
}

static struct settings_refusal set_value(const struct settings_table *table, const struct setting *row,
                                         struct bytes value)
{
    ASSERT(row->offset + row->bytes <= table->values_bytes);
    void *member = (uint8_t *)table->values + row->offset;
    uint64_t number = 0;
    uint32_t address = 0;
    bool good = false;
    switch (row->kind) {
    case SETTING_FOREIGN:
        good = true;
        break;
    case SETTING_NUMBER:
        if ((good = text_number(value, 0, UINT64_MAX, &number) && number_fits(row, number)))
            store(row, member, number);
        break;
    case SETTING_TIME:
        good = row->zero && text_is(value, "off");
        if (good || (good = text_duration(value, &number) && number_fits(row, number)))
            store(row, member, number);
        break;
    case SETTING_SWITCH:
        good = text_is(value, "on") || text_is(value, "off");
        store(row, member, text_is(value, "on"));
        break;
    case SETTING_CHOICE:
        good = set_choice(row, member, value);
        break;
    case SETTING_TEXT:
        good = set_text(row, member, value);
        break;
    case SETTING_ADDRESS:
        if ((good = text_address(value, &address) && endpoint_address_is_unicast(address)))
            store(row, member, address);
        break;
    case SETTING_ENDPOINT:
        good = set_endpoint(member, value);
        break;
    case SETTING_ENDPOINTS:
        return set_endpoints(member, value);
    case SETTING_CUSTOM:
        return row->set(member, value);
    }
    return good ? settings_accept() : settings_refuse(SETTINGS_EXPECTED);
}

/* ---- what a value is, in words ---- */

static size_t describe_time(char *out, size_t out_bytes, uint64_t ns)
{
    uint64_t unit_ns = ns % NS_PER_S == 0 ? NS_PER_S : ns % NS_PER_MS == 0 ? NS_PER_MS : NS_PER_US;
    return format(out, out_bytes, "%llu%s", (unsigned long long)(ns / unit_ns),
                  unit_ns == NS_PER_S    ? "s"
                  : unit_ns == NS_PER_MS ? "ms"
                                         : "us");
}

static size_t describe_range(const struct setting *row, char *out, size_t out_bytes)
{
    ASSERT(row->max == 0 || row->min <= row->max);
    char least[24], most[24];
    if (row->kind == SETTING_NUMBER)
        return format(out, out_bytes, "%s, %llu to %llu", row->noun ? row->noun : "a number",
                      (unsigned long long)row->min, (unsigned long long)row->max);
    describe_time(least, sizeof least, row->min);
    describe_time(most, sizeof most, row->max);
    if (row->max)
        return format(out, out_bytes, "a time, %s to %s", least, most);
    if (row->min)
        return format(out, out_bytes, "a time of at least %s", least);
    return format(out, out_bytes, "a time, like 30 (seconds), 0.5 or 200ms");
}

static size_t describe_choices(const struct setting *row, char *out, size_t out_bytes)
{
    size_t used = 0;
    for (size_t i = 0; row->choices[i]; i++)
        used += format(out + used, out_bytes - used, "%s%s",
                       i == 0                ? ""
                       : row->choices[i + 1] ? ", "
                                             : " or ",
                       row->choices[i]);
    ASSERT(used < out_bytes);
    return used;
}

static size_t describe_kind(const struct setting *row, char *out, size_t out_bytes)
{
    switch (row->kind) {
    case SETTING_NUMBER:
    case SETTING_TIME:
        return describe_range(row, out, out_bytes);
    case SETTING_SWITCH:
        return format(out, out_bytes, "on or off");
    case SETTING_CHOICE:
        return describe_choices(row, out, out_bytes);
    case SETTING_TEXT:
        if (row->min == 0)
            return format(out, out_bytes, "%s of at most %u bytes", row->noun, (unsigned)row->max);
        return format(out, out_bytes, "%s of %u to %u bytes", row->noun, (unsigned)row->min, (unsigned)row->max);
    case SETTING_ENDPOINT:
        return format(out, out_bytes, "IP:PORT (no host names)");
    case SETTING_ENDPOINTS:
        return format(out, out_bytes, "IP:PORT, or up to %u with commas (no host names)", ENDPOINT_COUNT_MAX);
    case SETTING_ADDRESS:
    case SETTING_CUSTOM:
    case SETTING_FOREIGN:
        break;
    }
    return format(out, out_bytes, "%s", row->noun);
}

const char *settings_describe(const struct setting *row, char out[SETTINGS_VALUE_BYTES_MAX])
{
    size_t used = describe_kind(row, out, SETTINGS_VALUE_BYTES_MAX);
    if (row->zero)
        used += format(out + used, SETTINGS_VALUE_BYTES_MAX - used,
                       row->kind == SETTING_TIME ? "; 0 or off: %s" : "; 0: %s", row->zero);
    ASSERT(used < SETTINGS_VALUE_BYTES_MAX - 1);
    return out;
}

/* ---- messages ---- */

enum { QUOTE_BYTES_MAX = 80 };

/* Returns the text as it may be shown: unprintable bytes as '?', cut with "...". */
static const char *quote(struct bytes s, char out[QUOTE_BYTES_MAX + 4])
{
    ASSERT(s.data || s.count == 0);
    size_t bytes = min_size(s.count, QUOTE_BYTES_MAX);
    for (size_t i = 0; i < bytes; i++)
        out[i] = s.data[i] > ' ' && s.data[i] <= '~' ? (char)s.data[i] : '?';
    memcpy(out + bytes, s.count > bytes ? "..." : "", s.count > bytes ? 4 : 1);
    return out;
}

void settings_fail(struct settings *s, const char *form, ...)
{
    ASSERT(form[0] != 0);
    if (s->error[0] != '\0')
        return;
    va_list list;
    va_start(list, form);
    format_list(s->error, sizeof s->error, form, list);
    va_end(list);
}

/*@ requires readable(word); assigns s->error[0 .. SETTINGS_ERROR_BYTES_MAX - 1]; */
static void fail_word(struct settings *s, const char *source, struct bytes word, const char *reason)
{
    char quoted[QUOTE_BYTES_MAX + 4];
    settings_fail(s, "settings, %s: \"%s\": %s", source, quote(word, quoted), reason);
}

/* Says where a word stands that may be a part of a secret, such as a password with a blank. */
/*@ requires before == \null || \valid_read(before); assigns s->error[0 .. SETTINGS_ERROR_BYTES_MAX - 1]; */
static void fail_hidden(struct settings *s, const char *source, const struct setting *before, size_t bytes,
                        const char *reason, const char *program)
{
    settings_fail(s, "settings, %s: %s%s%s (%zu bytes, not shown): %s%s", source, before ? "the word after " : "a word",
                  before ? before->name : "", before ? "=" : "", bytes, reason, program);
}

/* Returns true if a text looks like the name of a key, and not like a key to the machine. */
/*@ requires readable(name); assigns \result \from name, name.data[0 .. name.count - 1]; */
static bool looks_like_name(struct bytes name)
{
    enum { NAME_BYTES_MAX = 20 };
    bool good = name.count > 0 && name.count <= NAME_BYTES_MAX;
    for (size_t i = 0; good && i < name.count; i++) {
        uint8_t c = name.data[i], lower = c | 0x20;
        good = (lower >= 'a' && lower <= 'z') || (i > 0 && (c == '.' || c == '_' || (c >= '0' && c <= '9')));
    }
    return good;
}

/*@ requires readable(name) && (before == \null || \valid_read(before));
    assigns s->error[0 .. SETTINGS_ERROR_BYTES_MAX - 1]; */
static void fail_key(struct settings *s, const char *source, const struct setting *before, struct bytes name,
                     size_t bytes)
{
    char quoted[QUOTE_BYTES_MAX + 4];
    const char *reason = s->program ? "there is no such key in the program " : "there is no such key";
    const char *program = s->program ? s->program : "";
    if ((before && before->secret) || !looks_like_name(name))
        fail_hidden(s, source, before, bytes, reason, program);
    else
        settings_fail(s, "settings, %s: \"%s\": %s%s", source, quote(name, quoted), reason, program);
}

/*@ assigns s->error[0 .. SETTINGS_ERROR_BYTES_MAX - 1]; */
static void fail_row(struct settings *s, const struct setting *row, const char *mistake)
{
    settings_fail(s, "settings, the row of %s=: %s", row->name, mistake);
}

/*@ requires readable(value); assigns s->error[0 .. SETTINGS_ERROR_BYTES_MAX - 1]; */
static void fail_value(struct settings *s, const char *source, const struct setting *row, struct bytes value,
                       struct settings_refusal refusal)
{
    ASSERT(refusal.reason);
    char quoted[QUOTE_BYTES_MAX + 4], expected[SETTINGS_VALUE_BYTES_MAX];
    bool says_reason = refusal.reason[0] != '\0';
    const char *reason = says_reason ? refusal.reason : settings_describe(row, expected);
    const char *verb = says_reason ? "" : "expected ";
    if (refusal.part.data)
        value = refusal.part;
    if (row->secret)
        settings_fail(s, "settings, %s: %s= (%zu bytes, not shown): %s%s", source, row->name, value.count, verb,
                      reason);
    else
        settings_fail(s, "settings, %s: %s=: \"%s\": %s%s", source, row->name, quote(value, quoted), verb, reason);
}

/* ---- the tables ---- */

/* Finds the row of a key. False: no table has it. */
static bool find(const struct settings *s, struct bytes name, size_t *table, size_t *row)
{
    for (*table = 0; *table < s->table_count; ++*table)
        for (*row = 0; *row < s->tables[*table]->count; ++*row)
            if (text_is(name, s->tables[*table]->rows[*row].name))
                return true;
    return false;
}

/* Returns true if the row's member is as large as what its kind stores. */
static bool member_fits(const struct setting *row)
{
    switch (row->kind) {
    case SETTING_TIME:
        return row->bytes == sizeof(uint64_t);
    case SETTING_SWITCH:
        return row->bytes == sizeof(bool);
    case SETTING_CHOICE:
        return row->bytes == sizeof(enum setting_kind);
    case SETTING_TEXT:
        return row->bytes == row->max + 1;
    case SETTING_ADDRESS:
        return row->bytes == sizeof(uint32_t);
    case SETTING_ENDPOINT:
        return row->bytes == sizeof(struct endpoint);
    case SETTING_ENDPOINTS:
        return row->bytes == sizeof(struct endpoints);
    case SETTING_FOREIGN:
    case SETTING_NUMBER:
    case SETTING_CUSTOM:
        break;
    }
    return true;
}

/* Returns the mistake of a table's author in a row; NULL: there is none. All rows before this one have been checked. */
/*@ assigns \result \from *s, *row; admit ensures \result == \null; */
static const char *mistake_in_row(const struct settings *s, const struct setting *row)
{
    const uint64_t most = row->max != 0 ? row->max : UINT64_MAX;
    size_t t, i;
    if (find(s, text_of(row->name), &t, &i) && &s->tables[t]->rows[i] != row)
        return "another row has this key: rename the program's row";
    if (row->kind == SETTING_FOREIGN)
        return NULL;
    if (row->kind == SETTING_CUSTOM && !row->set)
        return ".set is missing";
    if (row->kind == SETTING_CHOICE && (!row->choices || !row->choices[0]))
        return ".choices is missing";
    if (!row->noun && (row->kind == SETTING_TEXT || row->kind == SETTING_ADDRESS || row->kind == SETTING_CUSTOM))
        return ".noun is missing";
    if (!row->help)
        return ".help is missing";
    if (!row->required && !row->initial && !row->unset)
        return "there is no default: set .initial, .unset or .required";
    if (row->min > most)
        return ".min is more than .max";
    if (row->kind == SETTING_NUMBER && row->bytes < sizeof most && most >> (8 * row->bytes) != 0)
        return ".max does not fit the member: widen it, or lower .max";
    return member_fits(row) ? NULL : "the member is not of the type that the kind has (base/settings.h)";
}

static void set_initial(struct settings *s, const struct settings_table *table, const struct setting *row)
{
    struct bytes value = text_of(row->initial);
    struct settings_refusal refusal = set_value(table, row, value);
    if (refusal.reason)
        fail_value(s, "the row's default", row, value, refusal);
}

void settings_begin(struct settings *s, const struct settings_table *const tables[], size_t count)
{
    ASSERT(count <= SETTINGS_TABLE_COUNT_MAX);
    memset(s, 0, sizeof *s);
    for (size_t t = 0; t < count; t++) {
        const struct settings_table *table = s->tables[s->table_count++] = tables[t];
        ASSERT(table->count <= SETTINGS_ROW_COUNT_MAX);
        if (table->values)
            memset(table->values, 0, table->values_bytes);
        for (size_t i = 0; i < table->count; i++) {
            const struct setting *row = &table->rows[i];
            const char *mistake = mistake_in_row(s, row);
            if (mistake)
                fail_row(s, row, mistake);
            else if (row->initial)
                set_initial(s, table, row);
        }
    }
    s->table_wrong = s->error[0] != '\0';
}

/* ---- words ---- */

/* Returns the word's row, or NULL. `before`: the row of the word before on the same line, or NULL. */
/*@ requires readable(word) && word.count > 0 && (before == \null || \valid_read(before)); assigns *s;
    assigns \result \from *s, word; */
static const struct setting *add_word(struct settings *s, const char *source, struct bytes word, bool first,
                                      const struct setting *before)
{
    struct bytes value = word, name;
    size_t t, i;
    text_split(&value, '=', &name);
    if (find(s, name, &t, &i)) {
        const struct setting *row = &s->tables[t]->rows[i];
        bool seen = s->seen[t] & BIT(i);
        s->seen[t] |= BIT(i);
        if (row->kind == SETTING_FOREIGN)
            return row;
        if (!value.data) {
            fail_word(s, source, word, "this key needs a value: key=value");
        } else if (seen && !row->repeats) {
            fail_word(s, source, name, "given twice");
        } else {
            struct settings_refusal refusal = set_value(s->tables[t], row, value);
            if (refusal.reason)
                fail_value(s, source, row, value, refusal);
        }
        return row;
    }
    /* Some loaders put the image's path in front: QEMU, kexec and GRUB by their multiboot forms. */
    if (first && !value.data && (word.data[0] == '/' || word.data[0] == '('))
        return NULL;
    if (value.data)
        fail_key(s, source, before, name, word.count);
    else
        fail_hidden(s, source, before, word.count, "not a key=value word; values have no blanks", "");
    return NULL;
}

/*@ assigns \nothing; ensures \result <==> c == ' ' || '\t' <= c <= '\r'; */
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void settings_add(struct settings *s, const char *source, const char *text, size_t bytes)
{
    ASSERT(s->table_count > 0);
    size_t at = 0;
    bool first = true;
    const struct setting *before = NULL;
    if (s->table_wrong)
        return;
    /*@ loop invariant at <= bytes; loop assigns at, first, before, *s; */
    while (at < bytes && text[at]) {
        if (is_space(text[at])) {
            if (text[at++] == '\n')
                before = NULL;
        } else if (text[at] == '#') {
            /*@ loop invariant at <= bytes; loop assigns at; loop variant bytes - at; */
            while (at < bytes && text[at] && text[at] != '\n')
                at++;
        } else {
            size_t from = at;
            /*@ loop invariant from <= at <= bytes; loop assigns at; loop variant bytes - at; */
            while (at < bytes && text[at] && !is_space(text[at]))
                at++;
            before = add_word(s, source, (struct bytes){ (const uint8_t *)text + from, at - from }, first, before);
            first = false;
        }
    }
}

void settings_secrets(const struct settings *s, const char *text, void (*note)(const void *bytes, size_t count))
{
    enum { VALUE_BYTES_MIN = 4 };
    for (const char *end = text; *text != '\0'; text = *end != '\0' ? end + 1 : end) {
        size_t t, i;
        for (end = text; *end != '\0' && !is_space(*end);)
            end++;
        struct bytes value = { (const uint8_t *)text, (size_t)(end - text) }, name;
        text_split(&value, '=', &name);
        if (!value.data || !find(s, name, &t, &i) || !s->tables[t]->rows[i].secret)
            continue;
        if (value.count >= VALUE_BYTES_MIN)
            note(value.data, value.count);
        else
            note(text, (size_t)(end - text));
    }
}

/* ---- the whole ---- */

/* Writes the names of all required keys: "a, b and c". */
static void required_names(const struct settings *s, char *out, size_t out_bytes)
{
    ASSERT(out_bytes > 0);
    const char *previous = NULL;
    size_t used = 0;
    out[0] = '\0';
    for (size_t t = 0; t < s->table_count; t++) {
        for (size_t i = 0; i < s->tables[t]->count; i++) {
            if (!s->tables[t]->rows[i].required)
                continue;
            if (previous)
                used += format(out + used, out_bytes - used, "%s%s", used ? ", " : "", previous);
            previous = s->tables[t]->rows[i].name;
        }
    }
    if (previous)
        format(out + used, out_bytes - used, "%s%s", used ? " and " : "", previous);
}

static void check_required(struct settings *s)
{
    for (size_t t = 0; t < s->table_count; t++) {
        for (size_t i = 0; i < s->tables[t]->count; i++) {
            char names[SETTINGS_ERROR_BYTES_MAX / 2];
            if (!s->tables[t]->rows[i].required || s->seen[t] & BIT(i))
                continue;
            required_names(s, names, sizeof names);
            settings_fail(s, "settings: %s= is missing; required: %s", s->tables[t]->rows[i].name, names);
            return;
        }
    }
}

void settings_check(const struct settings *s)
{
    ASSERT(s->table_count <= SETTINGS_TABLE_COUNT_MAX);
    for (size_t t = 0; t < s->table_count; t++) {
        ASSERT(s->tables[t]->count <= SETTINGS_ROW_COUNT_MAX);
        ASSERT(s->tables[t]->count == SETTINGS_ROW_COUNT_MAX || s->seen[t] >> s->tables[t]->count == 0);
    }
    ASSERT(strnlen(s->error, sizeof s->error) < sizeof s->error);
}

bool settings_finish(struct settings *s)
{
    check_required(s);
    for (size_t t = 0; t < s->table_count && s->error[0] == '\0'; t++) {
        const char *mistake = s->tables[t]->finish ? s->tables[t]->finish() : NULL;
        if (mistake)
            settings_fail(s, "settings: %s", mistake);
    }
    return s->error[0] == '\0';
}
