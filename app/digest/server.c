#include "app/digest/server.h"

#include <assert.h>
#include <string.h>

#include "app/digest/capacity.h"
#include "app/digest/connection.h"
#include "app/digest/settings.h"
#include "app/digest/variants.h"
#include "app/service/stats.h"
#include "app/service/work.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/time.h"

enum {
    PLACE_COUNT = SERVER_CONNECTION_COUNT + SERVER_REFUSAL_COUNT,
    MESSAGES_SHARED = 128,  /* among the readers that are slow */
    MESSAGES_OUT_MAX = 192, /* in all: the network, the control channel and others need buffers, too */
    /* Above BLOCKED_COUNT_MAX slow readers, or without a buffer for another message, the reader that has stalled the
     * longest is cut off. A slow reader may keep a buffer more than it has messages out: that of its next one. */
    BLOCKED_COUNT_MAX = 100,
    STEP_NS = 1000,   /* for a step that takes no body: a head, a response */
    WARM_BYTES = 256, /* the head of a request, a response */
    EXPIRE_NS = 100 * NS_PER_MS,
    BLOCKED_NS = NS_PER_MS, /* after this time a response is offered to the transport again */
};

static_assert((int)PLACE_COUNT <= (int)CHAIN_COUNT_MAX,
              "each may have one: a refused client that stays gives up its place");

#define OLD_NS (5 * NS_PER_S) /* a request has had its share of a full machine */

/* Places whose connection may go on: a ring in the order in which they came to be so. */
struct queue {
    uint16_t places[PLACE_COUNT];
    uint32_t first, count;
    bool has[PLACE_COUNT];
};

static struct {
    uint16_t port;
    uint32_t used_count, dropped_count, blocked_count;
    uint32_t out_count; /* connections with a piece of a body on a worker */
    /* An upper bound of the messages that the transport holds. The exact number is counted if the bound seems too
     * high. */
    uint32_t messages_out;
    uint64_t next_count_ns;
    bool no_buffer; /* there was none for a message, since blocked_try looked last */
    bool blocked[PLACE_COUNT];
    uint16_t share[PLACE_COUNT]; /* places of the same address, with this one; 0: free */
    struct queue ready;
    uint64_t next_expire_ns, next_blocked_ns;
    uint64_t now_ns;                                    /* the turn's */
    size_t latest;                                      /* the place of the latest event */
    int16_t place_of[TRANSPORT_CONNECTION_COUNT_LIMIT]; /* by id; -1: none */
    struct connection connections[PLACE_COUNT];
} server;

#define SERVER_COUNTERS(X)                                                                                             \
    X(COUNT, accepted), X(COUNT, refused_busy), X(COUNT, rounds), X(COUNT, expired), X(COUNT, evicted),                \
        X(DROP, dropped_spare), X(DROP, dropped_share), X(DROP, dropped_idle), X(DROP, dropped_old)
static struct {
    uint64_t SERVER_COUNTERS(COUNTER_MEMBER);
} counters;
static const struct counter_group counter_group = COUNTER_GROUP("digest.", "Compute service", SERVER_COUNTERS,
                                                                counters);

/* ---- Whose turn it is ---- */

static void ready_add(size_t place)
{
    struct queue *q = &server.ready;
    ASSERT(place < PLACE_COUNT);
    if (q->has[place])
        return;
    q->has[place] = true;
    q->places[(q->first + q->count++) % PLACE_COUNT] = (uint16_t)place;
    ASSERT(q->count <= PLACE_COUNT);
}

static size_t ready_take(void)
{
    struct queue *q = &server.ready;
    ASSERT(q->count > 0);
    size_t place = q->places[q->first];
    q->first = (q->first + 1) % PLACE_COUNT;
    q->count--;
    q->has[place] = false;
    return place;
}

static void blocked_set(size_t place, bool blocked)
{
    server.blocked_count = server.blocked_count - server.blocked[place] + blocked;
    server.blocked[place] = blocked;
    ASSERT(server.blocked_count <= PLACE_COUNT);
}

