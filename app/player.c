#include "app/player.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "app/breaker.h"
#include "app/control.h"
#include "app/copilot.h"
#include "app/feed.h"
#include "app/histogram.h"
#include "app/ledger.h"
#include "app/link.h"
#include "app/outbox.h"
#include "app/page.h"
#include "app/stats.h"
#include "app/submit.h"
#include "app/syslog.h"
#include "app/weave.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"
#include "kernel/base/log.h"
#include "kernel/base/trace.h"
#include "net/transport.h"

enum {
    TEND_NS = 1000 * 1000,              /* timers are looked at once a millisecond */
    SLEEP_NS_MAX = 100 * 1000 * 1000,
    COPILOT_NS_MAX = 2 * 1000 * 1000,   /* what the second CPU finds, it has found by then */
};

static_assert((int)SETTINGS_FEED_COUNT_MAX == (int)WEAVE_FEED_COUNT_MAX, "a place for each feed");

struct player {
    /* The first line is all that digits on their way touch. */
    _Alignas(64) struct matcher *matcher;
    uint64_t digit_ns;                  /* when the last digit came */
    bool matcher_busy;                  /* idle work is left */
    bool cooled;                        /* other work may have taken the path's place in the nearest caches */
    bool copilot;                       /* early answers are the second CPU's business */
    bool network_was_up;
    enum player_verdict verdict;
    uint32_t feed_count;
    struct {
        uint64_t turns, events, answers, answers_repeated, answers_early, uptime_ns;
        uint64_t matcher_digits, matcher_bursts, matcher_candidates, matcher_refuted, matcher_looks_lost;
        uint64_t early_right, early_wrong;
    } counters;
    const struct settings *settings;
    uint64_t began_ns, tend_ns;
    uint64_t network_up_ns, network_logged_ns;  /* when it was last seen up; when its absence was last logged */
    uint64_t ns_per_cycle_32;           /* nanoseconds a TSC cycle, times 2^32 */
    struct feed feeds[SETTINGS_FEED_COUNT_MAX];
};

static struct player player;

static const struct counter counter_table[] = {
    COUNTER("player.", player.counters, uptime_ns),
    COUNTER("player.", player.counters, turns),
    COUNTER("player.", player.counters, events),
    COUNTER("player.", player.counters, answers),
    COUNTER("player.", player.counters, answers_repeated),
    COUNTER("player.", player.counters, answers_early),
    COUNTER("player.", player.counters, early_right),
    COUNTER("player.", player.counters, early_wrong),
    COUNTER("player.", player.counters, matcher_digits),
    COUNTER("player.", player.counters, matcher_bursts),
    COUNTER("player.", player.counters, matcher_candidates),
    COUNTER("player.", player.counters, matcher_refuted),
    COUNTER("player.", player.counters, matcher_looks_lost),
};
static const struct counter_group counter_group = { counter_table, ARRAY_COUNT(counter_table) };

/* How full the player's pools are; looked at with the timers. */
static struct {
    uint64_t outbox_bytes_used, outbox_bytes, ledger_answers_used, ledger_answers;
} levels = { .outbox_bytes = OUTBOX_BYTES, .ledger_answers = LEDGER_ANSWER_COUNT };
static const struct counter level_table[] = {
    COUNTER("pool.", levels, outbox_bytes_used),
    COUNTER("pool.", levels, outbox_bytes),
    COUNTER("pool.", levels, ledger_answers_used),
    COUNTER("pool.", levels, ledger_answers),
};
static const struct counter_group level_group = { level_table, ARRAY_COUNT(level_table) };

/* One answer's way through the machine, kernel/base/trace.h. */
static struct histogram seen_to_matched, matched_to_published, published_to_kicked, seen_to_kicked;

static const char *const feed_names[SETTINGS_FEED_COUNT_MAX] = {
    "feed 1", "feed 2", "feed 3", "feed 4", "feed 5", "feed 6", "feed 7", "feed 8",
};

