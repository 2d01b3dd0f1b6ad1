/* The speed of one stack, ring to ring. The kernel's driver runs over a model device in memory (tests/lib/), with the
 * transport that the program is linked with. In the row burst-to-post the player and the matcher run on top.
 *
 *     bench_net ROW warm|cold|rested N   times N events and prints lines of
 *                                        NAME P50 P99 SAMPLES EVENTS in nanoseconds: the row, and the shares of
 *                                        burst-to-post; then `clock STEP READING`
 *     bench_net ROW single N             warm, and each sample is one event: quantiles beyond p99 are of single events
 *     bench_net ROW count N              the same calls under `valgrind --tool=callgrind --collect-atstart=no`, which
 *                                        counts the instructions of the timed part, less the matcher's
 *
 * Some TSCs advance in steps of 10 ns. A warm sample is the mean of EVENTS events that are timed one by one: the step
 * is at most a twentieth of their sum. A cold sample is one event.
 *
 * ROW names the timed part, between serialised readings of the TSC, less the time of two readings around nothing:
 *
 *     segment-in     a frame of 100 digits stands in the used ring -> transport_poll has returned its payload;
 *                    the device vouches for the checksum
 *     segment-in-sum the same, and the stack sums it
 *     answer-out     100 digits are there, the POST's head stands in the message area -> the frame is published: the
 *                    device's doorbell rings (the model always wants it)
 *     burst-to-post  the player's turn begins, a burst of 100 digits in the used ring -> the POST of the answer that
 *                    ends with its last digit is published
 *     trade          the trading program's turn begins, a datagram of one message in the used ring -> the order that
 *                    the message triggers is published (app/trade/)
 *     trade-bulk     40 datagrams of 36 messages in the ring -> all are in the book; the time of one message
 *     trade-rate     64 symbols, 10^5 messages a second in datagrams of 10, by the real clock: the time from when a
 *                    datagram is due until it is in the book. Then `lost`, the datagrams that did not come so far:
 *                    the first that finds no room in the ring ends the row
 *     bulk           40 full segments in the ring -> all handed to the application and acknowledged (one idle call);
 *                    the device vouches
 *     bulk-sum       the same, and the stack sums them
 *
 * Everything else (the device's copies, acknowledgements, idle work) lies between the timed parts. The bursts are drawn
 * before the first timed part. `cold` walks 64 MB before each; the frame comes into the ring after that, as from a
 * device. `rested` (burst-to-post and trade) then lets the loop turn for two milliseconds: the state of the caches a
 * while after another program has used them.
 *
 * With `captured` and `count-captured` a capture keeps 128 bytes of each frame (net/capture/); the caches are warm. */
#define _GNU_SOURCE
#include <gmp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

#include "app/matcher/matcher.h"
#include "app/player/player.h"
#include "app/service/rehearsal.h"
#include "app/service/stats.h"
#include "app/trade/book.h"
#include "app/trade/trade.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/hot_section.h"
#include "base/trace.h"
#include "drivers/virtio/net.h"
#include "host/platform.h"
#include "net/capture/capture.h"
#include "net/transport_path.h"
#include "tests/bench/bench_peer.h"
#include "tests/bench/bench_trade.h"
#include "tests/bench/touched.h"
#include "tests/lib/packet.h"
#include "tests/lib/player_setup.h"
#include "tests/lib/random.h"
#include "tests/lib/virtio_model.h"

enum {
    DIGITS = 100,
    BULK_BYTES = 1460,
    BULK_COUNT = 40, /* less than the window of either stack: 44 segments */
    WARM_UP = 500,
    COLD_BYTES = 64 << 20,
    FEED_PORT = 10001,
    SUBMIT_PORT = 10002,
    STEP_NS = 100000, /* virtual time between two steps */
    REST_TURNS = 20,
    TURNS_MAX = 100000,
    STEP_SHARE = 20,       /* a sample lasts at least this many steps of the TSC */
    EVENTS_MAX = 40,       /* in a sample */
    MANY_SAMPLES = 100000, /* have quantiles beyond p99 */
    SAMPLES_MIN = 20,
};

static struct virtio_model model;
static struct virtio_net net;
static uint64_t now_ns = 1000000000;
static uint64_t seed; /* decides the secrets */
static uint8_t received_flags = VIRTIO_NET_HDR_F_DATA_VALID;

/* ---- The clock ---- */

