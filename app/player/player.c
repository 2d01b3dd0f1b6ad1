#include "app/player/player.h"

#include <assert.h>
#include <string.h>

#include "app/player/answer_set.h"
#include "app/player/circuit_breaker.h"
#include "app/player/input_stream.h"
#include "app/player/send_queue.h"
#include "app/player/session.h"
#include "app/player/settings.h"
#include "app/player/stream_merger.h"
#include "app/player/submit.h"
#include "app/service/control.h"
#include "app/service/metrics.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/slow.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/histogram.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "base/trace.h"
#include "net/transport.h"

enum {
    POLL_NS = NS_PER_MS, /* from one check of the timers to the next */
    /* The clock is read again after this many bytes of an event: 20 us if all are framing. */
    PIECE_BYTES_MAX = 2048,

    /* A turn ends within 50 us. After TURN_NS it begins no further piece of work, and each piece takes less than 25 us.
     * Events that took this time have not searched: the running search then gets SEARCH_NS of its own. */
    TURN_NS = 20 * NS_PER_US,
    SEARCH_NS = 10 * NS_PER_US,
    /* Waiting answers that each turn sends: 1 us by our own stack, some 10 us by Linux. */
    SENDS_MIN = 4,
    SENDS_MAX = 64,
    UNTAKEN_POLLS_MAX = 1000, /* a second */
};

#define PLAYER_COUNTERS(X)                                                                                             \
    X(COUNT, turns), X(COUNT, events), X(COUNT, answers), X(COUNT, answers_repeated), X(COUNT, answers_early),         \
        X(COUNT, events_waited), X(DROP, digits_dropped_breaker), X(COUNT, early_right), X(COUNT, early_wrong),        \
        X(LEVEL, moduli), X(LEVEL, moduli_pending), X(COUNT, matcher_digits), X(COUNT, matcher_bursts),                \
        X(COUNT, matcher_refuted), X(COUNT, matcher_unchecked), X(COUNT, matcher_overflows),                           \
        X(COUNT, matcher_rehearsals)

static struct {
    /* Digits on their way touch the first line alone. */
    _Alignas(64) struct matcher *matcher;
    uint64_t digit_ns; /* when the last digit came */
    uint64_t (*clock_ns)(void);
    uint64_t turn_ends_ns; /* when the turn begins no further piece of work */
    bool has_searched;     /* in this turn */
    bool searching;        /* answers in the current digits are left */
    bool stopped;          /* the breaker is open: nothing is searched any more */
    bool matcher_busy;     /* idle work is left */
    uint8_t waiting;       /* a bit for each input whose bytes wait for the running search */
    enum program_verdict verdict;
    uint32_t untaken_polls; /* consecutive checks of the timers in turns that left events */
    struct {
        uint64_t PLAYER_COUNTERS(COUNTER_MEMBER);
    } counters;
    uint64_t next_poll_ns;
    uint64_t ns_per_cycle_32; /* nanoseconds a TSC cycle, times 2^32 */
    uint32_t input_count, next_input;
    struct input_stream inputs[PLAYER_INPUT_COUNT_MAX];
} player;

/* The bytes of each input that wait. */
static uint8_t waiting_bytes[PLAYER_INPUT_COUNT_MAX][TRANSPORT_DATA_BYTES_MAX];
static_assert(PLAYER_INPUT_COUNT_MAX <= 8 * sizeof player.waiting, "a bit for each");

/* ---- statistics ---- */

static const struct counter_group counter_group = COUNTER_GROUP("player.", "The player", PLAYER_COUNTERS,
                                                                player.counters);

/* The levels of the player's pools, read with the timers. */
struct player_levels player_levels = { .send_queue_bytes = SEND_QUEUE_BYTES,
                                       .answer_set_answers = ANSWER_SET_ANSWER_COUNT };
static const struct counter_group level_group = COUNTER_GROUP("pool.", "Level of a pool", PLAYER_LEVELS, player_levels);