static void register_statistics(void)
{
    histogram_clear(&seen_to_matched);
    histogram_clear(&matched_to_published);
    histogram_clear(&published_to_kicked);
    histogram_clear(&seen_to_kicked);
    trace.fine = true;
    memset(&feed_counters, 0, sizeof feed_counters);
    stats_add_histogram("answer.seen_to_matched", &seen_to_matched);
    stats_add_histogram("answer.matched_to_published", &matched_to_published);
    stats_add_histogram("answer.published_to_kicked", &published_to_kicked);
    stats_add_histogram("answer.seen_to_kicked", &seen_to_kicked);
    stats_add_histogram("submit.response", &submit_response_ns);
    stats_add_counters(&counter_group);
    stats_add_counters(&feed_counter_group);
    stats_add_counters(&weave_counter_group);
    stats_add_counters(&ledger_counter_group);
    stats_add_counters(&submit_counter_group);
    stats_add_counters(&breaker_counter_group);
    stats_add_counters(&link_counter_group);
    stats_add_counters(&control_counter_group);
    if (player.copilot)
        stats_add_counters(&copilot_counter_group);
    stats_add_counters(&page_counter_group);
    stats_add_counters(&syslog_counter_group);
    stats_add_counters(&level_group);
}

const char *player_init(struct player **out, const struct player_config *config, uint64_t now_ns)
{
    const struct settings *settings = config->settings;
    ASSERT(settings->feed_count >= 1 && settings->feed_count <= SETTINGS_FEED_COUNT_MAX);
    ASSERT(config->tsc_khz > 0);
    memset(&player, 0, sizeof player);
    player.settings = settings;
    player.feed_count = settings->feed_count;
    player.matcher = config->matcher;
    player.copilot = config->copilot;
    player.began_ns = player.digit_ns = player.network_up_ns = now_ns;
    player.ns_per_cycle_32 = (UINT64_C(1000000) << 32) / config->tsc_khz;
    register_statistics();
    link_init_all();
    ledger_init(config->secret);
    weave_init(settings->feed_count);
    submit_init(settings);
    syslog_init(&settings->log);
    breaker_init(settings->breaker_count, settings->breaker_window_ns);
    for (uint32_t i = 0; i < settings->feed_count; i++)
        feed_init(&player.feeds[i], feed_names[i], &settings->feeds[i]);
    if (!control_init(settings->key, settings->key_bytes, settings->control_port, config->secret))
        return "the control channel's port cannot be had";
    if (!page_init(settings->http_port, config->second_cpu))
        return "the port of the status page cannot be had";
    if (settings->key_bytes == 0)
        log_line("control channel: off, no key= is given");
    *out = &player;
    return NULL;
}

/* Answers. */

static uint64_t cycles_to_ns(uint64_t cycles)
{
    return (uint64_t)((unsigned __int128)cycles * player.ns_per_cycle_32 >> 32);
}

/* Off the path: the stamps of the answer that has just left. Where one is older than the one before it, the stack kept the
 * answer back, and it is another frame's. */
static void record_stamps(void)
{
    const uint64_t *t = trace.cycles;
    if (t[TRACE_KICKED] >= t[TRACE_FRAME_SEEN])
        histogram_add(&seen_to_kicked, cycles_to_ns(t[TRACE_KICKED] - t[TRACE_FRAME_SEEN]));
    if (trace.fine && t[TRACE_MATCHED] >= t[TRACE_FRAME_SEEN] && t[TRACE_PUBLISHED] >= t[TRACE_MATCHED]
        && t[TRACE_KICKED] >= t[TRACE_PUBLISHED]) {
        histogram_add(&seen_to_matched, cycles_to_ns(t[TRACE_MATCHED] - t[TRACE_FRAME_SEEN]));
        histogram_add(&matched_to_published, cycles_to_ns(t[TRACE_PUBLISHED] - t[TRACE_MATCHED]));
        histogram_add(&published_to_kicked, cycles_to_ns(t[TRACE_KICKED] - t[TRACE_PUBLISHED]));
    }
    trace.fine = seen_to_kicked.count % TRACE_FINE_EACH == 0;
}

