#include "app/trade/trade.h"

#include <string.h>

#include "app/service/control.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/trade/parts.h"
#include "base/assert.h"
#include "base/format.h"
#include "base/log.h"
#include "base/time.h"
#include "base/trace.h"
#include "net/transport_path.h"

enum {
    TURN_NS = 20 * NS_PER_US, /* after this a turn begins no further piece of work */
    POLL_NS = NS_PER_MS,      /* from one check of the timers to the next */
    RECONSIDER_NS = 100 * NS_PER_MS,
    CATCH_UP_NS = 100 * NS_PER_MS, /* for all datagrams that wait in rings and a socket */
    EVENTS_PER_TURN_MAX = 64,
    LEAVE_S = 3, /* for the cancellations before the program ends */
};

const char *trade_set(struct bytes word)
{
    const char *refusal = NULL;
    ASSERT(word.data != NULL || word.count == 0);
    if (text_is(word, "stop")) {
        orders_stop("the operator has said so");
    } else if (text_is(word, "start")) {
        log_line("trade: started by the operator");
        trade.stopped = false;
        ouch_forget_rejects();
        orders_watch_limits();
        refusal = trade.stopped ? "the day's loss has reached risk.loss=" : NULL;
    } else if (text_is(word, "leave")) {
        refusal = orders_leave();
    } else {
        return "the words that the running program takes are stop and start";
    }
    shown_refresh();
    return refusal;
}

const char *trade_init(const struct program_machine *machine, uint64_t now_ns)
{
    const struct trade_settings *s = &trade_settings;
    ASSERT(machine->tsc_khz > 0 && machine->now_ns != NULL);
    memset(&trade, 0, sizeof trade);
    memset(&shown_unrehearsed, 0, sizeof shown_unrehearsed);
    trade.dirty = trade_all_symbols();
    trade.clock_ns = machine->now_ns;
    trade.ns_per_cycle_32 = (NS_PER_MS << 32) / machine->tsc_khz;
    trade.next_poll_ns = trade.turn_ends_ns = trade.began_ns = now_ns;
    memcpy(trade.names, s->symbols, s->symbol_count * sizeof s->symbols[0]);
    book_init(s->symbols, s->symbol_count, s->order_count_max, load_le64(machine->secret));
    uint8_t session[MOLD_SESSION_BYTES + 1];
    format((char *)session, sizeof session, "%-10.10s", s->session);
    mold_init(s->gap_wait_ns, s->feed_timeout_ns, s->session[0] != '\0' ? session : NULL);
    ouch_init(s->symbols, s->symbol_count);
    orders_begin();
    for (uint32_t i = 0; i < s->position_count; i++) {
        trade.values[s->positions[i].at].shares = s->positions[i].shares;
        ouch_set_position(s->positions[i].at, s->positions[i].shares);
    }
    memcpy(trade.source, s->source, sizeof trade.source);
    memset(&soup_counters, 0, sizeof soup_counters);
    link_init(&trade.orders, "orders", &s->orders[0], s->user, s->password);
    link_add_host(&trade.orders, &s->orders[1]);
    link_init(&trade.snapshot, "snapshot", &s->snapshot, s->user, s->password);
    trade.orders.wanted = true;
    trade.snapshot_wait_s = 1;
    if (s->stopped)
        orders_stop("the settings say so: stopped=on");
    shown_register();
    control_on_set(trade_set);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, s->orders[0].port, (struct bytes){ NULL, 0 }, rehearse_order);
    rehearsal_add_work(rehearse_warm_up);
    for (uint32_t line = 0; line < 2; line++) {
        const struct endpoint *feed = &s->feed[line];
        bool bound = line > 0 && feed->port == s->feed[0].port;
        if (feed->port != 0 && !bound && !transport_udp_bind(feed->port))
            return "feed.a=, feed.b=: this port cannot be had";
        if (feed->address != 0 && !transport_udp_join(feed->address))
            return "feed.a=, feed.b=: this group cannot be joined";
    }
    if (s->rerequest.address != 0 && !transport_udp_bind(s->rerequest_port))
        return "rerequest.port=: this port cannot be had";
    return NULL;
}

/* ---- events ---- */

NOT_HOT static void take_other_event(const struct transport_event *event, uint64_t now_ns)
{
    const struct trade_settings *s = &trade_settings;
    const bool is_datagram = event->kind == TRANSPORT_DATAGRAM;
    if (is_datagram && event->port == s->rerequest_port && s->rerequest.address != 0) {
        if (event->address == s->rerequest.address && event->peer_port == s->rerequest.port)
            feed_take(MOLD_REREQUEST, event->payload, now_ns);
        else
            trade.counters.drop_stranger++;
    } else if (!is_datagram && event->connection == trade.orders.connection) {
        link_event(&trade.orders, event, now_ns);
        orders_take_responses(now_ns);
    } else if (!is_datagram && event->connection == trade.snapshot.connection) {
        link_event(&trade.snapshot, event, now_ns);
        snapshot_take(now_ns);
    } else {
        service_event(event, now_ns);
    }
}