/* One answer's way through the machine, base/trace.h. */
static struct histogram seen_to_matched, matched_to_published, published_to_kicked, seen_to_kicked;

static uint64_t value_of(const struct stats_copy *from, const char *path)
{
    const uint64_t *value = stats_find(from, path);
    return value ? *value : 0;
}

/* Returns the sum of a counter of the network card's driver. */
static uint64_t value_of_card(const struct stats_copy *from, const char *name)
{
    static const char *const drivers[] = { "virtio_net.", "gve." };
    char path[COUNTER_PATH_BYTES];
    uint64_t sum = 0;
    for (size_t i = 0; i < ARRAY_COUNT(drivers); i++) {
        format(path, sizeof path, "%s%s", drivers[i], name);
        sum += value_of(from, path);
    }
    return sum;
}

/* Writes what a post has cost: a stats_metrics_writer after the answers. */
static size_t write_costs(const struct stats_copy *from, char *out)
{
    const uint64_t posts = value_of(from, "submit.posts"), kicks = value_of_card(from, "tx_kicks");
    const uint64_t exits = kicks + value_of_card(from, "rx_kicks") + value_of_card(from, "state_exits");
    const uint64_t kicks_1000 = posts ? kicks * 1000 / posts : 0, exits_1000 = posts ? exits * 1000 / posts : 0;
    return format(out, METRICS_TEXT_BYTES_MAX,
                  "# HELP peregrine_kicks_per_answer Transmit notifications of the device.\n"
                  "# TYPE peregrine_kicks_per_answer gauge\nperegrine_kicks_per_answer %llu.%03llu\n"
                  "# HELP peregrine_exits_per_answer Notifications and reads of the device's state.\n"
                  "# TYPE peregrine_exits_per_answer gauge\nperegrine_exits_per_answer %llu.%03llu\n",
                  (unsigned long long)(kicks_1000 / 1000), (unsigned long long)(kicks_1000 % 1000),
                  (unsigned long long)(exits_1000 / 1000), (unsigned long long)(exits_1000 % 1000));
}

static size_t write_metrics(const struct stats_copy *from, size_t index, char *out)
{
    if (index > 0)
        return index == 1 ? write_costs(from, out) : 0;
    const uint64_t early = value_of(from, "player.answers_early"), all = value_of(from, "player.answers");
    return format(out, METRICS_TEXT_BYTES_MAX,
                  "# HELP peregrine_answers_total Answers found, each once.\n# TYPE peregrine_answers_total counter\n"
                  "peregrine_answers_total{kind=\"early\"} %llu\nperegrine_answers_total{kind=\"complete\"} %llu\n",
                  (unsigned long long)early, (unsigned long long)(all - min_size(early, all)));
}

static void register_statistics(void)
{
    const struct {
        const char *name;
        struct histogram *histogram;
    } histograms[] = {
        { "answer.seen_to_matched", &seen_to_matched },
        { "answer.matched_to_published", &matched_to_published },
        { "answer.published_to_kicked", &published_to_kicked },
        { "answer.seen_to_kicked", &seen_to_kicked },
        { "submit.response", &submit_response_ns },
    };
    for (size_t i = 0; i < ARRAY_COUNT(histograms); i++) {
        histogram_clear(histograms[i].histogram);
        stats_add_histogram(histograms[i].name, histograms[i].histogram);
    }
    trace.fine = true;
    stats_set_ways("seen_to_matched_ns matched_to_published_ns published_to_kicked_ns");
    stats_set_metrics(write_metrics);
    stats_add_counters(&counter_group);
    stats_add_counters(&input_stream_counter_group);
    stats_add_counters(&stream_merger_digits_group);
    stats_add_counters(&stream_merger_counter_group);
    stats_add_counters(&answer_set_counter_group);
    stats_add_counters(&submit_counter_group);
    stats_add_counters(&circuit_breaker_counter_group);
    stats_add_counters(&session_counter_group);
    stats_add_counters(&level_group);
}