/* Off the path: what is to be noted of an answer that has been submitted. */
NOT_HOT static void note_answer(const struct matcher_answer *answer, bool fresh, bool sent)
{
    if (fresh)
        ledger_enter(answer->digits, answer->count);
    player.counters.answers++;
    if (answer->ahead)
        player.counters.answers_early++;
    else if (sent)
        record_stamps();
}

/* What the ledger certainly lacks is entered when it has left. */
HOT static void take_answer(const struct matcher_answer *answer, uint64_t now_ns)
{
    bool fresh = ledger_lacks(answer->digits, answer->count);
    if (__builtin_expect(!fresh, 0) && !ledger_enter(answer->digits, answer->count)) {
        player.counters.answers_repeated++;
        return;
    }
    bool sent = submit_answer(answer->digits, answer->count, now_ns);
    note_answer(answer, fresh, sent);
}

/* The second CPU gets the same stream, once the path is done with it. */
NOT_HOT static void give_copilot(const struct weave_news *news)
{
    bool gap = news->gap;
    for (size_t done = 0, part; done < news->count; done += part, gap = false) {
        part = min_size(news->count - done, MATCHER_BURST_DIGITS_MAX);
        copilot_digits(news->digits + done, part, gap);
    }
}

/* The path: from a frame's digits to the POSTs, nothing in between but the matcher. An answer is on its way before the
 * matcher is asked for the next. */
HOT __attribute__((noinline)) static void take_digits(const uint8_t *digits, size_t count, uint64_t now_ns)
{
    struct matcher_answer answer;
    while (count > 0) {
        size_t part = min_size(count, MATCHER_BURST_DIGITS_MAX);
        matcher_begin(player.matcher, digits, part);
        while (matcher_next(player.matcher, &answer)) {
            trace_stamp_fine(TRACE_MATCHED);
            take_answer(&answer, now_ns);
        }
        digits += part;
        count -= part;
    }
    player.matcher_busy = true;
    player.digit_ns = now_ns;
}

/* Events. */

HOT __attribute__((noinline)) static void feed_data(struct feed *feed, const struct transport_event *event,
                                                    uint64_t now_ns)
{
    uint32_t index = (uint32_t)(feed - player.feeds);
    const uint8_t *at = event->data, *end = at + event->bytes;
    struct http_body digits;
    while (feed_next(feed, &at, end, &digits, now_ns)) {
        struct weave_news news = weave_push(index, digits.data, digits.bytes);
        if (__builtin_expect(news.gap, 0))
            matcher_restart(player.matcher);
        if (__builtin_expect(news.count > 0, 1))
            take_digits(news.digits, news.count, now_ns);
        if (__builtin_expect(player.copilot, 0))
            give_copilot(&news);
        feed_counters.digits += digits.bytes;
    }
    if (feed->link.state != LINK_UP)
        weave_lost(index);
}

static void feed_event(struct feed *feed, const struct transport_event *event, uint64_t now_ns)
{
    switch (event->kind) {
    case TRANSPORT_CONNECTED:
        feed_connected(feed, now_ns);
        break;
    case TRANSPORT_ENDED:
        feed_ended(feed, now_ns);
        break;
    case TRANSPORT_CLOSED:
        feed_closed(feed, event->reason, now_ns);
        break;
    default:
        break;
    }
    if (feed->link.state != LINK_UP)
        weave_lost((uint32_t)(feed - player.feeds));
}

static bool is_feed(const struct link *link)
{
    return (uintptr_t)link - (uintptr_t)player.feeds < sizeof player.feeds;
}

static struct feed *feed_of(struct link *link)
{
    return (struct feed *)((uint8_t *)link - offsetof(struct feed, link));
}