/* One cache line. timed_begin loads it, so that the timed code does not wait for this data when caches are cold. */
static struct {
    _Alignas(64) uint64_t began_cycles, kicked_cycles;
    uint64_t matcher_from_cycles, matcher_cycles;
    bool counting, collecting, kick_ends;
    bool shares; /* the matcher's part is timed too, which takes runs of its own */
} timed;
static double timer_cost_cycles; /* the mean time of two readings around nothing */
static uint64_t tsc_step_cycles;

static void collect(bool on)
{
    if (!timed.counting || on == timed.collecting)
        return;
    timed.collecting = on;
    CALLGRIND_TOGGLE_COLLECT;
}

static inline void timed_prepare(bool until_kick)
{
    timed.kick_ends = until_kick;
    timed.kicked_cycles = 0;
    collect(true);
    touched_phase(TOUCHED_PATH);
}

static inline void timed_begin(bool until_kick)
{
    timed_prepare(until_kick);
    timed.began_cycles = cycles_now_serialised();
}

static uint64_t timed_end(void)
{
    uint64_t end_cycles = cycles_now_serialised();
    touched_phase(TOUCHED_OFF);
    collect(false);
    ASSERT(!timed.kick_ends || timed.kicked_cycles != 0);
    return (timed.kick_ends ? timed.kicked_cycles : end_cycles) - timed.began_cycles;
}

/* Plays a turn of the program, as the main loop does. Idle turns go the same way as the one that is timed up to the
 * kick: the loop's code is in the caches when a frame comes. */
static __attribute__((noinline)) uint64_t loop_turn(enum program_verdict (*turn)(uint64_t), bool is_timed)
{
    if (is_timed)
        timed_prepare(true);
    timed.began_cycles = cycles_now_serialised();
    const enum program_verdict verdict = turn(now_ns);
    const uint64_t cycles = is_timed ? timed_end() : 0;
    ASSERT(verdict == PROGRAM_ON);
    return cycles;
}