/* Copies the matcher's statistics and the levels of the pools to where the counters are read. */
static void copy_statistics(void)
{
    const struct matcher_stats *stats = matcher_stats(player.matcher);
    player.counters.matcher_digits = stats->digits;
    player.counters.matcher_bursts = stats->bursts;
    player.counters.matcher_refuted = stats->candidates_refuted;
    player.counters.matcher_unchecked = stats->candidates_unchecked;
    player.counters.matcher_overflows = stats->filter_overflows;
    player.counters.matcher_rehearsals = stats->rehearsals;
    player.counters.early_right = stats->early_right;
    player.counters.early_wrong = stats->early_wrong;
    if (player.counters.moduli != 0 && player.counters.moduli != stats->moduli)
        log_line("player: %llu moduli are searched for", (unsigned long long)stats->moduli);
    player.counters.moduli = stats->moduli;
    player.counters.moduli_pending = stats->moduli_pending;
    player_levels.send_queue_bytes_used = send_queue_used_bytes();
    player_levels.answer_set_answers_used = answer_set_used_count();
}

/* ---- the start ---- */

static bool warm_up(uint64_t now_ns);
static struct matcher *matcher; /* made by player_prepare, for each player_init */

const char *player_prepare(const struct program_machine *machine)
{
    struct matcher_config config;
    player_settings_matcher(&config);
    config.tsc_khz = machine->tsc_khz;
    config.beat = machine->beat;
    static_assert(sizeof config.seed <= sizeof machine->secret, "enough random bytes");
    memcpy(config.seed, machine->secret, sizeof config.seed);
    return matcher_init(&matcher, &config);
}

/* Returns the message that refuses a modulus of at most n=: it divides a substring or more for each digit. */
static const char *refuse_small(struct bytes word)
{
    static char message[128];
    ASSERT(word.count <= 4);
    format(message, sizeof message, "m+=%.*s: a modulus of at most n=%u has more than one answer for each digit",
           (int)word.count, (const char *)word.data, player_settings.n_digits_max);
    return message;
}

/* Obeys `m+=NUMBER` over the control channel: plays on while the tables are made. The command's reply shows it. */
static const char *player_set(struct bytes word)
{
    char number[MATCHER_MODULUS_DIGITS_MAX + 1];
    uint64_t small;
    if (!text_skip(&word, "m+="))
        return "the setting that can be changed while the player runs is m+=NUMBER";
    if (word.count > MATCHER_MODULUS_DIGITS_MAX)
        return "m+=: a modulus has at most 512 bits";
    for (size_t i = 0; i < word.count; i++)
        if (!text_digit_is(word.data[i]))
            return "m+=: expected a decimal number";
    if (player.stopped)
        return "m+=: the breaker is open, so nothing is searched for any more";
    if (word.count <= 4 && text_number(word, 1, player_settings.n_digits_max, &small))
        return refuse_small(word);
    text_to_string(number, word);
    const char *refused = matcher_add(player.matcher, number);
    player.matcher_busy = true;
    copy_statistics();
    if (!refused)
        log_line("player: m+=%s", number);
    return refused;
}

const char *player_init(const struct program_machine *machine, uint64_t now_ns)
{
    const struct player_settings *settings = &player_settings;
    static const char *const input_names[PLAYER_INPUT_COUNT_MAX] = {
        "input stream 1", "input stream 2", "input stream 3", "input stream 4",
        "input stream 5", "input stream 6", "input stream 7", "input stream 8",
    };
    ASSERT(matcher);
    ASSERT(settings->inputs.count >= 1 && settings->inputs.count <= PLAYER_INPUT_COUNT_MAX);
    ASSERT(machine->tsc_khz > 0 && machine->now_ns != NULL);
    memset(&player, 0, sizeof player);
    player.matcher = matcher;
    player.clock_ns = machine->now_ns;
    player.input_count = settings->inputs.count;
    player.digit_ns = now_ns;
    player.ns_per_cycle_32 = (NS_PER_MS << 32) / machine->tsc_khz;
    struct matcher_answer answer;
    while (matcher_next(matcher, &answer) != MATCHER_DONE)
        continue; /* the game before ended in the middle of a search */
    matcher_restart(matcher);
    session_init_all();
    answer_set_init(machine->secret);
    stream_merger_init(player.input_count);
    submit_init(settings);
    circuit_breaker_init(settings->breaker_count, settings->breaker_window_ns);
    input_stream_init_all();
    for (uint32_t i = 0; i < player.input_count; i++)
        input_stream_init(&player.inputs[i], i, input_names[i], &settings->inputs.at[i]);
    register_statistics();
    control_on_set(player_set);
    rehearsal_add_work(warm_up);
    stats_add_fact("simd", matcher_stats(matcher)->simd);
    log_line("playing with simd=%s%s", matcher_stats(matcher)->simd, matcher_stats(matcher)->simd_times);
    return NULL;
}

