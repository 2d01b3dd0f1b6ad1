/* Whole games between two stacks in virtual time, each made from one number.
 *
 *     sim [--peer own|lwip] [--seed N] [--steps N] [--seconds N] [--recording FILE]
 *     sim --lose N [--transfers N] [--seed N]
 *
 * With a recording the first connection's listener writes the bursts of a recorded contest, with their pauses.
 * A game is a network with faults, two stacks with policies of their own, with or without ARP and pauses of a machine,
 * and up to four connections at once. Connections are opened from one end or from both. The applications write, read
 * slowly, half-close, leave early or abort.
 *
 * Checked at every step: each byte received is the byte sent at that offset, and no more bytes than written. Time
 * moves, no deadline is missed, and net_stack_check holds. Checked at the end: streams that nobody broke off arrived
 * whole, every connection ended within GAME_NS_MAX, and after all timers no state and no buffer is left. A failure
 * prints the game's seed; `sim --seed SEED --steps 1` plays the game again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "net/transport_path.h"
#include "tests/lib/random.h"
#include "tests/lib/simulator.h"

#define MS             UINT64_C(1000000)
#define S              UINT64_C(1000000000)

#define GAME_NS_MAX    (1800 * S) /* data_give_up is 924 s; then the peer's patience, then its own */
#define PATIENCE_NS    (30 * S)   /* the wait of a half whose peer is gone, before it aborts */
#define PACED_NS_MAX   (300 * S)  /* the longest stream, in calls with the longest pauses between them */
#define TIME_WAIT_NS   (60 * S)
#define GAME_BEGINS_NS (1000 * S)
#define AFTERWARDS_NS  (200 * S) /* TIME-WAIT 60 s, FIN-WAIT-2 60 s, half-open 63 s */

enum { STREAM_BYTES_MAX = 100000 };

static struct simulator sim;
static uint64_t game_seed, virtual_ns;
static bool with_lwip;
static struct recording recording;               /* burst_count 0: none */
static uint64_t forget_every_ns, forget_next_ns; /* when ARP forgets the peer, on both endpoints; UINT64_MAX: never */
static struct {
    uint64_t random; /* apart from the game's: games without pauses stay as they were */
    uint64_t next_ns, until_ns;
    uint32_t endpoint;
} pauses; /* times in which an endpoint's machine stands still */

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    printf("sim: %s:%d: %s\nsim: seed %" PRIu64 ", step %" PRIu64 ", at %" PRIu64
           " ns; again: sim --peer %s --seed %" PRIu64 " --steps 1\n",
           file, line, condition, game_seed, sim.steps, sim.now_ns, with_lwip ? "lwip" : "own", game_seed);
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < sim.endpoints[s].connection_count; i++) {
            const struct half *h = &sim.endpoints[s].halves[i];
            printf("sim: endpoint %d connection %u: state %d id %d written %" PRIu64 " of %" PRIu64 " read %" PRIu64
                   " shut %d peer shut %d broken %d reason %d\n",
                   s, i, h->state, h->id, h->written, h->plan.send_bytes, h->read, h->shut, h->peer_shut, h->broken,
                   h->reason);
        }
    printf("sim: frames %" PRIu64 " lost %" PRIu64 " repeated %" PRIu64 " reordered %" PRIu64 " corrupted %" PRIu64
           " truncated %" PRIu64 "\n",
           sim.network.frames, sim.network.lost, sim.network.repeated, sim.network.reordered, sim.network.corrupted,
           sim.network.truncated);
    fflush(stdout);
    abort();
}

static void fail(const char *what) { assert_failed("sim", 0, what); }

/* ---- A game from its seed ---- */

static void choose_faults(struct network_faults *f, uint64_t *random)
{
    static const uint32_t chances[] = { 0, 0, 0, 100, 500, 2000 };
    memset(f, 0, sizeof *f);
    uint32_t *each[] = { &f->lose, &f->repeat, &f->reorder, &f->corrupt, &f->truncate };
    for (size_t i = 0; i < ARRAY_COUNT(each); i++)
        *each[i] = chances[random_between(random, 0, ARRAY_COUNT(chances) - 1)];
    static const uint64_t delays_ns[] = { 1000, 50000, 1 * MS, 10 * MS, 100 * MS };
    f->delay_least_ns = delays_ns[random_between(random, 0, ARRAY_COUNT(delays_ns) - 1)];
    f->delay_most_ns = f->delay_least_ns * random_between(random, 1, 5);
}