NOT_HOT static void take_other_event(const struct transport_event *event, uint64_t now_ns)
{
    if (event->kind == TRANSPORT_DATAGRAM) {
        control_datagram(event, now_ns);
        return;
    }
    struct link *link = event->kind == TRANSPORT_ACCEPTED ? NULL : link_of(event->connection);
    if (!link) {
        page_event(event, now_ns);      /* or the last words of a connection that was left */
        return;
    }
    if (is_feed(link))
        feed_event(feed_of(link), event, now_ns);
    else
        submit_event(event, now_ns);
    if (event->kind != TRANSPORT_DATA)
        player.tend_ns = now_ns;        /* whoever lost a connection makes a new one at once */
}

/* Of a connection; NULL: none of the feeds'. Asks the feeds themselves, whose lines are wanted next. */
static inline struct feed *feed_on(int connection)
{
    for (uint32_t i = 0; i < player.feed_count; i++)
        if (player.feeds[i].link.connection == connection)
            return &player.feeds[i];
    return NULL;
}

static inline void take_event(const struct transport_event *event, uint64_t now_ns)
{
    struct feed *feed = event->kind == TRANSPORT_DATA ? feed_on(event->connection) : NULL;
    if (__builtin_expect(feed != NULL, 1))
        feed_data(feed, event, now_ns);
    else
        take_other_event(event, now_ns);
    player.counters.events++;
}

/* Timers. */

static void tend_network(uint64_t now_ns)
{
    const struct transport_network *network = transport_network();
    if (network->up) {
        if (!player.network_was_up && network->address) {   /* sockets do not say theirs before they connect */
            uint32_t a = network->address, m = network->mask, g = network->gateway;
            log_line("network: up, %u.%u.%u.%u mask %u.%u.%u.%u gateway %u.%u.%u.%u mtu %u%s", a >> 24, a >> 16 & 255,
                     a >> 8 & 255, a & 255, m >> 24, m >> 16 & 255, m >> 8 & 255, m & 255, g >> 24, g >> 16 & 255,
                     g >> 8 & 255, g & 255, network->mtu_bytes, network->from_dhcp ? ", by DHCP" : "");
        }
        player.network_was_up = true;
        player.network_up_ns = now_ns;
        return;
    }
    player.network_was_up = false;
    uint64_t down_ns = now_ns - player.network_up_ns;
    if (down_ns >= 1000000000 && now_ns - player.network_logged_ns >= 1000000000) {
        player.network_logged_ns = now_ns;
        log_line("network: down for %llu s, waiting for %s", (unsigned long long)(down_ns / 1000000000),
                 network->waiting_for);
    }
}

static enum player_verdict judge(uint64_t now_ns)
{
    const struct settings *s = player.settings;
    if (control_told_to_leave())
        return PLAYER_GG;
    if (s->deadline_ns && now_ns - player.began_ns >= s->deadline_ns)
        return PLAYER_DEADLINE;
    if (s->net_timeout_ns && now_ns - player.network_up_ns >= s->net_timeout_ns)
        return PLAYER_NETWORK_LOST;
    if (s->server_timeout_ns && now_ns - player.digit_ns >= s->server_timeout_ns)
        return PLAYER_SERVER_LOST;
    uint64_t asked_ns = control_heard_ns() > player.began_ns ? control_heard_ns() : player.began_ns;
    if (s->idle_timeout_ns && now_ns - asked_ns >= s->idle_timeout_ns)
        return PLAYER_IDLE;
    if (s->breaker_linger_ns && breaker_is_open() && now_ns - breaker_opened_ns() >= s->breaker_linger_ns)
        return PLAYER_BREAKER;
    return PLAYER_ON;
}

NOT_HOT static void tend(uint64_t now_ns)
{
    player.tend_ns = now_ns + TEND_NS;
    player.cooled = true;
    tend_network(now_ns);
    for (uint32_t i = 0; i < player.settings->feed_count; i++) {
        feed_tend(&player.feeds[i], player.settings->feed_timeout_ns, now_ns);
        if (player.feeds[i].link.state != LINK_UP)
            weave_lost(i);
    }
    const struct matcher_stats *stats = matcher_stats(player.matcher);
    player.counters.matcher_digits = stats->digits;
    player.counters.matcher_bursts = stats->bursts;
    player.counters.matcher_candidates = stats->candidates;
    player.counters.matcher_refuted = stats->candidates_refuted;
    player.counters.matcher_looks_lost = stats->looks_lost;
    player.counters.early_right = stats->early_right;
    player.counters.early_wrong = stats->early_wrong;
    if (player.copilot)
        copilot_counters_refresh();
    player.counters.uptime_ns = now_ns - player.began_ns;
    levels.outbox_bytes_used = outbox_used_bytes();
    levels.ledger_answers_used = ledger_counters.entered - ledger_counters.forgotten;
    player.verdict = judge(now_ns);
}

