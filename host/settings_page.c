/* Prints the rows of all tables. Knows no key. */
#include "host/settings_page.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { HELP_COLUMNS = 100, HELP_INDENT = 20 };

static const char *default_of(const struct setting *row)
{
    ASSERT(row->required || row->initial || row->unset);
    return row->required ? "required" : row->initial ? row->initial : row->unset;
}

/* Prints text for a cell: a bar would end it. */
static void print_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

static void print_row(const struct setting *row)
{
    char value[SETTINGS_VALUE_BYTES_MAX];
    const char *mark = !row->required && row->initial ? "`" : "";
    ASSERT(row->help);
    printf("| `%s` | ", row->name);
    print_cell(settings_describe(row, value));
    printf(" | ");
    print_cell(row->help);
    printf(" | %s%s%s |\n", mark, default_of(row), mark);
}

void settings_page_print_table(const struct settings *settings)
{
    printf("| key | value | what it does | default |\n|---|---|---|---|\n");
    for (size_t t = 0; t < settings->table_count; t++)
        for (size_t i = 0; i < settings->tables[t]->count; i++)
            if (settings->tables[t]->rows[i].kind != SETTING_FOREIGN)
                print_row(&settings->tables[t]->rows[i]);
}

/* Takes the marks of Markdown out of a text: "[page](page)" becomes "page", and "`word`" becomes "word". */
static void drop_marks(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const char *end = strchr(from, ']');
        if (*from == '`' || (*from == '[' && end && end[1] == '('))
            continue;
        if (*from == ']' && from[1] == '(' && strchr(from, ')')) {
            from = strchr(from, ')');
            continue;
        }
        *to++ = *from;
    }
    *to = '\0';
    ASSERT(to >= text);
}

/* Prints text in lines of HELP_COLUMNS at most, indented; the cursor stands at `column`. */
static void print_wrapped(const char *text, int column)
{
    ASSERT(column >= 0);
    while (*text) {
        int bytes = (int)strcspn(text, " ");
        if (column + bytes > HELP_COLUMNS) {
            printf("\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        }
        printf("%.*s ", bytes, text);
        column += bytes + 1;
        text += bytes + (text[bytes] == ' ');
    }
    printf("\n");
}

void settings_page_print_help(const struct settings *settings)
{
    for (size_t t = 0; t < settings->table_count; t++) {
        for (size_t i = 0; i < settings->tables[t]->count; i++) {
            const struct setting *row = &settings->tables[t]->rows[i];
            char value[SETTINGS_VALUE_BYTES_MAX], text[1024];
            if (row->kind == SETTING_FOREIGN)
                continue;
            snprintf(text, sizeof text, "%s (%s): %s", settings_describe(row, value), default_of(row), row->help);
            drop_marks(text);
            int column = printf("  %s= ", row->name);
            column += printf("%*s", column < HELP_INDENT ? HELP_INDENT - column : 0, "");
            print_wrapped(text, column);
        }
    }
}
