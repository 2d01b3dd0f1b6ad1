#include "app/trade/settings.h"

#include <string.h>

#include "base/assert.h"

struct trade_settings trade_settings;

/* ---- values of no plain kind ---- */

/* Reads IP:PORT: the address is a multicast group, or 0.0.0.0 for datagrams to our own address. */
static struct settings_refusal set_line(void *member, struct bytes value)
{
    struct endpoint *line = member;
    struct bytes address;
    uint64_t port;
    if (!text_split(&value, ':', &address) || value.data == NULL || !text_number(value, 1, UINT16_MAX, &port)
        || !text_address(address, &line->address))
        return settings_refuse(SETTINGS_EXPECTED);
    if (line->address != 0 && line->address >> 28 != 0xe)
        return settings_refuse_part("neither a multicast group nor 0.0.0.0", address);
    line->port = (uint16_t)port;
    return settings_accept();
}

/* Copies a symbol, padded with blanks. */
static struct settings_refusal set_symbol(uint8_t name[ITCH_STOCK_BYTES], struct bytes part)
{
    if (part.count == 0 || part.count > ITCH_STOCK_BYTES)
        return settings_refuse_part("a symbol has 1 to 8 letters", part);
    for (size_t i = 0; i < part.count; i++)
        if (part.data[i] <= ' ' || part.data[i] > '~')
            return settings_refuse_part("a symbol has printable letters", part);
    memset(name, ' ', ITCH_STOCK_BYTES);
    memcpy(name, part.data, part.count);
    return settings_accept();
}

static struct settings_refusal set_symbols(void *values, struct bytes value)
{
    struct trade_settings *s = values;
    struct bytes part;
    while (text_split(&value, ',', &part)) {
        if (s->symbol_count == BOOK_SYMBOL_COUNT_MAX)
            return settings_refuse("at most 64 symbols");
        uint8_t *name = s->symbols[s->symbol_count];
        struct settings_refusal refusal = set_symbol(name, part);
        if (refusal.reason != NULL)
            return refusal;
        for (uint32_t i = 0; i < s->symbol_count; i++)
            if (memcmp(s->symbols[i], name, ITCH_STOCK_BYTES) == 0)
                return settings_refuse_part("a symbol stands twice in the list", part);
        s->symbol_count++;
    }
    ASSERT(s->symbol_count <= BOOK_SYMBOL_COUNT_MAX);
    return settings_accept();
}

static struct settings_refusal set_positions(void *values, struct bytes value)
{
    struct trade_settings *s = values;
    struct bytes part, name;
    while (text_split(&value, ',', &part)) {
        struct trade_position *position = &s->positions[s->position_count];
        const struct bytes whole = part;
        uint64_t shares;
        if (s->position_count == BOOK_SYMBOL_COUNT_MAX)
            return settings_refuse("at most 64 positions");
        if (!text_split(&part, ':', &name) || part.count == 0)
            return settings_refuse_part("a position is SYMBOL:SHARES", whole);
        struct settings_refusal refusal = set_symbol(position->symbol, name);
        if (refusal.reason != NULL)
            return refusal;
        const bool is_signed = part.data[0] == '+' || part.data[0] == '-', is_short = part.data[0] == '-';
        if (!text_number((struct bytes){ part.data + is_signed, part.count - is_signed }, 0, TRADE_POSITION_MAX,
                         &shares))
            return settings_refuse_part("the shares are a number from -100000000 to 100000000", whole);
        for (uint32_t i = 0; i < s->position_count; i++)
            if (memcmp(s->positions[i].symbol, position->symbol, ITCH_STOCK_BYTES) == 0)
                return settings_refuse_part("a symbol has two positions", whole);
        position->shares = is_short ? -(int64_t)shares : (int64_t)shares;
        s->position_count++;
    }
    ASSERT(s->position_count <= BOOK_SYMBOL_COUNT_MAX);
    return settings_accept();
}

/* ---- the table ---- */

#define NAME(name, help)     #name,
#define HELP(name, help)     "`" #name "` " help ", "
#define PART(name, help)     &strategy_##name.settings,
#define STRATEGY(name, help) &strategy_##name,
static const char *const strategy_names[] = { "watch", STRATEGIES(NAME) NULL };
static const struct settings_table *const parts[] = { STRATEGIES(PART) NULL };

const struct strategy *trade_strategy(void)
{
    static const struct strategy *const strategies[] = { NULL, STRATEGIES(STRATEGY) };
    ASSERT(trade_settings.strategy < ARRAY_COUNT(strategies));
    return strategies[trade_settings.strategy];
}