/* What the next burst's path needs, back into the caches, after other work and once a millisecond: in between the loop
 * may have stood still, and somebody else have had them. 2 us. The last thing before the ring is looked at again, and its
 * largest part last. */
NOT_HOT static void warm_up(void)
{
    hot_fetch_code();
    transport_warm();
    hot_fetch(player.feeds, player.settings->feed_count * sizeof player.feeds[0]);
    matcher_warm(player.matcher);
    player.cooled = false;
}

/* What is done when the ring has been looked at, in slices; `events` were found there. */
__attribute__((noinline)) static enum player_verdict idle_turn(unsigned events, uint64_t now_ns)
{
    player.counters.turns++;
    if (player.matcher_busy) {
        struct matcher_answer answer;
        player.matcher_busy = matcher_prepare(player.matcher);
        while (matcher_next_early(player.matcher, &answer))
            take_answer(&answer, now_ns);
    }
    if (player.copilot) {
        struct matcher_answer answer;
        while (copilot_answer(&answer))
            take_answer(&answer, now_ns);
    }
    submit_tend(now_ns);
    control_tend(now_ns);
    if (events == 0 && !player.matcher_busy && outbox_waiting_count() == 0) {
        page_tend(now_ns);              /* never in front of an answer, nor of what makes the next one quick */
        syslog_tend(now_ns);
    }
    if (now_ns >= player.tend_ns && player.verdict == PLAYER_ON)
        tend(now_ns);
    transport_idle(now_ns);
    player.cooled |= events > 0;
    if (player.cooled && events == 0 && !player.matcher_busy)
        warm_up();
    return player.verdict;
}

HOT enum player_verdict player_turn(struct player *p, uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    ASSERT(p == &player);
    for (; events < PLAYER_EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); events++)
        take_event(&event, now_ns);
    return idle_turn(events, now_ns);
}

uint64_t player_wake_ns(const struct player *p, uint64_t now_ns)
{
    if (p->matcher_busy || p->cooled || (p->copilot && now_ns - p->digit_ns < COPILOT_NS_MAX))
        return now_ns;
    uint64_t wake_ns = now_ns + SLEEP_NS_MAX;
    if (!p->network_was_up)
        wake_ns = now_ns + TEND_NS;
    uint64_t others[5 + SETTINGS_FEED_COUNT_MAX] = {
        transport_wake_ns(), submit_wake_ns(now_ns), control_wake_ns(now_ns), page_wake_ns(now_ns),
        syslog_wake_ns(),
    };
    for (uint32_t i = 0; i < p->settings->feed_count; i++)
        others[5 + i] = feed_wake_ns(&p->feeds[i], p->settings->feed_timeout_ns, now_ns);
    for (uint32_t i = 0; i < 5 + p->settings->feed_count; i++)
        if (others[i] < wake_ns)
            wake_ns = others[i];
    return wake_ns;
}

const char *player_verdict_name(enum player_verdict verdict)
{
    static const char *const names[] = {
        [PLAYER_ON] = "on", [PLAYER_GG] = "gg", [PLAYER_NETWORK_LOST] = "network lost",
        [PLAYER_SERVER_LOST] = "server lost", [PLAYER_DEADLINE] = "deadline",
        [PLAYER_IDLE] = "nobody asked", [PLAYER_BREAKER] = "submit breaker",
    };
    ASSERT(verdict < ARRAY_COUNT(names));
    return names[verdict];
}