static void choose_policy(struct tcp_policy *p, uint64_t *random)
{
    tcp_policy_default(p);
    p->ack = random_chance(random, 5000) ? TCP_ACK_QUICK : TCP_ACK_DELAYED;
    p->congestion = random_chance(random, 5000) ? TCP_CUBIC : TCP_NEWRENO;
    p->timestamps = random_chance(random, 7000);
    p->sack = random_chance(random, 7000);
    p->window_scaling = random_chance(random, 7000);
    p->nodelay = random_chance(random, 5000);
    p->receive_buffer_bytes = (uint32_t)(random_chance(random, 3000) ? random_between(random, 2000, 8000) : 65535);
    p->send_buffer_bytes = (uint32_t)(random_chance(random, 3000) ? random_between(random, 1000, 8000) : 65536);
    if (random_chance(random, 3000))
        p->mss = (uint16_t)random_between(random, 88, 1460);
    if (random_chance(random, 3000))
        p->rto_min_us = 5000;
    if (random_chance(random, 2000))
        p->initial_window_segments = (uint32_t)random_between(random, 1, 40);
}

/* Returns the bytes a call that the pauses ask for, so that the application ends long before GAME_NS_MAX. */
static uint32_t paced_bytes(uint32_t bytes, uint64_t pause_ns)
{
    return (uint32_t)max_size(bytes, STREAM_BYTES_MAX * pause_ns / PACED_NS_MAX);
}

static void choose_plan(struct half_plan *plan, uint64_t *random)
{
    static const uint64_t lengths[] = { 0, 1, 100, 3000, 20000, STREAM_BYTES_MAX };
    static const uint64_t pauses_ns[] = { 0, 0, 0, 1 * MS, 30 * MS };
    *plan = (struct half_plan){
        .send_bytes = random_between(random, 0, lengths[random_between(random, 0, ARRAY_COUNT(lengths) - 1)]),
        .write_bytes_max = (uint32_t)random_between(random, 1, random_chance(random, 2000) ? 30 : 8000),
        .read_bytes_max = (uint32_t)random_between(random, 1, random_chance(random, 2000) ? 100 : 16384),
        .write_pause_ns = pauses_ns[random_between(random, 0, ARRAY_COUNT(pauses_ns) - 1)],
        .read_pause_ns = pauses_ns[random_between(random, 0, ARRAY_COUNT(pauses_ns) - 1)],
        .abort_after_bytes = UINT64_MAX,
        .close_after_bytes = UINT64_MAX,
    };
    plan->write_bytes_max = paced_bytes(plan->write_bytes_max, plan->write_pause_ns);
    plan->read_bytes_max = paced_bytes(plan->read_bytes_max, plan->read_pause_ns);
    if (random_chance(random, 700))
        plan->abort_after_bytes = random_between(random, 0, 20000);
    else if (random_chance(random, 700))
        plan->close_after_bytes = random_between(random, 0, 20000);
}

/* Chooses how the stacks know their neighbours. A quarter of the games has plain ARP. The others have no ARP, or forget
 * the peer's MAC again and again, and open some connections from both ends at once. Returns a bit for each of these
 * connections. The choice takes no number of the game's own sequence, so old seeds play their old games. */
static uint32_t choose_neighbours(void)
{
    static const uint64_t every_ns[] = { UINT64_MAX, 30 * MS, 1 * S, 10 * S };
    uint64_t random = game_seed ^ UINT64_C(0xa0761d6478bd642f);
    forget_every_ns = forget_next_ns = UINT64_MAX;
    if (with_lwip || game_seed % 4 == 3)
        return 0;
    if (random_chance(&random, 3000)) {
        for (int s = 0; s < 2; s++)
            endpoint_neighbour_fix(&sim.endpoints[s], sim.now_ns);
    } else {
        forget_every_ns = every_ns[random_between(&random, 0, ARRAY_COUNT(every_ns) - 1)];
        forget_next_ns = forget_every_ns == UINT64_MAX ? UINT64_MAX
                                                       : sim.now_ns + random_between(&random, 0, forget_every_ns);
    }
    return (uint32_t)random_between(&random, 0, (1 << ENDPOINT_CONNECTION_COUNT_MAX) - 1);
}