/* Records the doorbell's time: the frame stands in the available ring now. */
HOT static void on_kick(uint16_t queue)
{
    if (timed.kick_ends && timed.kicked_cycles == 0 && queue == VIRTIO_NET_TRANSMITQ) {
        timed.kicked_cycles = cycles_now_serialised();
        touched_phase(TOUCHED_OFF);
        collect(false);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns a quantile, in ten thousandths, of sums of events. A sum stands for all durations half a step of the TSC
 * around it, so equal sums are spread over the step. */
static double quantile(const uint64_t *sorted, size_t count, size_t part)
{
    ASSERT(count > 0 && part < 10000 && tsc_step_cycles > 0);
    size_t at = count * part / 10000, first = at, last = at;
    while (first > 0 && sorted[first - 1] == sorted[at])
        first--;
    while (last < count && sorted[last] == sorted[at])
        last++;
    double place = ((double)(at - first) + 0.5) / (double)(last - first);
    return (double)sorted[at] + (place - 0.5) * (double)tsc_step_cycles;
}

/* Measures the step of the TSC, the median difference of two readings that differ: one outlier would decide the least.
 * Measures the mean time of two readings around nothing, too: the largest tenth, which other programs lengthen, is left
 * out. */
static void timer_calibrate(void)
{
    enum { N = 10000 };
    static uint64_t cycles[N], steps[N];
    uint64_t sum = 0;
    size_t step_count = 0;
    for (int i = 0; i < N; i++) {
        uint64_t before = cycles_now(), now = cycles_now();
        if (now > before)
            steps[step_count++] = now - before;
        uint64_t from = cycles_now_serialised();
        cycles[i] = cycles_now_serialised() - from;
    }
    ASSERT(step_count > 0);
    qsort(steps, step_count, sizeof *steps, compare);
    tsc_step_cycles = steps[step_count / 2];
    qsort(cycles, N, sizeof *cycles, compare);
    for (int i = 0; i < N; i++)
        sum += i < N * 9 / 10 ? cycles[i] : 0;
    timer_cost_cycles = (double)sum / (N * 9 / 10);
}

static uint8_t *cold_memory;
static bool rests;

static void caches_cool(bool cold)
{
    for (size_t i = 0; cold && i < COLD_BYTES; i += 64)
        cold_memory[i]++;
    if (cold)
        touched_phase(TOUCHED_REST);
}

/* ---- The wire ---- */

static void deliver(const uint8_t *frame, uint32_t bytes)
{
    ASSERT(virtio_model_receive(&model, frame, bytes, received_flags));
}

/* Sends the frames that the device holds, and brings the peer's answers back. Returns false if there was no frame. */
static bool wire_turn(void)
{
    struct virtio_model_packet packet;
    uint8_t reply[128];
    uint32_t reply_bytes;
    bool any = false;
    while (virtio_model_transmit_take(&model, &packet)) {
        bench_peer_take(packet.frame, packet.bytes, (uint32_t)(now_ns / 1000000), reply, &reply_bytes);
        virtio_model_transmit_done(&model, &packet);
        if (reply_bytes != 0)
            deliver(reply, reply_bytes);
        any = true;
    }
    virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
    ASSERT(model.violation == NULL);
    return any;
}

static void device_start(void)
{
    virtio_model_init(&model, VIRTIO_MODEL_MODERN);
    model.on_kick = on_kick;
    ASSERT(virtio_net_init(&net, &model.bus) == VIRTIO_NET_OK);
    virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
}

static void refresh_counters(void)
{
    struct counter_group group;
    ASSERT(!transport_counter_group(SIZE_MAX, &group));
}

/* Reads the clock as the kernel does: one reading of the TSC, one multiplication. */
static uint64_t clock_ns(void)
{
    static uint64_t ns_per_cycle; /* a 32.32 fixed-point fraction */
    if (__builtin_expect(ns_per_cycle == 0, 0))
        ns_per_cycle = (UINT64_C(1000000) << 32) / platform_tsc_khz();
    return (uint64_t)((unsigned __int128)cycles_now() * ns_per_cycle >> 32);
}

/* Puts the capture between device and stack, as app/service/start.c does. */
static void capture_start(void)
{
    enum { BYTES = 128, FRAMES = 1024 };
    size_t bytes = capture_memory_bytes(BYTES, FRAMES);
    void *memory = calloc(1, bytes);
    ASSERT(memory != NULL);
    capture_init(
        &(struct capture_config){ BYTES, FRAMES, memory, clock_ns, refresh_counters, transport_alters_frames() });
    capture_attach(&net.device);
}

static void drops_watch(void)
{
    struct counter_group group;
    for (size_t i = 0; transport_counter_group(i, &group); i++)
        capture_watch(&group);
}

/* Draws from what all secrets follow: another number each run, as on a machine, unless instructions are counted. */
static uint64_t seed_draw(void)
{
    uint64_t drawn = 1;
    ASSERT(timed.counting || getrandom(&drawn, sizeof drawn, 0) == sizeof drawn);
    if (getenv("SEED") != NULL)
        drawn = strtoull(getenv("SEED"), NULL, 0);
    fprintf(stderr, "bench_net: SEED=%llu\n", (unsigned long long)drawn);
    return drawn;
}

static void transport_start(void)
{
    struct transport_config config = {
        .device = &net.device,
        .address = BENCH_ADDRESS,
        .mask = 0xffffffff,
        .gateway = BENCH_GATEWAY,
    };
    random_secret(seed, config.secret, sizeof config.secret);
    memcpy(config.gateway_mac, bench_peer_mac, sizeof config.gateway_mac);
    ASSERT(transport_init(&config, now_ns));
}

/* ---- A connection by itself ---- */

static void settle(void)
{
    struct transport_event event;
    do {
        now_ns += STEP_NS;
        while (transport_poll(now_ns, &event))
            ASSERT(event.kind != TRANSPORT_CLOSED);
        transport_idle(now_ns);
    } while (wire_turn());
}

static int open_connection(uint16_t port)
{
    struct transport_event event = { .kind = TRANSPORT_NONE };
    int connection = transport_connect(BENCH_PEER_ADDRESS, port, now_ns);
    ASSERT(connection >= 0);
    for (int turns = 0; event.kind != TRANSPORT_CONNECTED; turns++) {
        ASSERT(turns < TURNS_MAX);
        transport_idle(now_ns);
        wire_turn();
        now_ns += STEP_NS;
        transport_poll(now_ns, &event);
    }
    settle();
    return connection;
}

static uint64_t time_segment_in(bool cold)
{
    uint8_t frame[256], digits[DIGITS];
    struct bench_peer *peer = bench_peer_of(FEED_PORT);
    memset(digits, '7', sizeof digits);
    uint32_t bytes = bench_peer_segment(peer, frame, digits, DIGITS, (uint32_t)(now_ns / 1000000));
    caches_cool(cold);
    deliver(frame, bytes);
    struct transport_event event;
    timed_begin(false);
    bool got = transport_poll(now_ns, &event);
    uint64_t cycles = timed_end();
    ASSERT(got && event.kind == TRANSPORT_DATA && event.payload.count == DIGITS && event.payload.data[0] == '7');
    settle();
    return cycles;
}

static uint64_t time_answer_out(bool cold, int connection)
{
    static const char head[] =
        "POST /submit?user=swift&passwd=secret HTTP/1.1\r\nHost: 10.0.2.2:10002\r\nContent-Length: ";
    static uint8_t digits[DIGITS];
    memset(digits, '7', sizeof digits);
    uint8_t *message = transport_message(connection);
    ASSERT(message != NULL);
    memcpy(message, head, sizeof head - 1);
    transport_message_prepare(connection, 0, sizeof head - 1);
    caches_cool(cold);
    timed_begin(true);
    uint8_t *at = message + sizeof head - 1;
    memcpy(at, "100\r\n\r\n", 7);
    memcpy(at + 7, digits, DIGITS);
    bool sent = transport_send(connection, 0, (uint32_t)(at + 7 + DIGITS - message), now_ns);
    uint64_t cycles = timed_end();
    ASSERT(sent);
    settle();
    return cycles;
}

/* Times one whole batch. */
static uint64_t time_bulk(bool cold)
{
    static uint8_t payload[BULK_BYTES];
    uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    struct bench_peer *peer = bench_peer_of(FEED_PORT);
    uint32_t payload_bytes = peer->timestamps ? BULK_BYTES - 12 : BULK_BYTES; /* the frame is 1514 bytes either way */
    uint64_t got_bytes = 0;
    caches_cool(cold);
    for (int i = 0; i < BULK_COUNT; i++)
        deliver(frame, bench_peer_segment(peer, frame, payload, payload_bytes, (uint32_t)(now_ns / 1000000)));
    struct transport_event event;
    timed_begin(false);
    while (transport_poll(now_ns, &event))
        got_bytes += event.payload.count;
    transport_idle(now_ns);
    uint64_t cycles = timed_end();
    ASSERT(got_bytes == (uint64_t)payload_bytes * BULK_COUNT);
    settle();
    return cycles;
}

/* ---- The whole game ---- */

static void play_until_quiet(void)
{
    for (int turns = 0;; turns++) {
        ASSERT(turns < TURNS_MAX);
        now_ns += STEP_NS;
        ASSERT(player_turn(now_ns) == PROGRAM_ON);
        if (!wire_turn() && player_next_deadline_ns(now_ns) > now_ns && turns > 3)
            return;
    }
}

static void player_start(void)
{
    static const char words[] =
        "feed=10.0.2.2:10001 submit=10.0.2.2:10002 user=swift passwd=secret n=256 early=off feed.timeout=0 "
        "m=20220217214410,104648257118348370704723119,125000000000000140750000000000052207500000000006359661,"
        "10885732038215355481752285039386319187390558900925053798518152998488201";
    player_setup(words, false, platform_tsc_khz(), now_ns);
    play_until_quiet();

    static const char response[] = "HTTP/1.1 200 OK\r\nServer: Most\r\nContent-type: text/plain\r\n\r\n";
    uint8_t frame[256];
    ASSERT(bench_peer_of(FEED_PORT) != NULL && bench_peer_of(SUBMIT_PORT) != NULL);
    deliver(frame, bench_peer_segment(bench_peer_of(FEED_PORT), frame, response, sizeof response - 1,
                                      (uint32_t)(now_ns / 1000000)));
    play_until_quiet();
}

/* Draws digits that end in a random multiple of one of the moduli, of up to 100 digits. The multiple is not
 * divisible by 10: its tenth would be an answer before the last digit. */
static void burst_draw(uint8_t *burst)
{
    static const char *const moduli[] = { "104648257118348370704723119",
                                          "125000000000000140750000000000052207500000000006359661" };
    static gmp_randstate_t random;
    static bool ready;
    if (!ready)
        gmp_randinit_default(random);
    ready = true;
    mpz_t value, modulus, power;
    mpz_inits(value, modulus, power, NULL);
    char number[DIGITS + 2];
    do {
        mpz_set_str(modulus, moduli[gmp_urandomm_ui(random, 2)], 10);
        mpz_ui_pow_ui(power, 10, DIGITS);
        mpz_urandomm(value, random, power);
        mpz_fdiv_q(value, value, modulus);
        mpz_mul(value, value, modulus);
        mpz_get_str(number, 10, value);
    } while (mpz_sgn(value) == 0 || number[strlen(number) - 1] == '0');
    for (int i = 0; i < DIGITS; i++)
        burst[i] = (uint8_t)('0' + gmp_urandomm_ui(random, 10));
    memcpy(burst + DIGITS - strlen(number), number, strlen(number));
    mpz_clears(value, modulus, power, NULL);
}

/* All bursts of a run. They are drawn before the first timed part: in a game nobody draws numbers on this CPU. */
static uint8_t (*bursts)[DIGITS];
static size_t burst_count, burst_next;

static void bursts_draw(size_t count)
{
    burst_count = count;
    bursts = malloc(count * sizeof *bursts);
    ASSERT(bursts != NULL);
    for (size_t i = 0; i < count; i++)
        burst_draw(bursts[i]);
}

/* Delivers the submit server's response, so that the send queue and the circuit breaker see an ordinary game. */
static void respond(void)
{
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n+8";
    uint8_t frame[256];
    deliver(frame, bench_peer_segment(bench_peer_of(SUBMIT_PORT), frame, response, sizeof response - 1,
                                      (uint32_t)(now_ns / 1000000)));
}

/* Times the matcher's share, from matcher_begin to the answer. Instructions of this part are not counted. */
void __real_matcher_begin(struct matcher *matcher, const uint8_t *digits, size_t count);
enum matcher_step __real_matcher_next(struct matcher *matcher, struct matcher_answer *answer);
void __wrap_matcher_begin(struct matcher *matcher, const uint8_t *digits, size_t count);
enum matcher_step __wrap_matcher_next(struct matcher *matcher, struct matcher_answer *answer);

static __attribute__((noinline)) void matcher_begin_watched(struct matcher *matcher, const uint8_t *digits,
                                                            size_t count)
{
    bool was_collecting = timed.collecting;
    collect(false);
    if (timed.shares)
        timed.matcher_from_cycles = cycles_now_serialised();
    __real_matcher_begin(matcher, digits, count);
    collect(was_collecting);
}
static __attribute__((noinline)) enum matcher_step matcher_next_watched(struct matcher *matcher,
                                                                        struct matcher_answer *answer)
{
    bool was_collecting = timed.collecting;
    collect(false);
    enum matcher_step step = __real_matcher_next(matcher, answer);
    collect(was_collecting);
    if (timed.shares && step == MATCHER_ANSWER && timed.matcher_cycles == 0)
        timed.matcher_cycles = cycles_now_serialised();
    return step;
}

void __wrap_matcher_begin(struct matcher *matcher, const uint8_t *digits, size_t count)
{
    if (__builtin_expect(timed.shares | timed.counting, 0))
        matcher_begin_watched(matcher, digits, count);
    else
        __real_matcher_begin(matcher, digits, count);
}
enum matcher_step __wrap_matcher_next(struct matcher *matcher, struct matcher_answer *answer)
{
    if (__builtin_expect(timed.shares | timed.counting, 0))
        return matcher_next_watched(matcher, answer);
    return __real_matcher_next(matcher, answer);
}

static uint64_t before_cycles, after_cycles; /* the last burst's time before the matcher, and after it */

static uint64_t time_burst(bool cold)
{
    uint8_t frame[256];
    struct bench_peer *submit = bench_peer_of(SUBMIT_PORT);
    uint64_t posted_bytes = submit->bytes;
    ASSERT(burst_next < burst_count);
    uint32_t bytes = bench_peer_segment(bench_peer_of(FEED_PORT), frame, bursts[burst_next++], DIGITS,
                                        (uint32_t)(now_ns / 1000000));
    caches_cool(cold);
    for (int turns = 0; cold && rests && turns < REST_TURNS; turns++) {
        now_ns += STEP_NS;
        loop_turn(player_turn, false);
        wire_turn(); /* a question of ARP has its kick */
    }
    deliver(frame, bytes);
    timed.matcher_cycles = 0; /* a rehearsal in idle time may have set it */
    const uint64_t cycles = loop_turn(player_turn, true);
    if (timed.shares) {
        before_cycles = timed.matcher_from_cycles - timed.began_cycles;
        after_cycles = timed.kicked_cycles - timed.matcher_cycles;
        timed.matcher_cycles = timed.matcher_cycles - timed.matcher_from_cycles;
    }
    wire_turn();
    ASSERT(submit->bytes > posted_bytes);
    respond();
    play_until_quiet();
    return cycles;
}

/* ---- Trading ---- */

static void trade_turns(int turns)
{
    for (int i = 0; i < turns; i++) {
        now_ns += STEP_NS;
        ASSERT(trade_turn(now_ns) == PROGRAM_ON);
        wire_turn();
    }
}

/* Writes the frame of a datagram of the feed. */
static uint32_t feed_frame(uint8_t *frame, const uint8_t *datagram, uint32_t bytes)
{
    uint8_t udp[8 + BENCH_TRADE_DATAGRAM_BYTES_MAX] = { 0 };
    store_be16(udp, BENCH_TRADE_FEED_PORT);
    store_be16(udp + 2, BENCH_TRADE_FEED_PORT);
    store_be16(udp + 4, (uint16_t)(8 + bytes));
    memcpy(udp + 8, datagram, bytes);
    packet_ethernet(frame, bench_peer_of(BENCH_TRADE_ORDERS_PORT)->mac, bench_peer_mac, ETHERNET_TYPE_IPV4);
    return 14 + packet_around(frame + 14, IPV4_PROTOCOL_UDP, BENCH_PEER_ADDRESS, BENCH_ADDRESS, udp, 8 + bytes);
}

static void feed(uint32_t (*write)(uint8_t *datagram))
{
    uint8_t datagram[BENCH_TRADE_DATAGRAM_BYTES_MAX], frame[NETDEV_FRAME_BYTES_MAX];
    deliver(frame, feed_frame(frame, datagram, write(datagram)));
}

static void answer(uint32_t (*write)(uint8_t *packets))
{
    uint8_t packets[256], frame[512];
    struct bench_peer *peer = bench_peer_of(BENCH_TRADE_ORDERS_PORT);
    deliver(frame, bench_peer_segment(peer, frame, packets, write(packets), (uint32_t)(now_ns / 1000000)));
}

/* The real clock, which goes on from the virtual one. */
static uint64_t real_from_ns, virtual_from_ns;
static uint64_t real_ns(void) { return real_from_ns == 0 ? 0 : virtual_from_ns + clock_ns() - real_from_ns; }

static void trade_start(bool by_rate)
{
    enum { SETTLE_TURNS = 1200 }; /* the session is ready 100 ms after a response */
    const uint32_t symbol_count = by_rate ? BOOK_SYMBOL_COUNT_MAX : 3;
    bench_trade_start(platform_tsc_khz(), seed, symbol_count, by_rate ? real_ns : NULL, now_ns);
    trade_turns(30);
    answer(bench_trade_login);
    trade_turns(30);
    answer(bench_trade_query);
    trade_turns(SETTLE_TURNS);
    feed(bench_trade_market);
    trade_turns(30);
    for (uint32_t i = 1; i < symbol_count; i++) {
        uint8_t datagram[BENCH_TRADE_DATAGRAM_BYTES_MAX], frame[NETDEV_FRAME_BYTES_MAX];
        deliver(frame, feed_frame(frame, datagram, bench_trade_symbol(datagram, i)));
        trade_turns(1);
    }
    for (int i = 0; i < BENCH_TRADE_RESTING_DATAGRAMS && !by_rate; i++) {
        feed(bench_trade_resting);
        trade_turns(1);
    }
    ASSERT(book_is_whole());
}

static uint64_t time_trade(bool cold)
{
    uint8_t datagram[BENCH_TRADE_DATAGRAM_BYTES_MAX], frame[NETDEV_FRAME_BYTES_MAX];
    uint32_t bytes = feed_frame(frame, datagram, bench_trade_tick(datagram));
    uint64_t orders = bench_trade_orders();
    caches_cool(cold);
    for (int turns = 0; cold && rests && turns < REST_TURNS; turns++) {
        now_ns += STEP_NS;
        loop_turn(trade_turn, false);
        wire_turn();
    }
    deliver(frame, bytes);
    const uint64_t cycles = loop_turn(trade_turn, true);
    ASSERT(bench_trade_orders() == orders + 1);
    trade_turns(2);
    answer(bench_trade_response);
    feed(bench_trade_end);
    trade_turns(12); /* risk.rate= is not reached */
    return cycles;
}

/* Times a message of a batch. */
static uint64_t time_trade_bulk(bool cold)
{
    uint64_t before = book_counters.messages;
    caches_cool(cold);
    for (int i = 0; i < BULK_COUNT; i++)
        feed(bench_trade_bulk);
    timed_begin(false);
    while (book_counters.messages < before + BULK_COUNT * BENCH_TRADE_BULK_MESSAGES)
        trade_turn(now_ns);
    uint64_t cycles = timed_end();
    ASSERT(book_is_whole());
    trade_turns(2);
    return cycles / (BULK_COUNT * BENCH_TRADE_BULK_MESSAGES);
}

/* Plays datagrams at their times, until one finds no room in the ring: a turn that takes long finds all that has come
 * meanwhile. Returns the number of those that came into the book, and the time of each. */
static size_t play_rate(uint64_t *late_ns, size_t count)
{
    enum { EACH_NS = 10000 * BENCH_TRADE_MIXED_MESSAGES }; /* 10^5 messages a second */
    uint8_t datagram[BENCH_TRADE_DATAGRAM_BYTES_MAX], frame[NETDEV_FRAME_BYTES_MAX];
    const uint64_t before = book_counters.messages, begin_ns = now_ns;
    size_t sent = 0, taken = 0;
    virtual_from_ns = now_ns;
    real_from_ns = clock_ns();
    while (taken < count) {
        now_ns = real_ns();
        for (; sent < count && begin_ns + sent * EACH_NS <= now_ns; sent++)
            if (!virtio_model_receive(&model, frame, feed_frame(frame, datagram, bench_trade_mixed(datagram)),
                                      received_flags))
                return taken;
        ASSERT(trade_turn(now_ns) == PROGRAM_ON);
        wire_turn();
        const uint64_t end_ns = real_ns(), in_book = (book_counters.messages - before) / BENCH_TRADE_MIXED_MESSAGES;
        for (; taken < in_book; taken++)
            late_ns[taken] = end_ns - begin_ns - taken * EACH_NS;
    }
    ASSERT(book_is_whole());
    return taken;
}

static void rate_row(size_t count)
{
    uint64_t *late_ns = calloc(count, sizeof *late_ns);
    ASSERT(late_ns != NULL);
    const size_t taken = play_rate(late_ns, count), lost = count - taken;
    qsort(late_ns, taken, sizeof *late_ns, compare);
    printf("trade-rate %llu %llu %zu 1\n", (unsigned long long)late_ns[taken / 2],
           (unsigned long long)late_ns[taken * 99 / 100], taken);
    printf("lost %zu %zu %zu 1\n", lost, lost, count);
    free(late_ns);
}

/* ---- Main ---- */

enum row { SEGMENT_IN, ANSWER_OUT, BURST, BULK, TRADE, TRADE_BULK, TRADE_RATE };

static uint64_t time_one(enum row row, bool cold, int connection)
{
    now_ns += STEP_NS;
    trace_stamp(TRACE_FRAME_SEEN); /* as the main loop does */
    return row == SEGMENT_IN   ? time_segment_in(cold)
           : row == ANSWER_OUT ? time_answer_out(cold, connection)
           : row == BULK       ? time_bulk(cold)
           : row == TRADE      ? time_trade(cold)
           : row == TRADE_BULK ? time_trade_bulk(cold)
                               : time_burst(cold);
}

/* Returns how many events a sample is made of, by the least mean of CHUNK events: what interrupts an event does not
 * count. */
static size_t events_of_a_sample(const uint64_t *cycles, size_t count)
{
    enum { CHUNK = 100 };
    double least = 1e18, needed = STEP_SHARE * (double)tsc_step_cycles;
    for (size_t from = 0; from < count; from += CHUNK) {
        size_t in_chunk = count - from < CHUNK ? count - from : CHUNK;
        double sum = 0;
        for (size_t i = 0; i < in_chunk; i++)
            sum += (double)cycles[from + i] - timer_cost_cycles;
        least = sum / (double)in_chunk < least ? sum / (double)in_chunk : least;
    }
    size_t events = least * EVENTS_MAX <= needed ? EVENTS_MAX : (size_t)(needed / least) + 1;
    size_t most = count / SAMPLES_MIN + 1;
    return events < most ? events : most;
}

/* Prints two quantiles of samples, in ten thousandths. */
static void print_pair(const char *name, const uint64_t *cycles, size_t samples, size_t events, const size_t part[2])
{
    double ns = 1e6 / (double)platform_tsc_khz();
    printf("%s", name);
    for (size_t i = 0; i < 2; i++)
        printf(" %.2f", (quantile(cycles, samples, part[i]) / (double)events - timer_cost_cycles) * ns);
    printf(" %zu %zu\n", samples, events);
}

/* Prints the quantiles of the samples that the events make: p50 and p99, and of many samples p99.9 and p99.99. The
 * events' times are lost. */
static void print_quantiles(const char *name, uint64_t *cycles, size_t count, bool single)
{
    size_t events = single ? 1 : events_of_a_sample(cycles, count), samples = count / events;
    for (size_t i = 0; i < samples; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < events; j++)
            sum += cycles[i * events + j];
        cycles[i] = sum;
    }
    qsort(cycles, samples, sizeof *cycles, compare);
    print_pair(name, cycles, samples, events, (const size_t[]){ 5000, 9900 });
    if (samples >= MANY_SAMPLES)
        print_pair("tail", cycles, samples, events, (const size_t[]){ 9990, 9999 });
}

/* Maps memory in pages of 2 MiB, as the kernel maps its data (kernel/memory/paging.c). A burst touches some 80 pages of
 * 4 KiB, more than the first-level TLB holds. With cold caches the page tables are cold too. */
static void memory_as_in_the_kernel(void)
{
    extern char __bss_start[], _end[];
    const uintptr_t page = UINT32_C(2) << 20;
    const uintptr_t from = ((uintptr_t)__bss_start + page - 1) & -page, to = (uintptr_t)_end & -page;
    if (from >= to || madvise((void *)from, to - from, MADV_HUGEPAGE) != 0)
        fprintf(stderr, "bench_net: no pages of 2 MiB\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum row row;
        bool sum;
    } rows[] = {
        { "segment-in", SEGMENT_IN, false }, { "segment-in-sum", SEGMENT_IN, true },
        { "answer-out", ANSWER_OUT, false }, { "burst-to-post", BURST, false },
        { "trade", TRADE, false },           { "trade-bulk", TRADE_BULK, false },
        { "trade-rate", TRADE_RATE, false }, { "bulk", BULK, false },
        { "bulk-sum", BULK, true },
    };
    size_t r = 0, count = argc == 4 ? (size_t)atol(argv[3]) : 0;
    while (argc == 4 && r < ARRAY_COUNT(rows) && strcmp(rows[r].name, argv[1]) != 0)
        r++;
    if (argc != 4 || r == ARRAY_COUNT(rows) || count == 0) {
        fprintf(stderr, "usage: bench_net ROW warm|cold|rested|single|captured|count|count-captured N\n");
        return 2;
    }
    enum row row = rows[r].row;
    rests = strcmp(argv[2], "rested") == 0;
    bool cold = rests || strcmp(argv[2], "cold") == 0;
    timed.counting = strncmp(argv[2], "count", 5) == 0;
    bool captured = strstr(argv[2], "captured") != NULL;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    memory_as_in_the_kernel();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) /* the kernel's memory is there from the start: no page faults */
        fprintf(stderr, "bench_net: memory cannot be locked; page faults are timed too\n");
    platform_init();
    timer_calibrate();
    cold_memory = cold ? malloc(COLD_BYTES) : NULL;
    uint64_t *total = calloc(count, sizeof *total), *parts = calloc(3 * count, sizeof *parts);
    ASSERT(total != NULL && parts != NULL && (!cold || cold_memory != NULL));
    if (cold)
        memset(cold_memory, 1, COLD_BYTES);

    seed = player_setup_seed = seed_draw();
    device_start();
    if (captured)
        capture_start();
    transport_start();
    drops_watch();
    received_flags = rows[r].sum ? 0 : VIRTIO_NET_HDR_F_DATA_VALID;
    int connection = 0;
    if (row == BURST) {
        bursts_draw(WARM_UP + 2 * count);
        player_start();
    } else if (row == TRADE || row == TRADE_BULK || row == TRADE_RATE) {
        trade_start(row == TRADE_RATE);
    } else {
        connection = open_connection(row == ANSWER_OUT ? SUBMIT_PORT : FEED_PORT);
    }
    const double ns = 1e6 / (double)platform_tsc_khz();
    if (row == TRADE_RATE) {
        rate_row(count);
        printf("clock %.2f %.2f\n", (double)tsc_step_cycles * ns, timer_cost_cycles * ns);
        return 0;
    }
    bool was_counting = timed.counting;
    timed.counting = false;
    for (int i = 0; i < WARM_UP; i++)
        time_one(row, false, connection);
    timed.counting = was_counting;
    for (size_t i = 0; i < count; i++)
        total[i] = time_one(row, cold, connection);
    touched_end();
    const bool single = cold || timed.counting || strcmp(argv[2], "single") == 0;
    print_quantiles(rows[r].name, total, count, single);
    timed.shares = row == BURST && !timed.counting;
    for (size_t i = 0; timed.shares && i < count; i++) {
        time_one(row, cold, connection);
        parts[i] = before_cycles;
        parts[count + i] = timed.matcher_cycles;
        parts[2 * count + i] = after_cycles;
    }
    if (timed.shares) {
        print_quantiles("before-matcher", parts, count, cold);
        print_quantiles("matcher", parts + count, count, cold);
        print_quantiles("after-matcher", parts + 2 * count, count, cold);
    }
    /* A rehearsal that the program refuses makes the next event slow: at most one in a hundred. */
    ASSERT(row != BURST || 100 * rehearsal_counters.refused_program <= rehearsal_counters.done);
    printf("clock %.2f %.2f\n", (double)tsc_step_cycles * ns, timer_cost_cycles * ns);
    return 0;
}
