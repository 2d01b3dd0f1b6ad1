#include "app/trade/parts.h"

#include <string.h>

#include "app/service/stats.h"
#include "base/assert.h"
#include "base/format.h"
#include "base/log.h"
#include "base/trace.h"

struct trade trade;

static const struct counter_group counter_group = COUNTER_GROUP("trade.", "The trading program", TRADE_COUNTERS,
                                                                trade.counters);

#define REFUSED_ROW(verdict, name) COUNTER_ROW(ALERT, name)
#define REFUSED(X)                 RISK_LIMITS(REFUSED_ROW)
static const struct counter_group refused_group = COUNTER_GROUP("risk.refused_", "Orders that a limit has refused",
                                                                REFUSED, trade.refused[RISK_PASSED + 1]);

static const struct counter_group switch_group = COUNTER_GROUP("pool.trade_", "Level of a pool", TRADE_SWITCHES,
                                                               trade.switches);

struct shown_unrehearsed shown_unrehearsed;
static const struct counter_group unrehearsed_group = COUNTER_GROUP("rehearsal.refused_", "Rehearsals",
                                                                    SHOWN_UNREHEARSED, shown_unrehearsed);

struct histogram shown_tick_to_order;

static const char market_help[] = "Best prices, our position, fills and profit by symbol";
#define MARKET(name)                                                                                                   \
    {                                                                                                                  \
        "market_" #name, market_help, "symbol", "", "." #name, COUNTER_LEVEL                                           \
    }
static const struct counter_metric market_metrics[SHOWN_VALUE_COUNT] = {
    MARKET(bid),      MARKET(ask),       MARKET(last),  MARKET(long),   MARKET(short),
    MARKET(open_buy), MARKET(open_sell), MARKET(fills), MARKET(profit), MARKET(loss),
};

/* Returns a number of shares of 30 bits: an exchange may say that we hold more. */
static int64_t cut(int64_t shares)
{
    const int64_t most = INT64_C(1) << 30;
    return shares > most ? most : shares < -most ? -most : shares;
}

/* Returns the profit of a symbol since the day began, in units of 0.0001: cash, and the position at the last price
 * that was heard. A snapshot or a broken trade may have taken that price out of the book. Shares that were held before
 * count from the first price on. Without any price shares have no value, and there is no profit. No product or sum
 * exceeds 63 bits: a price has 31, a position is cut to 30, and cash has 61. */
static int64_t profit_of(uint32_t symbol)
{
    const struct ouch_symbol *own = ouch_symbol(symbol);
    const int64_t price = book_top(symbol)->last_price;
    struct value *v = &trade.values[symbol];
    ASSERT(symbol < trade_settings.symbol_count);
    if (price != 0)
        v->last_price = price;
    if (v->first_price == 0)
        v->first_price = price;
    if (v->first_price == 0 && (own->position != 0 || v->shares != 0))
        return 0;
    return own->cash + cut(own->position) * v->last_price - v->shares * v->first_price;
}

void shown_begin_day(void)
{
    ASSERT(trade_settings.symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++) {
        trade.values[i].shares = cut(ouch_symbol(i)->position);
        trade.values[i].first_price = trade.values[i].last_price;
    }
}

int64_t shown_profit_of_day(void)
{
    const int64_t most = INT64_C(1) << 61;
    int64_t sum = 0;
    for (uint32_t i = 0; i < trade_settings.symbol_count; i++) {
        sum += profit_of(i);
        sum = sum > most ? most : sum < -most ? -most : sum;
    }
    ASSERT(sum >= -most && sum <= most);
    return sum;
}

void shown_refresh(void)
{
    ASSERT(trade_settings.symbol_count > 0);
    for (uint32_t i = 0; i < min_u32(trade_settings.symbol_count, SHOWN_COUNT_MAX); i++) {
        const struct book_top *top = book_top(i);
        const struct ouch_symbol *own = ouch_symbol(i);
        const int64_t profit = profit_of(i);
        const uint64_t values[SHOWN_VALUE_COUNT] = {
            top->price[BOOK_BUY],
            top->price[BOOK_SELL],
            top->last_price,
            own->position > 0 ? (uint64_t)own->position : 0,
            own->position < 0 ? (uint64_t)-own->position : 0,
            own->open_shares[BOOK_BUY],
            own->open_shares[BOOK_SELL],
            own->fills,
            profit > 0 ? (uint64_t)profit : 0,
            profit < 0 ? (uint64_t)-profit : 0,
        };
        memcpy(trade.shown[i], values, sizeof values);
    }
    trade.switches.stopped = trade.stopped;
    trade.switches.feed_current = trade.feed_heard && mold_is_current();
    trade.switches.session_ready = ouch_is_ready();
    trade.switches.market_open = book_market_is_open() && !ouch_day_is_over();
    const int64_t profit = shown_profit_of_day();
    trade.switches.profit = profit > 0 ? (uint64_t)profit : 0;
    trade.switches.loss = profit < 0 ? (uint64_t)-profit : 0;
}

static void register_market(void)
{
    static char names[SHOWN_COUNT_MAX * SHOWN_VALUE_COUNT][SHOWN_NAME_BYTES];
    static struct counter table[ARRAY_COUNT(names)];
    size_t count = 0;
    for (uint32_t i = 0; i < min_u32(trade_settings.symbol_count, SHOWN_COUNT_MAX); i++)
        for (uint32_t k = 0; k < SHOWN_VALUE_COUNT; k++, count++) {
            ASSERT(count < ARRAY_COUNT(names));
            int bytes = ITCH_STOCK_BYTES;
            while (trade_settings.symbols[i][bytes - 1] == ' ')
                bytes--;
            format(names[count], SHOWN_NAME_BYTES, "%.*s%s", bytes, (const char *)trade_settings.symbols[i],
                   market_metrics[k].tail);
            table[count] = (struct counter){ names[count], COUNTER_LABELLED + k };
        }
    stats_add_counters(&(struct counter_group){ "market.", market_help, table, trade.shown[0], count, market_metrics,
                                                SHOWN_VALUE_COUNT });
}

static const struct counter_group *const watched_groups[] = { &book_counter_group, &mold_counter_group,
                                                              &soup_counter_group, &ouch_counter_group,
                                                              &counter_group,      &refused_group };

void shown_register(void)
{
    histogram_clear(&shown_tick_to_order);
    stats_add_histogram("trade.tick_to_order", &shown_tick_to_order);
    for (size_t i = 0; i < ARRAY_COUNT(watched_groups); i++)
        stats_add_counters(watched_groups[i]);
    stats_add_counters(&book_level_group);
    stats_add_counters(&ouch_level_group);
    stats_add_counters(&switch_group);
    stats_add_counters(&unrehearsed_group);
    register_market();
    stats_set_ways("seen_to_decided_ns decided_to_published_ns published_to_kicked_ns");
    trace.fine = true;
}

void shown_say_once(void)
{
    bool *said = trade.said;
    for (size_t i = 0; i < ARRAY_COUNT(watched_groups); i++)
        for (size_t k = 0; k < watched_groups[i]->count; k++, said++) {
            const struct counter_group *group = watched_groups[i];
            ASSERT(said < trade.said + SHOWN_SAID_COUNT_MAX);
            if (group->values[k] != 0 && !*said && counter_is_alert(group->counters[k].kind))
                log_line("trade: %s%s has risen to %llu; from now on it is counted and not logged", group->prefix,
                         group->counters[k].name, (unsigned long long)group->values[k]);
            *said = group->values[k] != 0;
        }
}