/* Answers a chain that has ended. */
static void chain_ended(struct chain *chain)
{
    struct connection *c = (struct connection *)((uint8_t *)chain - offsetof(struct connection, chain));
    digest_connection_chain_ended(c, server.now_ns);
    ASSERT(c->phase == CONNECTION_REPLY);
    ready_add((size_t)(c - server.connections));
}

bool digest_server_init(uint16_t port)
{
    ASSERT(port != 0);
    memset(&server, 0, sizeof server);
    memset(server.place_of, -1, sizeof server.place_of);
    memset(&counters, 0, sizeof counters);
    memset(&digest_connection_counters, 0, sizeof digest_connection_counters);
    server.port = port;
    digest_chains_clear(chain_ended);
    digest_pieces_clear();
    digest_capacity_init();
    stats_add_counters(&counter_group);
    stats_add_counters(&digest_connection_counter_group);
    stats_set_ways("head_to_body_ns body_to_result_ns result_to_sent_ns");
    return transport_listen(port);
}

void digest_server_check(void)
{
    uint32_t used = 0, dropped = 0, blocked = 0, chains = 0, ready = 0, messages = 0, out = 0;
    size_t pieces = 0;
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        const struct connection *c = &server.connections[place];
        bool is_used = c->phase != CONNECTION_FREE;
        digest_connection_check(c);
        ASSERT(!is_used || server.place_of[c->id] == (int16_t)place);
        ASSERT(is_used || !server.blocked[place]);
        ASSERT((server.share[place] > 0) == is_used);
        used += is_used;
        dropped += is_used && c->dropped;
        messages += is_used ? c->message_count : 0;
        blocked += server.blocked[place];
        chains += c->phase == CONNECTION_CHAIN;
        ready += server.ready.has[place];
        out += digest_connection_is_out(c);
        pieces += digest_pieces_check(&c->pieces);
    }
    ASSERT(used == server.used_count && blocked == server.blocked_count && dropped == server.dropped_count);
    ASSERT(chains == digest_chains_count());
    ASSERT(messages <= server.messages_out);
    digest_pieces_pool_check(pieces);
    ASSERT(ready == server.ready.count && out == server.out_count);
    for (uint32_t i = 0; i < server.ready.count; i++)
        ASSERT(server.ready.has[server.ready.places[(server.ready.first + i) % PLACE_COUNT]]);
}

/* ---- Events ---- */

/* Corrects the shares of an address, of which one place comes or goes. */
static void share_change(uint32_t address, int change)
{
    for (size_t place = 0; place < PLACE_COUNT; place++)
        if (server.connections[place].phase != CONNECTION_FREE && server.connections[place].address == address)
            server.share[place] = (uint16_t)(server.share[place] + change);
}

/* Returns the places in use of an address. */
static uint32_t share_of(uint32_t address)
{
    for (size_t place = 0; place < PLACE_COUNT; place++)
        if (server.share[place] > 0 && server.connections[place].address == address)
            return server.share[place];
    return 0;
}

static void drop(struct connection *c, uint64_t now_ns)
{
    digest_connection_drop(c, now_ns);
    blocked_set((size_t)(c - server.connections), false);
    server.dropped_count++;
    ASSERT(server.dropped_count <= server.used_count);
}

static void closed(size_t place)
{
    struct connection *c = &server.connections[place];
    ASSERT(server.used_count > 0);
    server.place_of[c->id] = -1;
    server.used_count--;
    server.dropped_count -= c->dropped;
    share_change(c->address, -1);
    server.share[place] = 0;
    blocked_set(place, false);
    digest_connection_end(c);
}

/* Drops a connection whose place a newcomer gets at once: those that are refused may have all others. */
static void displace(struct connection *c, uint64_t now_ns)
{
    drop(c, now_ns);
    closed((size_t)(c - server.connections));
}

/* Drops a connection whose place nobody needs any more. Returns false if there is none. */
static bool drop_spare(uint64_t now_ns)
{
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        struct connection *c = &server.connections[place];
        if (c->phase == CONNECTION_FREE || !digest_connection_is_spare(c, now_ns))
            continue;
        displace(c, now_ns);
        counters.dropped_spare++;
        return true;
    }
    return false;
}