/* ---- answers ---- */

/* Records the stamps of the answer that has just left; off the path. */
static void record_stamps(uint64_t now_ns)
{
    uint64_t total_ns, stage_ns[SLOWEST_STAGE_COUNT];
    if (trace_way(player.ns_per_cycle_32, &total_ns, stage_ns)) {
        histogram_add(&seen_to_matched, stage_ns[0]);
        histogram_add(&matched_to_published, stage_ns[1]);
        histogram_add(&published_to_kicked, stage_ns[2]);
    }
    if (total_ns != 0)
        histogram_add(&seen_to_kicked, total_ns);
    slow_note(total_ns, stage_ns, now_ns);
    trace.fine = seen_to_kicked.count % TRACE_FINE_EACH == 0;
}

/* Counts an answer that has been submitted, and inserts a fresh one in the answer set; off the path. */
NOT_HOT static void note_answer(const struct matcher_answer *answer, bool fresh, bool sent, uint64_t now_ns)
{
    if (fresh)
        answer_set_insert(answer->digits, answer->count);
    player.counters.answers++;
    if (answer->ahead)
        player.counters.answers_early++;
    else if (sent)
        record_stamps(now_ns);
}

/* Submits an answer once. A fresh answer enters the answer set after the frame has been published; until then the
 * filter alone knows that it is new. */
HOT static void take_answer(const struct matcher_answer *answer, uint64_t now_ns)
{
    bool fresh = answer_set_is_new(answer->digits, answer->count);
    if (__builtin_expect(!fresh, 0) && !answer_set_insert(answer->digits, answer->count)) {
        player.counters.answers_repeated++;
        return;
    }
    bool sent = submit_answer(answer->digits, answer->count, now_ns);
    note_answer(answer, fresh, sent, now_ns);
}

/* Returns true if the turn may begin no further piece of work. */
static inline bool turn_is_over(void) { return player.clock_ns() >= player.turn_ends_ns; }

/* Searches the current digits until the turn is over; returns false when they are done. An answer is on its way before
 * the matcher searches for the next. */
HOT static bool search_digits(uint64_t now_ns)
{
    struct matcher_answer answer;
    ASSERT(!player.stopped);
    player.has_searched = true;
    for (;;) {
        enum matcher_step step = matcher_next(player.matcher, &answer);
        if (step == MATCHER_DONE) {
            player.matcher_busy = true;
            return false;
        }
        if (step == MATCHER_ANSWER) {
            trace_stamp_fine(TRACE_MATCHED);
            take_answer(&answer, now_ns);
        }
        if (turn_is_over())
            return true;
    }
}

/* Finds and submits the answers of a run of digits: the path. If the search takes long, later turns continue it, and
 * the bytes after these digits wait. */
HOT __attribute__((noinline)) static void take_digits(const struct stream_news *news, uint64_t now_ns)
{
    ASSERT(!player.searching && news->digits.count <= MATCHER_BURST_DIGITS_MAX);
    player.digit_ns = now_ns;
    if (__builtin_expect(player.stopped, 0)) {
        player.counters.digits_dropped_breaker += news->digits.count;
        return;
    }
    if (__builtin_expect(news->gap, 0))
        matcher_restart(player.matcher);
    matcher_begin(player.matcher, news->digits.data, news->digits.count);
    player.searching = search_digits(now_ns);
}