#define LINE_NOUN  "GROUP:PORT, or 0.0.0.0:PORT for datagrams to this machine's address"

#define AT(member) SETTING_AT(struct trade_settings, member)
static const struct setting rows[] = {
    { "feed.a", SETTING_CUSTOM, AT(feed[0]), .set = set_line, .required = true, .noun = LINE_NOUN,
      .help = "line A of the market data (MoldUDP64)" },
    { "feed.b", SETTING_CUSTOM, AT(feed[1]), .set = set_line, .unset = "there is one line", .noun = LINE_NOUN,
      .help = "line B, the same messages again; whichever line brings a message first wins" },
    { "feed.a.source", SETTING_ADDRESS, AT(source[0]), .unset = "the host that is heard first", .noun = "an IP",
      .help = "the host that sends line A; datagrams of others are dropped" },
    { "feed.b.source", SETTING_ADDRESS, AT(source[1]), .unset = "the host that is heard first", .noun = "an IP",
      .help = "the same for line B" },
    { "feed.session", SETTING_TEXT, AT(session), .min = 1, .max = MOLD_SESSION_BYTES, .unset = "any that flows",
      .noun = "a name",
      .help =
          "the only session of the feed that is taken; unset: the first that is heard, until it ends, is silent for "
          "feed.timeout, or brings nothing for so long while another one does" },
    { "rerequest", SETTING_ENDPOINT, AT(rerequest), .unset = "none",
      .help = "the server that repeats messages which both lines have lost" },
    { "rerequest.port", SETTING_NUMBER, AT(rerequest_port), .min = 1, .max = UINT16_MAX, .initial = "26410",
      .noun = "a UDP port", .help = "of this machine, where that server's answers come in" },
    { "snapshot", SETTING_ENDPOINT, AT(snapshot), .unset = "none",
      .help =
          "the server of whole books (GLIMPSE), asked when a gap cannot be filled or a message contradicts the books" },
    { "orders", SETTING_ENDPOINT, AT(orders[0]), .required = true, .help = "where orders go (OUCH over SoupBinTCP)" },
    { "orders.b", SETTING_ENDPOINT, AT(orders[1]), .unset = "none",
      .help = "a second host of the same account and session, where the program logs in when the first is lost or does "
              "not answer" },
    { "user", SETTING_TEXT, AT(user), .min = 1, .max = SOUP_USER_BYTES, .noun = "a name", .required = true,
      .help = "of the account, for orders and snapshots" },
    { "passwd", SETTING_TEXT, AT(password), .max = SOUP_PASSWORD_BYTES, .noun = "a word", .required = true,
      .secret = true, .help = "of the account; `passwd=` may be empty" },
    { "symbols", SETTING_CUSTOM, .set = set_symbols, .required = true, .noun = "up to 64 symbols with commas",
      .help = "the books that are kept; the status page shows the first 16" },
    { "orders.max", SETTING_NUMBER, AT(order_count_max), .min = 1024, .max = BOOK_ORDER_COUNT_MAX, .initial = "1048576",
      .noun = "a number of orders", .help = "that all books together hold; symbols with more are not traded" },
    { "gap.wait", SETTING_TIME, AT(gap_wait_ns), .max = NS_PER_S, .initial = "500us",
      .help = "how long a gap waits for the other line before it is rerequested" },
    { "feed.timeout", SETTING_TIME, AT(feed_timeout_ns), .min = NS_PER_MS, .initial = "3",
      .help = "the feed counts as lost after so long without a datagram of either line" },
    { "strategy", SETTING_CHOICE, AT(strategy), .choices = strategy_names, .initial = "watch",
      .help = STRATEGIES(HELP) "`watch` orders nothing" },
    { "shares", SETTING_NUMBER, AT(shares), .min = 1, .max = RISK_SHARES_MAX, .initial = "100",
      .noun = "a number of shares", .help = "of each order" },
    { "risk.collar", SETTING_NUMBER, AT(risk.collar_percent), .min = 1, .max = RISK_COLLAR_PERCENT_MAX, .initial = "5",
      .noun = "a percentage",
      .help = "an order's price is at most so far from the last trade's, or worse than the middle of the quote" },
    { "risk.shares", SETTING_NUMBER, AT(risk.shares_max), .min = 1, .max = RISK_SHARES_MAX, .initial = "100",
      .noun = "a number of shares", .help = "of one order" },
    { "risk.notional", SETTING_NUMBER, AT(risk.notional_max), .min = 1, .max = 1000000000, .initial = "50000",
      .noun = "an amount", .help = "price times shares of one order" },
    { "risk.position", SETTING_NUMBER, AT(risk.position_max), .min = 1, .max = 100000000, .initial = "500",
      .noun = "a number of shares",
      .help = "held or sold short of one symbol, if all open orders are executed; beyond it no order leaves" },
    { "risk.open", SETTING_NUMBER, AT(risk.open_max), .min = 1, .max = RISK_OPEN_MAX, .initial = "8",
      .noun = "a number of orders", .help = "that are open at the same time" },
    { "risk.rate", SETTING_NUMBER, AT(risk.rate_max), .min = 1, .max = RISK_RATE_MAX, .initial = "10",
      .noun = "a number of orders", .help = "that leave in any second, replacements included" },
    { "risk.replaces", SETTING_NUMBER, AT(risk.replaces_max), .min = 1, .max = RISK_REPLACES_MAX, .initial = "10",
      .noun = "a number of replacements", .help = "of one symbol's orders that leave in any second" },
    { "risk.short", SETTING_SWITCH, AT(risk.may_sell_short), .initial = "off",
      .help = "an order may sell shares that are not held" },
    { "risk.day.orders", SETTING_NUMBER, AT(risk.day_orders_max), .min = 1, .max = UINT32_MAX, .initial = "100000",
      .noun = "a number of orders", .help = "that leave in a day, replacements included" },
    { "risk.day.shares", SETTING_NUMBER, AT(risk.day_shares_max), .min = 1, .max = UINT64_C(1) << 40,
      .initial = "10000000", .noun = "a number of shares", .help = "of all orders of a day" },
    { "risk.loss", SETTING_NUMBER, AT(loss_max), .min = 1, .max = 1000000000, .initial = "5000", .noun = "an amount",
      .help = "lost in the day, open positions at the last price, at which the program stops and cancels" },
    { "risk.rejects", SETTING_NUMBER, AT(rejects_max), .min = 1, .max = OUCH_REJECT_COUNT, .initial = "10",
      .noun = "a number of orders",
      .help = "rejected in a row or in a second, at which the program stops and cancels" },
    { "position", SETTING_CUSTOM, .set = set_positions, .unset = "none", .noun = "SYMBOL:SHARES with commas",
      .help = "shares held before the session, negative if sold short; the session's fills add to them" },
    { "cancel.on.loss", SETTING_SWITCH, AT(cancel_on_loss), .initial = "on",
      .help = "cancel all orders when the feed is lost, and after the orders' session was lost" },
    { "cancel.on.start", SETTING_SWITCH, AT(cancel_on_start), .initial = "off",
      .help = "cancel the orders that an earlier run has left open before anything is ordered; off: they are kept" },
    { "stopped", SETTING_SWITCH, AT(stopped), .initial = "off",
      .help = "begin as after `gg --set stop`: cancel what is open, order nothing until `--set start`" },
    { "cancel.on.exit", SETTING_SWITCH, AT(cancel_on_exit), .initial = "on",
      .help = "cancel all orders before the program ends" },
};