/* The reasons for which a place goes to a newcomer, the strongest last. */
enum claim { CLAIM_NONE, CLAIM_OLD, CLAIM_IDLE, CLAIM_SHARE, CLAIM_COUNT };

/* Returns the claim of a newcomer, whose address has `share` places, on a place. CLAIM_SHARE: the place's address has
 * at least two more. CLAIM_IDLE: the connection waits for a request, and its address has no fewer. CLAIM_OLD: the
 * request has had its time, and the address has more. */
static enum claim claim_on(size_t place, uint32_t share, uint64_t now_ns)
{
    const struct connection *c = &server.connections[place];
    ASSERT(c->phase != CONNECTION_FREE);
    if (c->dropped)
        return CLAIM_NONE;
    if (server.share[place] >= share + 2)
        return CLAIM_SHARE;
    if (server.share[place] >= share && digest_connection_is_idle(c, now_ns))
        return CLAIM_IDLE;
    return server.share[place] > share && now_ns - digest_connection_begun_ns(c) >= OLD_NS ? CLAIM_OLD : CLAIM_NONE;
}

/* Drops the connection on whose place a newcomer has the strongest claim. Among equal claims, one on the address with
 * the most places is the strongest. There the first is an idle connection, before all one that has never asked. Else it
 * is the one that made progress, or whose request began, the longest time ago. Returns false if there is no claim. */
static bool drop_claimed(uint32_t share, uint64_t now_ns)
{
    static uint64_t *const counted[CLAIM_COUNT] = { NULL, &counters.dropped_old, &counters.dropped_idle,
                                                    &counters.dropped_share };
    struct connection *victim = NULL;
    enum claim strongest = CLAIM_NONE;
    uint32_t most = 0;
    uint64_t victim_ns = 0;
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        struct connection *c = &server.connections[place];
        const enum claim claim = c->phase != CONNECTION_FREE ? claim_on(place, share, now_ns) : CLAIM_NONE;
        const bool is_idle = c->phase == CONNECTION_HEAD && c->in_count == 0;
        const bool first = is_idle && (claim == CLAIM_SHARE || !c->has_asked);
        const uint64_t since_ns = first ? 0 : claim == CLAIM_OLD ? digest_connection_begun_ns(c) : c->progress_ns;
        if (claim == CLAIM_NONE || claim < strongest
            || (claim == strongest
                && (server.share[place] < most || (server.share[place] == most && since_ns >= victim_ns))))
            continue;
        victim = c;
        strongest = claim;
        victim_ns = since_ns;
        most = server.share[place];
    }
    if (victim == NULL)
        return false;
    displace(victim, now_ns);
    ++*counted[strongest];
    return true;
}

/* Gives all connections the time back in which the machine stood still: their bytes could not come meanwhile. */
static void stall_note(uint64_t now_ns)
{
    if (!time_stood_still(server.next_expire_ns, now_ns))
        return;
    ASSERT(server.next_expire_ns < now_ns);
    for (size_t place = 0; place < PLACE_COUNT; place++)
        if (server.connections[place].phase != CONNECTION_FREE)
            digest_connection_stall(&server.connections[place], now_ns - server.next_expire_ns, now_ns);
    server.next_expire_ns = now_ns; /* given once */
}

/* Returns true if a place may be given to a connection. */
static bool is_free(const struct connection *c) { return c->phase == CONNECTION_FREE && !digest_connection_is_out(c); }

static void accept(int id, uint32_t address, uint64_t now_ns)
{
    size_t place = 0;
    stall_note(now_ns);
    bool is_full = server.used_count - server.dropped_count >= SERVER_CONNECTION_COUNT;
    bool refuse = is_full && !drop_spare(now_ns) && !drop_claimed(share_of(address), now_ns);
    while (place < PLACE_COUNT && !is_free(&server.connections[place]))
        place++;
    counters.accepted++;
    counters.refused_busy += refuse || place == PLACE_COUNT;
    if (place == PLACE_COUNT) {
        transport_abort(id, now_ns);
        return;
    }
    ASSERT(server.place_of[id] < 0);
    server.place_of[id] = (int16_t)place;
    server.used_count++;
    server.share[place] = (uint16_t)share_of(address);
    digest_connection_begin(&server.connections[place], id, address, refuse, now_ns);
    share_change(address, 1);
    ready_add(place);
}