/* Chooses the next pause. A quarter of the games without lwIP has pauses, as long as the network has faults. */
static void choose_pause(void)
{
    static const uint64_t lengths_ns[] = { 10 * MS, 300 * MS, 2 * S, 60 * S };
    bool on = !with_lwip && game_seed % 4 == 1 && sim.now_ns < sim.network.perfect_from_ns;
    pauses.next_ns = on ? sim.now_ns + random_between(&pauses.random, 0, 10 * S) : UINT64_MAX;
    pauses.until_ns = pauses.next_ns;
    if (on)
        pauses.until_ns += lengths_ns[random_between(&pauses.random, 0, ARRAY_COUNT(lengths_ns) - 1)];
    pauses.endpoint = (uint32_t)random_between(&pauses.random, 0, 1);
}

static void game_open(uint64_t *random)
{
    uint32_t connection_count = (uint32_t)random_between(random, 1, ENDPOINT_CONNECTION_COUNT_MAX);
    uint32_t lwip_index = with_lwip ? 1 : 2;
    struct network_faults faults;
    choose_faults(&faults, random);
    for (uint32_t s = 0; s < 2; s++) {
        struct tcp_policy policy;
        choose_policy(&policy, random);
        memset(sim.endpoints[s].halves, 0, sizeof sim.endpoints[s].halves);
        endpoint_open(&sim.endpoints[s], s, s == lwip_index, &policy, random_from(random), sim.now_ns);
        for (uint32_t i = 0; i < connection_count; i++)
            choose_plan(&sim.endpoints[s].halves[i].plan, random);
    }
    if (recording.burst_count > 0) {
        struct half_plan *plan = &sim.endpoints[1].halves[0].plan;
        plan->recording = &recording;
        plan->send_bytes = recording.digit_count;
        plan->write_pause_ns = 0;
    }
    network_init(&sim.network, &sim.endpoints[0].device, &sim.endpoints[1].device, &faults,
                 sim.now_ns + random_between(random, 0, 60) * S, random_from(random));
    uint32_t crossing = choose_neighbours();
    endpoint_start(&sim.endpoints[1], connection_count, crossing, sim.now_ns);
    endpoint_start(&sim.endpoints[0], connection_count, crossing, sim.now_ns);
    pauses.random = game_seed ^ UINT64_C(0xe7037ed1a0b428db);
    choose_pause();
}

/* ---- Playing it ---- */

/* Plays one moment, before which stacks may forget their peer, and machines may stop or go on. */
static void play_moment(void)
{
    if (sim.now_ns >= forget_next_ns) {
        for (int s = 0; s < 2; s++)
            endpoint_neighbour_renew(&sim.endpoints[s], sim.now_ns);
        bool on = sim.now_ns < sim.network.perfect_from_ns + 10 * S;
        forget_next_ns = on ? forget_next_ns + forget_every_ns : UINT64_MAX;
    }
    if (sim.now_ns >= pauses.until_ns)
        choose_pause();
    for (uint32_t s = 0; s < 2; s++)
        sim.still[s] = s == pauses.endpoint && sim.now_ns >= pauses.next_ns;
    simulator_play(&sim);
}

/* Moves time to the next event. Returns false if there is none before `until_ns`. */
static bool advance(uint64_t until_ns)
{
    uint64_t goes_on_ns = sim.still[pauses.endpoint] ? pauses.until_ns : UINT64_MAX;
    return simulator_advance(&sim, min_ns(forget_next_ns, goes_on_ns), until_ns);
}

static void check_streams(void)
{
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < sim.endpoints[s].connection_count; i++) {
            const struct half *half = &sim.endpoints[s].halves[i], *peer = &sim.endpoints[!s].halves[i];
            ASSERT(half->read <= peer->written);
            if (half->peer_shut && !peer->broken)
                ASSERT(half->read == peer->written && peer->written == peer->plan.send_bytes);
        }
}

/* Aborts halves whose peer has been gone for PATIENCE_NS. */
static bool all_done(void)
{
    bool done = true;
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < sim.endpoints[s].connection_count; i++) {
            const struct half *half = &sim.endpoints[s].halves[i], *peer = &sim.endpoints[!s].halves[i];
            if (half->state != HALF_DONE && peer->state == HALF_DONE && peer->broken
                && sim.now_ns > sim.network.perfect_from_ns + PATIENCE_NS && sim.now_ns - peer->done_ns > PATIENCE_NS)
                endpoint_abort(&sim.endpoints[s], i, sim.now_ns);
            done &= half->state == HALF_DONE;
        }
    return done;
}