/* Returns true if each position is of one of the symbols, and notes of which. */
static bool positions_are_of_symbols(struct trade_settings *s)
{
    ASSERT(s->position_count <= BOOK_SYMBOL_COUNT_MAX);
    for (uint32_t i = 0; i < s->position_count; i++) {
        uint32_t at = 0;
        while (at < s->symbol_count && memcmp(s->symbols[at], s->positions[i].symbol, ITCH_STOCK_BYTES) != 0)
            at++;
        if (at == s->symbol_count)
            return false;
        s->positions[i].at = at;
    }
    return true;
}

static const char *finish(void)
{
    struct trade_settings *s = &trade_settings;
    ASSERT(s->symbol_count > 0);
    if (!positions_are_of_symbols(s))
        return "position= names a symbol that symbols= lacks";
    s->loss_max *= ITCH_PRICE_UNIT;
    s->risk.notional_max *= ITCH_PRICE_UNIT; /* the setting is in whole units of the currency */
    if (s->feed[1].port == s->feed[0].port && s->feed[1].address == s->feed[0].address)
        return "feed.a= and feed.b= are the same line";
    if (s->shares > s->risk.shares_max)
        return "shares= is more than risk.shares=";
    const struct strategy *chosen = trade_strategy();
    return chosen != NULL && chosen->check != NULL ? chosen->check() : NULL;
}

const struct settings_table trade_settings_table = {
    rows, ARRAY_COUNT(rows), &trade_settings, sizeof trade_settings, finish, parts,
};
