/* The strategy `skew`: a market maker that leans against its position. README.md builds it step by step.
 *
 * The fair price lies between the best bid and ask, nearer to the side with fewer shares: that one goes first. Our
 * prices stand skew.spread= below and above it. Each lot of shares= that is held moves both down by skew.lean=: who is
 * long buys for less, and sells for less. */
#include "app/trade/strategy.h"
#include "base/assert.h"
#include "base/time.h"

enum { LEVELS = 3, TICK = 100 }; /* the levels that count; a cent */

static struct skew {
    uint32_t spread, lean;
    uint64_t rest_ns;
} skew;

/* Kept for each symbol. */
struct state {
    int64_t fair;                       /* 0: a side has no price */
    uint64_t moved_ns[BOOK_SIDE_COUNT]; /* when our order was moved */
};

/* Returns the shares at the best levels of a side, 2^31 at most: times a distance of prices they fit 63 bits. */
static int64_t weight_of(uint32_t symbol, enum book_side side)
{
    struct book_level level;
    uint64_t shares = 0;
    for (uint32_t rank = 0; rank < LEVELS && book_level(symbol, side, rank, &level); rank++)
        shares += level.shares;
    return (int64_t)min_u64(shares, UINT64_C(1) << 31);
}

static void observe(struct strategy_view *view)
{
    struct state *s = view->state;
    const int64_t bid = view->top->price[BOOK_BUY], ask = view->top->price[BOOK_SELL];
    const int64_t buyers = weight_of(view->symbol, BOOK_BUY), sellers = weight_of(view->symbol, BOOK_SELL);
    ASSERT(view->shares > 0);
    s->fair = bid > 0 && ask > bid ? bid + (ask - bid) * buyers / (buyers + sellers) : 0;
}

/* Returns the price at which we want to stand; 0: nowhere. */
static uint32_t price_of(const struct strategy_view *view, enum book_side side)
{
    const struct state *s = view->state;
    const int64_t lean = view->own->position * skew.lean / view->shares;
    const int64_t best = view->top->price[book_other(side)];
    ASSERT(s->fair >= 0);
    if (s->fair == 0)
        return 0;
    if (side == BOOK_BUY) {
        const int64_t wish = (s->fair - lean - skew.spread) / TICK * TICK, price = wish < best ? wish : best - TICK;
        return price > 0 ? (uint32_t)price : 0;
    }
    const int64_t wish = (s->fair - lean + skew.spread + TICK - 1) / TICK * TICK;
    const int64_t price = wish > best ? wish : best + TICK;
    return price <= ITCH_PRICE_MAX ? (uint32_t)price : 0;
}

static bool decide(struct strategy_view *view, enum book_side side, struct strategy_order *order)
{
    struct state *s = view->state;
    const struct ouch_order *own = &view->own->own[side];
    const uint32_t price = price_of(view, side);
    ASSERT(side < BOOK_SIDE_COUNT);
    if (own->state == OUCH_SENT || own->cancelling || (own->state == OUCH_OPEN && own->price == price))
        return false; /* one message about an order at a time */
    if (own->state == OUCH_OPEN && price != 0 && view->now_ns < s->moved_ns[side] + skew.rest_ns) {
        view->wake_ns = s->moved_ns[side] + skew.rest_ns; /* the order keeps its place in the queue */
        return false;
    }
    s->moved_ns[side] = view->now_ns;
    if (own->state == OUCH_OPEN)
        *order = (struct strategy_order){ .kind = price == 0 || own->executed ? STRATEGY_CANCEL : STRATEGY_REPLACE,
                                          .price = price,
                                          .shares = own->open_shares };
    else
        *order = (struct strategy_order){ .price = price, .shares = price != 0 ? strategy_room(view, side) : 0 };
    return order->shares > 0;
}

#define AT(member) SETTING_AT(struct skew, member)
static const struct setting rows[] = {
    { "skew.spread", SETTING_CUSTOM, AT(spread), .set = strategy_set_price, .initial = "0.02",
      .noun = STRATEGY_PRICE_NOUN, .help = "`skew` stands this far below and above the fair price" },
    { "skew.lean", SETTING_CUSTOM, AT(lean), .set = strategy_set_price, .initial = "0.01", .noun = STRATEGY_PRICE_NOUN,
      .help = "each lot of `shares=` that `skew` holds moves both its prices by this" },
    { "skew.rest", SETTING_TIME, AT(rest_ns), .max = 60 * NS_PER_S, .initial = "100ms",
      .help = "an order of `skew` stays where it is for this time" },
};

const struct strategy strategy_skew = {
    .decide = decide,
    .observe = observe,
    .state_bytes = sizeof(struct state),
    .settings = { rows, ARRAY_COUNT(rows), &skew, sizeof skew, NULL, NULL },
};
