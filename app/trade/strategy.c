#include "app/trade/strategy.h"

#include "base/assert.h"
#include "base/text.h"

struct settings_refusal strategy_set_price(void *member, struct bytes value)
{
    uint32_t *price = member;
    struct bytes whole;
    uint64_t units = 0, parts = 0;
    if (!text_split(&value, '.', &whole) || !text_number(whole, 0, ITCH_PRICE_MAX / ITCH_PRICE_UNIT, &units))
        return settings_refuse(SETTINGS_EXPECTED);
    if (value.data != NULL) {
        if (value.count > ITCH_PRICE_DECIMALS || !text_number(value, 0, ITCH_PRICE_UNIT - 1, &parts))
            return settings_refuse(SETTINGS_EXPECTED);
        for (size_t i = value.count; i < ITCH_PRICE_DECIMALS; i++)
            parts *= 10;
    }
    *price = (uint32_t)(units * ITCH_PRICE_UNIT + parts);
    return *price > 0 && *price <= ITCH_PRICE_MAX ? settings_accept() : settings_refuse(SETTINGS_EXPECTED);
}