/* Checks that each connection that nobody broke off has ended well. The network may break a connection as it connects,
 * when ARP and SYN give up. It may also break one by losing every ACK of lwIP's last bytes until our TIME-WAIT is
 * over. */
static void check_ends(void)
{
    for (uint32_t i = 0; i < sim.endpoints[0].connection_count; i++) {
        const struct half *a = &sim.endpoints[0].halves[i], *b = &sim.endpoints[1].halves[i];
        bool planned = a->plan.abort_after_bytes != UINT64_MAX || a->plan.close_after_bytes != UINT64_MAX
                       || b->plan.abort_after_bytes != UINT64_MAX || b->plan.close_after_bytes != UINT64_MAX;
        bool never_met = a->broken && a->read == 0 && b->read == 0;
        bool lwip_gave_up = with_lwip && b->reason == TRANSPORT_TIMED_OUT; /* ten resends, or 60 s in LAST-ACK */
        bool lwip_late = with_lwip && b->reason == TRANSPORT_RESET && b->done_ns - a->done_ns >= TIME_WAIT_NS;
        if (planned || never_met || lwip_gave_up)
            continue;
        ASSERT(!a->broken && (!b->broken || lwip_late));
        ASSERT(a->read == b->written && b->read == a->written);
    }
}

static void play(uint64_t seed)
{
    uint64_t random = game_seed = seed;
    sim.now_ns = GAME_BEGINS_NS;
    game_open(&random);
    uint64_t until_ns = sim.now_ns + GAME_NS_MAX;
    for (bool done = false; !done;) {
        play_moment();
        check_streams();
        done = all_done();
        if (!done && !advance(min_ns(sim.now_ns + S, until_ns)) && sim.now_ns >= until_ns)
            fail("a connection has not ended");
    }
    check_ends();
    for (uint64_t end_ns = sim.now_ns + AFTERWARDS_NS; sim.now_ns < end_ns;) {
        play_moment();
        advance(end_ns);
    }
    play_moment();
    for (int s = 0; s < 2; s++) {
        const char *leftover = endpoint_leftover(&sim.endpoints[s]);
        if (leftover != NULL)
            fail(leftover);
        if (!sim.endpoints[s].lwip)
            endpoint_close(&sim.endpoints[s]);
    }
    virtual_ns += sim.now_ns - GAME_BEGINS_NS;
}

/* Plays one game in a process of its own. lwIP cannot be started twice, and the seed alone must replay the game. */
static void play_apart(uint64_t seed)
{
    static uint64_t *shared;
    if (shared == NULL)
        shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        play(seed);
        shared[0] = sim.steps;
        shared[1] = virtual_ns;
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        exit(1); /* the child has printed the reason */
    sim.steps = shared[0];
    virtual_ns = shared[1];
}

/* ---- Transfers over a path that loses ---- */

enum { TRANSFER_BYTES = 50000, TRANSFERS_MAX = 10000 };

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sends 50 KB both ways over a round trip of 20 ms. Returns the time until all has come. */
static uint64_t transfer(uint64_t seed, uint32_t lose)
{
    const struct network_faults faults = { .lose = lose, .delay_least_ns = 10 * MS, .delay_most_ns = 10 * MS };
    struct tcp_policy policy;
    uint64_t random = game_seed = seed;
    tcp_policy_default(&policy);
    sim.now_ns = GAME_BEGINS_NS;
    for (uint32_t s = 0; s < 2; s++) {
        memset(sim.endpoints[s].halves, 0, sizeof sim.endpoints[s].halves);
        endpoint_open(&sim.endpoints[s], s, false, &policy, random_from(&random), sim.now_ns);
        endpoint_neighbour_fix(&sim.endpoints[s], sim.now_ns);
        sim.endpoints[s].halves[0].plan = (struct half_plan){
            .send_bytes = TRANSFER_BYTES,
            .write_bytes_max = TRANSFER_BYTES,
            .read_bytes_max = TRANSFER_BYTES,
            .abort_after_bytes = UINT64_MAX,
            .close_after_bytes = UINT64_MAX,
        };
    }
    network_init(&sim.network, &sim.endpoints[0].device, &sim.endpoints[1].device, &faults, UINT64_MAX,
                 random_from(&random));
    endpoint_start(&sim.endpoints[1], 1, 0, sim.now_ns);
    endpoint_start(&sim.endpoints[0], 1, 0, sim.now_ns);
    const struct half *a = &sim.endpoints[0].halves[0], *b = &sim.endpoints[1].halves[0];
    while (a->read < TRANSFER_BYTES || b->read < TRANSFER_BYTES) {
        simulator_play(&sim);
        check_streams();
        if (a->broken || b->broken || !simulator_advance(&sim, UINT64_MAX, GAME_BEGINS_NS + GAME_NS_MAX))
            break;
    }
    for (int s = 0; s < 2; s++)
        endpoint_close(&sim.endpoints[s]);
    return sim.now_ns - GAME_BEGINS_NS;
}