bool digest_server_event(const struct transport_event *event, uint64_t now_ns)
{
    if (event->kind == TRANSPORT_DATAGRAM || (event->kind == TRANSPORT_ACCEPTED && event->port != server.port))
        return false;
    ASSERT(event->connection >= 0 && event->connection < TRANSPORT_CONNECTION_COUNT_LIMIT);
    int place = server.place_of[event->connection];
    if (event->kind == TRANSPORT_ACCEPTED) {
        accept(event->connection, event->address, now_ns);
        return true;
    }
    if (place < 0)
        return event->port == server.port; /* one that was refused or displaced */
    if (event->kind == TRANSPORT_CLOSED) {
        closed((size_t)place);
        return true;
    }
    digest_connection_take(&server.connections[place], event, now_ns);
    server.latest = (size_t)place;
    ready_add((size_t)place);
    return true;
}

/* ---- Work ---- */

/* Returns true if as many messages are out as may be. */
static bool messages_are_out(uint64_t now_ns)
{
    if (server.messages_out < MESSAGES_OUT_MAX || now_ns < server.next_count_ns)
        return server.messages_out >= MESSAGES_OUT_MAX;
    server.messages_out = 0;
    for (size_t place = 0; place < PLACE_COUNT; place++)
        if (server.connections[place].phase != CONNECTION_FREE)
            server.messages_out += digest_connection_messages_out(&server.connections[place], now_ns);
    if (server.messages_out >= MESSAGES_OUT_MAX)
        server.next_count_ns = now_ns + BLOCKED_NS;
    ASSERT(server.messages_out <= PLACE_COUNT * CONNECTION_MESSAGES_MAX);
    return server.messages_out >= MESSAGES_OUT_MAX;
}

/* Goes on with the connections in turn, a step each, for VARIANTS_TURN_NS. */
static void steps_work(uint64_t now_ns)
{
    uint32_t share = max_u32(MESSAGES_SHARED / (server.blocked_count + 1), 1);
    uint64_t spent_ns = 0;
    for (uint32_t left = server.ready.count; left > 0 && spent_ns < VARIANTS_TURN_NS; left--) {
        size_t place = ready_take();
        struct connection *c = &server.connections[place];
        if (c->phase == CONNECTION_FREE)
            continue;
        const bool was_dropped = c->dropped, was_out = digest_connection_is_out(c);
        const struct digest_step step = digest_connection_step(c, messages_are_out(now_ns) ? 0 : share, now_ns);
        server.dropped_count += c->dropped && !was_dropped;
        server.messages_out += step.sent;
        server.no_buffer = server.no_buffer || step.no_buffer;
        blocked_set(place, step.result == STEP_BLOCKED);
        if (step.result == STEP_DONE)
            ready_add(place);
        server.out_count += digest_connection_is_out(c) && !was_out;
        const uint64_t body_ns = step.bytes_here * VARIANTS_SLICE_NS / digest_variants.slice_bytes[c->method_index];
        spent_ns += STEP_NS + min_u64(body_ns, VARIANTS_SLICE_NS); /* a part may be more than a slice */
    }
    ASSERT(spent_ns <= VARIANTS_TURN_NS + VARIANTS_SLICE_NS + STEP_NS);
}

/* Takes back from the workers the jobs that are done. */
static void work_end(void)
{
    for (struct work *work; (work = work_take()) != NULL;) {
        if (digest_chains_take(work))
            continue;
        struct pieces *pieces = digest_pieces_end(work);
        struct connection *c = (struct connection *)((uint8_t *)pieces - offsetof(struct connection, pieces));
        ASSERT(server.out_count > 0);
        server.out_count -= !digest_connection_is_out(c);
        if (c->phase != CONNECTION_FREE)
            ready_add((size_t)(c - server.connections));
    }
}