HOT static inline void take_event(const struct transport_event *event, uint64_t now_ns)
{
    trade.counters.events++;
    if (feed_is_of_line(event, MOLD_A))
        feed_take_line(MOLD_A, event, now_ns);
    else if (feed_is_of_line(event, MOLD_B))
        feed_take_line(MOLD_B, event, now_ns);
    else
        take_other_event(event, now_ns);
}

/* ---- timers ---- */

void trade_check(void)
{
    mold_check();
    ouch_check();
    link_check(&trade.orders);
    link_check(&trade.snapshot);
    ASSERT(trade.rate_next < trade_settings.risk.rate_max);
}

NOT_HOT static void poll_timers(uint64_t now_ns)
{
    trade.next_poll_ns = now_ns + POLL_NS;
    trace_work(TRACE_WORK_TIMERS);
    link_poll(&trade.orders, now_ns);
    orders_watch_host(now_ns);
    link_poll(&trade.snapshot, now_ns);
    orders_poll_session(now_ns);
    snapshot_watch_session(now_ns);
    snapshot_watch_books();
    feed_watch(now_ns);
    orders_watch_limits();
    orders_wake(now_ns);
    if (now_ns >= trade.next_reconsider_ns) {
        trade.next_reconsider_ns = now_ns + RECONSIDER_NS;
        ouch_retry_cancels();
        trade.dirty = trade_all_symbols();
    }
    shown_refresh();
    shown_say_once();
    trade_check();
}

/* Cancels all orders on the way home, and waits a little for the exchange to say so: a lost session may come back. */
NOT_HOT static enum program_verdict leave(enum program_verdict verdict, uint64_t now_ns)
{
    ASSERT(verdict != PROGRAM_ON);
    if (trade.verdict == PROGRAM_ON) {
        trade.verdict = verdict;
        trade.leaving_ns = now_ns;
        trade.cancel_all = trade_settings.cancel_on_exit && ouch_levels.open > 0;
        log_line("trade: leaving with %llu open orders", (unsigned long long)ouch_levels.open);
    }
    shown_refresh(); /* the last responses may have moved the positions */
    bool waits = trade_settings.cancel_on_exit && ouch_levels.open > 0;
    if (waits && now_ns - trade.leaving_ns < LEAVE_S * NS_PER_S)
        return PROGRAM_ON;
    orders_log_left_open();
    return verdict;
}

/* ---- turns ---- */

__attribute__((noinline)) static enum program_verdict idle_turn(unsigned events, uint64_t now_ns)
{
    trade.counters.turns++;
    if (mold_has_backlog() && mold_advance()) /* at least one datagram a turn, however much the events have taken */
        feed_take_messages(now_ns);
    feed_rerequest(now_ns);
    if (trade.cancel_all || trade.cancel_symbols != 0 || ouch_levels.foreign != 0)
        orders_cancel(now_ns);
    if (trade.dirty != 0 && trade_is_armed())
        orders_consider_more(now_ns);
    orders_prepare();
    snapshot_poll(now_ns);
    enum program_verdict verdict = service_poll(events == 0, now_ns);
    if (now_ns >= trade.next_poll_ns)
        poll_timers(now_ns);
    transport_idle(now_ns);
    return verdict != PROGRAM_ON ? leave(verdict, now_ns) : PROGRAM_ON;
}

/* Begins to catch up with the feed after a pause of the machine. The frames that waited, here and at the host, are as
 * old as the pause, and those that found no room are lost. Nothing is ordered before a later datagram, which shows
 * whether any is missing. */
NOT_HOT static void catch_up(uint64_t now_ns)
{
    trade.caught_up_ns = now_ns + CATCH_UP_NS;
    feed_watch(now_ns);
    trade.next_poll_ns = now_ns + POLL_NS;
}

HOT enum program_verdict trade_turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    if (__builtin_expect(now_ns > trade.turn_ends_ns + trade_settings.feed_timeout_ns, 0))
        catch_up(now_ns);
    trade.turn_ends_ns = now_ns + TURN_NS;
    while (transport_poll(now_ns, &event)) {
        take_event(&event, now_ns);
        if (++events == EVENTS_PER_TURN_MAX || trade_turn_is_over())
            break;
    }
    return idle_turn(events, now_ns);
}

uint64_t trade_next_deadline_ns(uint64_t now_ns)
{
    bool works = mold_has_backlog() || snapshot_is_due(now_ns)
                 || (trade.dirty != 0 && trade_is_armed() && mold_is_current());
    if (works)
        return now_ns;
    return min_ns(min_ns(service_next_deadline_ns(now_ns), mold_next_deadline_ns()), trade.next_poll_ns);
}
