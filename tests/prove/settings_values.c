/* Settings: values of any bytes for each key, in any state. A longer value reaches no other code. */
#include "base/settings.c"

#include "tests/prove/include/settings_state.h"

/* Returns the longest value that a row is given. */
static size_t bytes_max(const struct setting *row)
{
    struct bytes name = text_of(row->name);
    if (row->kind == SETTING_TEXT || text_is(name, "virtio_mmio.device"))
        return 66;
    if (row->kind == SETTING_ENDPOINTS || text_is(name, "early.risk") || text_is(name, "test.resets"))
        return 9;
    if (row->kind == SETTING_ENDPOINT || text_is(name, "m") || text_is(name, "blackbox"))
        return 12;
    return text_is(name, "key") ? 132 : 19;
}

static void value(const struct settings_table *table, const struct setting *row, size_t bytes)
{
    prove_state_any();
    set_value(table, row, prove_text(bytes));
    prove_state_holds();
}

/* Gives m= numbers of about as many digits as it takes, followed by any two bytes. */
static void long_numbers(const struct settings_table *table, const struct setting *row)
{
    for (size_t bytes = MATCHER_MODULUS_DIGITS_MAX; bytes <= MATCHER_MODULUS_DIGITS_MAX + 3; bytes++) {
        for (size_t i = sizeof text - bytes; i < sizeof text - 2; i++)
            text[i] = (uint8_t)prove_number('0', '9');
        value(table, row, bytes);
        prove_any(text, sizeof text);
    }
}

static void values(const struct settings_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].kind != SETTING_FOREIGN)
            for (size_t bytes = 0; bytes <= bytes_max(&table->rows[i]); bytes++)
                value(table, &table->rows[i], bytes);
}

void main(void)
{
    prove_state_begin();
    for (size_t i = 0; i < player_settings_table.count; i++)
        if (text_is(text_of(player_settings_table.rows[i].name), "m"))
            long_numbers(&player_settings_table, &player_settings_table.rows[i]);
    for (size_t t = 0; t < settings.table_count; t++)
        values(settings.tables[t]);
}
