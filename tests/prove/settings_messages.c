/* Settings: messages about words and values of any bytes, up to twice the length that is quoted. */
#include "base/settings.c"

#include "tests/prove/include/settings_state.h"

static void message_ends(void)
{
    prove_holds(strlen(settings.error) < SETTINGS_ERROR_BYTES_MAX);
    settings.error[0] = '\0';
}

static void value(const struct setting *row, size_t bytes)
{
    fail_value(&settings, "source", row, prove_text(bytes), settings_refuse(SETTINGS_EXPECTED));
    message_ends();
    fail_value(&settings, "source", row, prove_text(1), settings_refuse_part("a reason", prove_text(bytes)));
    message_ends();
    fail_word(&settings, "source", prove_text(bytes), "a reason");
    message_ends();
}

void main(void)
{
    prove_state_begin();
    for (size_t bytes = QUOTE_BYTES_MAX - 1; bytes <= QUOTE_BYTES_MAX + 1; bytes++)
        value(settings.tables[0]->rows, bytes);
    for (size_t t = 0; t < settings.table_count; t++)
        for (size_t i = 0; i < settings.tables[t]->count; i++)
            if (settings.tables[t]->rows[i].kind != SETTING_FOREIGN)
                value(&settings.tables[t]->rows[i], i % 3);
}