/* ---- events ---- */

/* Takes the bytes of an input piece by piece, until they are used up, the turn is over, or the search takes longer. */
HOT static void take_bytes(struct input_stream *input, uint32_t index, const uint8_t **at, const uint8_t *end,
                           uint64_t now_ns)
{
    struct bytes digits;
    do {
        const uint8_t *piece_end = *at + min_size((size_t)(end - *at), PIECE_BYTES_MAX);
        while (input_stream_next(input, at, piece_end, &digits, now_ns)) {
            struct stream_news news = stream_merger_push(index, digits.data, digits.count);
            if (__builtin_expect(news.digits.count > 0, 1))
                take_digits(&news, now_ns);
            input_stream_counters.digits += digits.count;
            if (player.searching || turn_is_over())
                return;
        }
    } while (*at < end && input->session.state == SESSION_UP && !turn_is_over());
}

/* Forgets the bytes of an input that wait if the connection is gone, and its place in the stream. */
NOT_HOT static void note_disconnection(uint32_t index)
{
    struct input_stream *input = &player.inputs[index];
    if (input->session.state == SESSION_UP)
        return;
    if ((player.waiting & BIT(index)) != 0)
        input_stream_counters.bytes_dropped_closed += input->waiting.count + input->pending.count;
    player.waiting &= (uint8_t)~BIT(index);
    stream_merger_disconnect(index);
}

/* Keeps the bytes of an input that wait, and holds its connection: one event at most waits for each input, and the
 * peer finds its window closed. Begins with those that input_stream_next has read and not handed out. */
NOT_HOT static void keep_bytes(uint32_t index, const uint8_t *at, const uint8_t *end)
{
    struct input_stream *input = &player.inputs[index];
    uint8_t *kept = waiting_bytes[index];
    if (input->session.state != SESSION_UP) {
        note_disconnection(index); /* the stream has ended before them, or they are none of it */
        return;
    }
    const size_t pending = input->pending.count, count = (size_t)(end - at) + pending;
    ASSERT(count <= TRANSPORT_DATA_BYTES_MAX && (pending == 0 || input->pending.data + pending == at));
    if (count > 0)
        memmove(kept, at - pending, count);
    input->pending = (struct bytes){ kept, pending };
    input->waiting = (struct bytes){ kept + pending, count - pending };
    player.waiting = (uint8_t)((player.waiting & ~BIT(index)) | (count > 0 ? BIT(index) : 0));
    input_stream_hold(input, count > 0);
}

HOT __attribute__((noinline)) static void input_data(uint32_t index, const struct transport_event *event,
                                                     uint64_t now_ns)
{
    struct input_stream *input = &player.inputs[index];
    const uint8_t *at = event->payload.data, *end = at + event->payload.count;
    ASSERT(index < PLAYER_INPUT_COUNT_MAX && (player.waiting & BIT(index)) == 0);
    if (__builtin_expect(!player.searching, 1))
        take_bytes(input, index, &at, end, now_ns);
    if (__builtin_expect(at < end || input->pending.count > 0 || input->session.state != SESSION_UP, 0)) {
        player.counters.events_waited++;
        keep_bytes(index, at, end);
    }
}

/* Goes on with the bytes of the input that waits, the next one in turn. */
static void take_waiting(uint64_t now_ns)
{
    ASSERT(player.waiting != 0 && !player.searching);
    do
        player.next_input = (player.next_input + 1) % player.input_count;
    while ((player.waiting & BIT(player.next_input)) == 0);
    struct input_stream *input = &player.inputs[player.next_input];
    const uint8_t *at = input->waiting.data, *end = at + input->waiting.count;
    player.waiting &= (uint8_t)~BIT(player.next_input);
    take_bytes(input, player.next_input, &at, end, now_ns);
    keep_bytes(player.next_input, at, end);
}

