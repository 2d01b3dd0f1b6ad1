#include "app/service/agent.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"

enum { LINE_BYTES_MAX = 24 };

/* A connection that has its line. */
struct place {
    bool used;
    int id;
    uint32_t address;
    uint64_t since_ns;
};

static struct {
    uint16_t port;
    uint32_t (*free_percent)(void);
    struct place places[AGENT_CONNECTION_COUNT_MAX];
} agent;

/* Resets: `refused`, there was no buffer for the line; `evicted`, a newcomer took the place; `given_up`, the peer did
 * not close. `free_percent` is the last answer. */
#define AGENT_COUNTERS(X)                                                                                              \
    X(COUNT, answers), X(COUNT, refused), X(COUNT, evicted), X(COUNT, given_up), X(LEVEL, free_percent)
static struct {
    uint64_t AGENT_COUNTERS(COUNTER_MEMBER);
} counters;
const struct counter_group agent_counter_group = COUNTER_GROUP("agent.", "Agent check", AGENT_COUNTERS, counters);

bool agent_init(uint16_t port, uint32_t (*free_percent)(void))
{
    ASSERT(port == 0 || free_percent != NULL);
    memset(&agent, 0, sizeof agent);
    memset(&counters, 0, sizeof counters);
    agent.port = port;
    agent.free_percent = free_percent;
    return port == 0 || transport_listen(port);
}

void agent_check(void)
{
    for (size_t i = 0; i < AGENT_CONNECTION_COUNT_MAX; i++) {
        const struct place *p = &agent.places[i];
        ASSERT(!p->used || (agent.port != 0 && p->id >= 0 && p->id < TRANSPORT_CONNECTION_COUNT_LIMIT));
        for (size_t other = 0; other < i; other++)
            ASSERT(!p->used || !agent.places[other].used || agent.places[other].id != p->id);
    }
}

/* Returns how many places an address has. */
static uint32_t share_of(uint32_t address)
{
    uint32_t share = 0;
    for (size_t i = 0; i < AGENT_CONNECTION_COUNT_MAX; i++)
        share += agent.places[i].used && agent.places[i].address == address;
    return share;
}

/* Returns a free place. If there is none, resets the oldest connection of the address that has the most. */
static struct place *place_take(uint64_t now_ns)
{
    struct place *victim = NULL;
    for (size_t i = 0; i < AGENT_CONNECTION_COUNT_MAX; i++) {
        struct place *p = &agent.places[i];
        if (!p->used)
            return p;
        uint32_t share = share_of(p->address), most = victim ? share_of(victim->address) : 0;
        if (share > most || (share == most && p->since_ns < victim->since_ns))
            victim = p;
    }
    ASSERT(victim != NULL);
    counters.evicted++;
    transport_abort(victim->id, now_ns);
    return victim;
}

/* Sends the line and closes. "up" and "ready" end the states that another agent at this address has left, such as that
 * of Linux before the flight. The percentage is at least 1: HAProxy sends nothing to a server of weight 0, and a busy
 * machine is better than none. */
static void answer(const struct transport_event *event, uint64_t now_ns)
{
    const int id = event->connection;
    uint8_t *message = transport_message(id);
    counters.free_percent = max_u32(agent.free_percent(), 1);
    size_t bytes = message ? format((char *)message, LINE_BYTES_MAX, "up ready %u%%\n", (unsigned)counters.free_percent)
                           : 0;
    ASSERT(bytes < LINE_BYTES_MAX);
    if (!message || !transport_send(id, 0, (uint32_t)bytes, now_ns)) {
        counters.refused++;
        transport_abort(id, now_ns);
        return;
    }
    counters.answers++;
    *place_take(now_ns) = (struct place){ .used = true, .id = id, .address = event->address, .since_ns = now_ns };
    transport_close(id, now_ns);
}

void agent_event(const struct transport_event *event, uint64_t now_ns)
{
    if (event->kind == TRANSPORT_ACCEPTED && event->port == agent.port && agent.port != 0)
        answer(event, now_ns);
    if (event->kind != TRANSPORT_CLOSED)
        return;
    for (size_t i = 0; i < AGENT_CONNECTION_COUNT_MAX; i++)
        if (agent.places[i].used && agent.places[i].id == event->connection)
            agent.places[i].used = false;
    agent_check();
}

void agent_poll(uint64_t now_ns)
{
    for (size_t i = 0; i < AGENT_CONNECTION_COUNT_MAX; i++) {
        struct place *p = &agent.places[i];
        if (!p->used || now_ns - p->since_ns < AGENT_PATIENCE_NS)
            continue;
        counters.given_up++;
        p->used = false;
        transport_abort(p->id, now_ns);
    }
}