static int play_transfers(uint64_t seed, uint64_t count, uint32_t lose)
{
    static uint64_t times_ns[TRANSFERS_MAX];
    uint64_t all_ns = 0;
    for (uint64_t i = 0; i < count; i++)
        all_ns += times_ns[i] = transfer(seed + i, lose);
    qsort(times_ns, count, sizeof times_ns[0], compare_ns);
    printf(
        "sim: %" PRIu64 " transfers, ms: median %" PRIu64 ", mean %" PRIu64 ", 90 %% %" PRIu64 ", most %" PRIu64 "\n",
        count, times_ns[count / 2] / MS, all_ns / count / MS, times_ns[count * 9 / 10] / MS, times_ns[count - 1] / MS);
    return 0;
}

/* ---- The command ---- */

static uint64_t number_of(const char *option, const char *text)
{
    char *end;
    if (text == NULL) {
        fprintf(stderr, "sim: %s wants a number\n", option);
        exit(2);
    }
    uint64_t value = strtoull(text, &end, 10);
    if (*end != '\0' || end == text) {
        fprintf(stderr, "sim: %s: not a number: \"%s\"\n", option, text);
        exit(2);
    }
    return value;
}

/* Leaves out the bursts after PACED_NS_MAX, so that a game ends long before GAME_NS_MAX. */
static void cut_recording(void)
{
    uint64_t pauses_ns = 0;
    size_t count = 0, digits = 0;
    for (; count < recording.burst_count; count++) {
        pauses_ns += recording.bursts[count].pause_ns;
        if (pauses_ns > PACED_NS_MAX)
            break;
        digits += recording.bursts[count].digits;
    }
    recording.burst_count = count;
    recording.digit_count = digits;
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL) * 1000003, steps_wanted = UINT64_MAX, seconds = UINT64_MAX;
    uint64_t lose = 0, transfers = 120;
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--seed") == 0) {
            seed = number_of(option, value);
        } else if (strcmp(option, "--steps") == 0) {
            steps_wanted = number_of(option, value);
        } else if (strcmp(option, "--lose") == 0) {
            lose = number_of(option, value);
        } else if (strcmp(option, "--transfers") == 0) {
            transfers = min_size(number_of(option, value), TRANSFERS_MAX);
        } else if (strcmp(option, "--seconds") == 0) {
            seconds = number_of(option, value);
        } else if (strcmp(option, "--peer") == 0 && value != NULL
                   && (strcmp(value, "own") == 0 || strcmp(value, "lwip") == 0)) {
            with_lwip = strcmp(value, "lwip") == 0;
        } else if (strcmp(option, "--recording") == 0 && value != NULL) {
            recording = recording_read(value, STREAM_BYTES_MAX);
            cut_recording();
        } else {
            fprintf(stderr,
                    "usage: sim [--peer own|lwip] [--seed N] [--steps N] [--seconds N] [--recording FILE]   "
                    "(not \"%s\")\n",
                    option);
            return 2;
        }
    }
    if (lose != 0)
        return play_transfers(seed, transfers, (uint32_t)lose);
    if (steps_wanted == UINT64_MAX && seconds == UINT64_MAX)
        steps_wanted = 1000000;
    printf("sim: first seed %" PRIu64 ", peer %s\n", seed, with_lwip ? "lwip" : "own");
    fflush(stdout);
    time_t end = time(NULL) + (time_t)(seconds == UINT64_MAX ? 0 : seconds);
    uint64_t games = 0;
    do {
        (with_lwip ? play_apart : play)(seed + games++);
    } while (sim.steps < steps_wanted && (seconds == UINT64_MAX || time(NULL) < end));
    printf("sim: %" PRIu64 " games, %" PRIu64 " steps, %" PRIu64 " s of virtual time, nothing found\n", games,
           sim.steps, virtual_ns / S);
    return 0;
}