/* Cuts off the reader that has taken or acknowledged nothing for the longest time, if that is a second. */
static void slowest_evict(uint64_t now_ns)
{
    struct connection *slowest = &server.connections[0];
    uint64_t slowest_ns = UINT64_MAX; /* since when it has stood still */
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        struct connection *c = &server.connections[place];
        if (c->phase == CONNECTION_FREE || c->dropped)
            continue;
        bool is_out = digest_connection_messages_out(c, now_ns) > 0;
        uint64_t still_ns = server.blocked[place] ? c->progress_ns : is_out ? c->acked_ns : UINT64_MAX;
        if (still_ns < slowest_ns) {
            slowest = c;
            slowest_ns = still_ns;
        }
    }
    if (slowest_ns > now_ns || now_ns - slowest_ns < NS_PER_S)
        return;
    ASSERT(slowest->phase != CONNECTION_FREE);
    counters.evicted++;
    drop(slowest, now_ns);
}

static void blocked_try(uint64_t now_ns)
{
    if (server.blocked_count == 0 || now_ns < server.next_blocked_ns)
        return;
    if (server.blocked_count > BLOCKED_COUNT_MAX || server.no_buffer || messages_are_out(now_ns))
        slowest_evict(now_ns);
    server.no_buffer = false;
    for (size_t place = 0; place < PLACE_COUNT; place++)
        if (server.blocked[place])
            ready_add(place);
    server.next_blocked_ns = now_ns + BLOCKED_NS;
    ASSERT(server.blocked_count <= server.ready.count); /* none, if the only one has been cut off */
}

static void expire(uint64_t now_ns)
{
    if (now_ns < server.next_expire_ns)
        return;
    server.next_expire_ns = now_ns + EXPIRE_NS;
    for (size_t place = 0; place < PLACE_COUNT; place++) {
        struct connection *c = &server.connections[place];
        if (c->phase == CONNECTION_FREE || !digest_connection_is_overdue(c, now_ns))
            continue;
        ASSERT(c->progress_ns <= now_ns);
        counters.expired += !c->expired;
        digest_connection_expire(c, now_ns);
        server.dropped_count += c->dropped;
        ready_add(place);
    }
}

void digest_server_work(uint64_t now_ns)
{
    server.now_ns = now_ns;
    work_end();
    struct capacity_turn turn = {
        /* A body may be ready and out. */
        .waiting = (uint32_t)digest_chains_count() + max_u32(server.ready.count, server.out_count),
        .rounds_taken = digest_chains_rounds_taken(),
    };
    const uint64_t rounds = digest_chains_work();
    turn.rounds_own = rounds - turn.rounds_taken;
    turn.chains_left = (uint32_t)digest_chains_count();
    digest_capacity_turn(&turn, now_ns);
    counters.rounds += rounds;
    stall_note(now_ns);
    blocked_try(now_ns);
    expire(now_ns);
    steps_work(now_ns);
}

void digest_server_warm(void)
{
    const struct connection *c = &server.connections[server.latest];
    ASSERT(server.latest < PLACE_COUNT);
    if (c->phase != CONNECTION_FREE)
        hot_fetch(&server.place_of[c->id], sizeof server.place_of[0]);
    hot_fetch(c, offsetof(struct connection, message_ends));
    hot_fetch(&c->message_first, offsetof(struct connection, job) - offsetof(struct connection, message_first));
    if (!digest_connection_is_out(c))
        hot_fetch(&c->job.sha256, sizeof c->job.sha256);
    hot_fetch(&c->in_begin, WARM_BYTES);
    hot_fetch(c->in, WARM_BYTES);
}

uint64_t digest_server_next_deadline_ns(uint64_t now_ns)
{
    ASSERT(server.used_count <= PLACE_COUNT);
    if (server.ready.count > 0 || server.out_count > 0 || digest_chains_count() > 0)
        return now_ns;
    if (server.blocked_count > 0)
        return server.next_blocked_ns;
    return server.used_count > 0 ? server.next_expire_ns : UINT64_MAX;
}
