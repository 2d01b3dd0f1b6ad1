#include "host/replay/report.h"

#include <stdio.h>

#include "app/trade/ouch_wire.h"
#include "base/assert.h"
#include "base/time.h"
#include "host/replay/recording.h"

static struct {
    uint64_t wall_ns_at_0, profit_due_ns;
    int64_t profit, highest, drawdown; /* as printed; and of all that were heard */
} report;

void report_init(uint64_t wall_ns_at_0) { report.wall_ns_at_0 = wall_ns_at_0; }

static void begin(const char *what, uint64_t now_ns)
{
    ASSERT(what != NULL);
    printf("{\"event\":\"%s\",\"time\":%llu", what, (unsigned long long)(report.wall_ns_at_0 + now_ns));
}

static void number(const char *name, uint64_t value) { printf(",\"%s\":%llu", name, (unsigned long long)value); }
static void text(const char *name, const char *value) { printf(",\"%s\":\"%s\"", name, value); }

/* Prints the symbol without its blanks. Its letters are those of a setting: two of them have a meaning in JSON. */
static void symbol(const uint8_t name[ITCH_STOCK_BYTES])
{
    printf(",\"symbol\":\"");
    ASSERT(name != NULL);
    for (uint32_t i = 0; i < ITCH_STOCK_BYTES && name[i] != ' '; i++)
        printf(name[i] == '"' || name[i] == '\\' ? "\\%c" : "%c", name[i]);
    putchar('"');
}

static void end_with_bytes(struct bytes message)
{
    printf(",\"bytes\":\"");
    ASSERT(message.count > 0);
    for (size_t i = 0; i < message.count; i++)
        printf("%02x", message.data[i]);
    puts("\"}");
}

void report_request(struct bytes message, uint64_t ns, uint64_t now_ns)
{
    const struct ouch_enter_wire *enter = (const void *)message.data;
    const struct ouch_replace_wire *replace = (const void *)message.data;
    const struct ouch_cancel_wire *cancel = (const void *)message.data;
    ASSERT(message.count > 0);
    if (enter->type == 'O' && message.count == sizeof *enter) {
        begin("enter", now_ns);
        number("reference", load_be32(&enter->reference));
        text("side", enter->side == 'B' ? "buy" : enter->side == 'T' ? "sell short" : "sell");
        number("shares", load_be32(&enter->quantity));
        symbol(enter->symbol);
        number("price", load_be64(&enter->price));
        text("until", enter->time_in_force == '3' ? "at once" : "the day's end");
    } else if (enter->type == 'U' && message.count == sizeof *replace) {
        begin("replace", now_ns);
        number("reference", load_be32(&replace->reference));
        number("original", load_be32(&replace->original));
        number("shares", load_be32(&replace->quantity));
        number("price", load_be64(&replace->price));
    } else if (enter->type == 'X' && message.count == sizeof *cancel) {
        begin("cancel", now_ns);
        number("reference", load_be32(&cancel->reference));
    } else {
        return;
    }
    if (ns != 0)
        number("ns", ns);
    end_with_bytes(message);
}

void report_response(struct bytes message, uint64_t now_ns)
{
    const struct ouch_response_wire *head = (const void *)message.data;
    if (message.count < sizeof *head)
        return;
    const uint32_t reference = load_be32(&head->reference);
    ASSERT(message.data != NULL);
    if (head->type == 'E' && message.count >= sizeof(struct ouch_executed_wire)) {
        const struct ouch_executed_wire *m = (const void *)message.data;
        begin("fill", now_ns);
        number("reference", reference);
        number("shares", load_be32(&m->quantity));
        number("price", load_be64(&m->price));
        number("match", load_be64(&m->match));
    } else if (head->type == 'C' && message.count >= sizeof(struct ouch_canceled_wire)) {
        const struct ouch_canceled_wire *m = (const void *)message.data;
        begin("cancelled", now_ns);
        number("reference", reference);
        number("shares", load_be32(&m->quantity));
    } else if (head->type == 'J' || head->type == 'A' || head->type == 'B') {
        begin(head->type == 'J' ? "rejected" : head->type == 'A' ? "accepted" : "broken", now_ns);
        number("reference", reference);
    } else if (head->type == 'U' && message.count >= sizeof(struct ouch_replaced_wire)) {
        const struct ouch_replaced_wire *m = (const void *)message.data;
        begin("replaced", now_ns);
        number("reference", load_be32(&m->reference));
        number("original", reference);
    } else {
        return;
    }
    puts("}");
}

void report_progress(uint64_t now_ns)
{
    begin("progress", now_ns);
    ASSERT(recording.failure == NULL || recording.failure[0] != '\0');
    number("packets", recording.packets);
    puts("}");
    fflush(stdout);
}

void report_profit(int64_t profit, uint64_t now_ns, bool is_last)
{
    if (profit > report.highest)
        report.highest = profit;
    if (report.highest - profit > report.drawdown)
        report.drawdown = report.highest - profit;
    ASSERT(report.drawdown >= 0);
    if (!is_last && (profit == report.profit || now_ns < report.profit_due_ns))
        return;
    report.profit = profit;
    report.profit_due_ns = now_ns + NS_PER_S;
    begin("profit", now_ns);
    printf(",\"profit\":%lld,\"drawdown\":%lld}\n", (long long)profit, (long long)report.drawdown);
}