static void input_event(uint32_t index, const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(index < player.input_count);
    struct input_stream *input = &player.inputs[index];
    if (event->kind == TRANSPORT_CONNECTED)
        input_stream_connected(input, now_ns);
    else if (event->kind == TRANSPORT_ENDED)
        input_stream_ended(input, now_ns);
    else if (event->kind == TRANSPORT_CLOSED)
        input_stream_closed(input, event->reason, now_ns);
    note_disconnection(index);
}

/* Stops the search for good when the breaker has opened: nothing that is found would be submitted. */
static void watch_breaker(void)
{
    if (player.stopped || !circuit_breaker_is_open())
        return;
    player.stopped = true;
    player.searching = player.matcher_busy = false;
}

NOT_HOT static void take_other_event(const struct transport_event *event, uint64_t now_ns)
{
    struct session_owner owner = { SESSION_OF_NOBODY, 0 };
    if (event->kind != TRANSPORT_DATAGRAM && event->kind != TRANSPORT_ACCEPTED)
        owner = session_owner_of(event->connection);
    switch (owner.kind) {
    case SESSION_OF_NOBODY: /* the service's, or a connection that was left */
        if (event->kind == TRANSPORT_CLOSED)
            session_left_closed(event->connection);
        service_event(event, now_ns);
        return;
    case SESSION_OF_INPUT:
        input_event(owner.index, event, now_ns);
        break;
    case SESSION_OF_SUBMIT:
        submit_event(event, now_ns);
        watch_breaker();
        break;
    }
    if (event->kind != TRANSPORT_DATA)
        player.next_poll_ns = now_ns; /* a session that lost its connection makes a new one at once */
}

static inline void take_event(const struct transport_event *event, uint64_t now_ns)
{
    struct session_owner owner = { SESSION_OF_NOBODY, 0 };
    if (__builtin_expect(event->kind == TRANSPORT_DATA, 1))
        owner = session_owner_of(event->connection);
    if (__builtin_expect(owner.kind == SESSION_OF_INPUT, 1))
        input_data(owner.index, event, now_ns);
    else
        take_other_event(event, now_ns);
    player.counters.events++;
}

/* ---- timers ---- */

/* Returns PROGRAM_ON, or the reason why the game ends. */
static enum program_verdict judge(uint64_t now_ns)
{
    const struct player_settings *s = &player_settings;
    ASSERT(player.digit_ns <= now_ns);
    if (s->server_timeout_ns && now_ns - player.digit_ns >= s->server_timeout_ns)
        return PROGRAM_SERVER_LOST;
    if (s->server_timeout_ns && submit_lost_for_ns() >= s->server_timeout_ns)
        return PROGRAM_SERVER_LOST;
    if (s->breaker_linger_ns && circuit_breaker_is_open()
        && now_ns - circuit_breaker_opened_ns() >= s->breaker_linger_ns)
        return PROGRAM_STOPPED;
    return PROGRAM_ON;
}

void player_check(void)
{
    ASSERT(player.input_count >= 1 && player.input_count <= PLAYER_INPUT_COUNT_MAX);
    for (uint32_t i = 0; i < player.input_count; i++)
        session_check(&player.inputs[i].session);
    submit_check();
    stream_merger_check();
    answer_set_check();
}

void player_check_matcher(void) { matcher_check_state(player.matcher); }

bool player_matcher_rests(void) { return !player.searching && player.waiting == 0 && !player.matcher_busy; }

/* Runs the timers. Nobody is called silent in a turn that leaves events, since digits may be among them. A flood of
 * events that goes on for UNTAKEN_POLLS_MAX polls protects nobody any longer. */
NOT_HOT static void poll_timers(bool all_taken, uint64_t now_ns)
{
    player.next_poll_ns = now_ns + POLL_NS;
    trace_work(TRACE_WORK_TIMERS);
    player.untaken_polls = all_taken ? 0 : player.untaken_polls + 1;
    const bool judges = all_taken || player.untaken_polls >= UNTAKEN_POLLS_MAX;
    if (player.waiting != 0 || player.searching)
        player.digit_ns = now_ns;
    for (uint32_t i = 0; i < player.input_count; i++) {
        input_stream_poll(&player.inputs[i], judges ? player_settings.input_timeout_ns : 0, now_ns);
        note_disconnection(i);
    }
    session_poll_left(now_ns);
    copy_statistics();
    if (judges)
        player.verdict = judge(now_ns);
    player_check();
}

/* ---- turns ---- */

/* Fetches what the next burst's path needs into the caches besides the stack's part, and rehearses a slice of its
 * search, in 2 to 11 us. The largest part comes last. Returns false if the search is under way. */
NOT_HOT static bool warm_up(uint64_t now_ns)
{
    (void)now_ns;
    if (!player_matcher_rests())
        return false;
    hot_fetch(session_owners, sizeof session_owners);
    hot_fetch(player.inputs, player.input_count * sizeof player.inputs[0]);
    answer_set_warm();
    return matcher_warm(player.matcher);
}

/* Goes on with the running search and with the bytes that wait for its end. Events may have taken the turn's time. */
NOT_HOT static void search_more(uint64_t now_ns)
{
    player.turn_ends_ns = max_size(player.turn_ends_ns, player.clock_ns() + SEARCH_NS);
    if (player.searching)
        player.searching = search_digits(now_ns);
    while (player.waiting != 0 && !player.searching && !turn_is_over())
        take_waiting(now_ns);
}

/* Does the rest of a turn in slices, the answers' part first. `events` were taken; `all_taken`: no other one waits. */
__attribute__((noinline)) static enum program_verdict idle_turn(unsigned events, bool all_taken, uint64_t now_ns)
{
    player.counters.turns++;
    if (player.searching || player.waiting != 0) {
        trace_work(TRACE_WORK_SEARCH);
        if (!player.has_searched || !turn_is_over())
            search_more(now_ns);
    } else if (player.matcher_busy) {
        struct matcher_answer answer;
        trace_work(TRACE_WORK_TABLES);
        player.matcher_busy = matcher_prepare(player.matcher);
        while (matcher_next_early(player.matcher, &answer))
            take_answer(&answer, now_ns);
    }
    submit_poll(all_taken, now_ns);
    for (int i = 0; i < SENDS_MAX && (i < SENDS_MIN || !turn_is_over()) && submit_send_waiting(now_ns); i++)
        trace_work(TRACE_WORK_WAITING);
    /* The page and the log do not go before an answer, nor before the tables that make the next one quick. */
    bool idle = events == 0 && player_matcher_rests() && send_queue_waiting_count() == 0;
    if (now_ns >= player.next_poll_ns && player.verdict == PROGRAM_ON)
        poll_timers(all_taken, now_ns);
    transport_idle(now_ns);
    enum program_verdict verdict = service_poll(idle, now_ns);
    return verdict != PROGRAM_ON ? verdict : player.verdict;
}

HOT enum program_verdict player_turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    bool more;
    player.turn_ends_ns = now_ns + TURN_NS;
    player.has_searched = false;
    while ((more = transport_poll(now_ns, &event))) {
        take_event(&event, now_ns);
        if (++events == PLAYER_EVENTS_PER_TURN_MAX || turn_is_over())
            break;
    }
    return idle_turn(events, !more, now_ns);
}

uint64_t player_next_deadline_ns(uint64_t now_ns)
{
    if (!player_matcher_rests())
        return now_ns;
    uint64_t next_ns = service_next_deadline_ns(now_ns), submit_ns = submit_next_deadline_ns(now_ns);
    next_ns = submit_ns < next_ns ? submit_ns : next_ns;
    for (uint32_t i = 0; i < player.input_count; i++) {
        uint64_t input_ns = input_stream_next_deadline_ns(&player.inputs[i], player_settings.input_timeout_ns, now_ns);
        next_ns = input_ns < next_ns ? input_ns : next_ns;
    }
    return next_ns;
}
