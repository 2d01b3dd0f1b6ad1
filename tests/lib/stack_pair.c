/* See stack_pair.h. */
#include "tests/lib/stack_pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/ipv4_wire.h"
#include "net/stack_state.h"
#include "net/tcp/wire.h"
#include "tests/lib/stack_create.h"

static void stack_open(struct pair *pair, int side, const struct tcp_policy *policy)
{
    struct net_config config = {
        .capacity = {
            .connection_count = 32,
            .listener_count = 4,
            .half_open_count = 16,
            .time_wait_count = 64,
            .segment_count = 256,
            .receive_bytes = 65536,
            .send_bytes = 65536,
        },
        .device = &pair->device[side].device,
        .address = side == 0 ? PAIR_ADDRESS_A : PAIR_ADDRESS_B,
        .mask = 0xffffffff,
        .gateway = 0x0a0000fe,
        .gateway_mac = { 2, 0, 0, 0, 0, 2 },
    };
    for (int i = 0; i < 32; i++)
        config.secret[i] = (uint8_t)(i * 7 + side * 101 + 1);
    if (policy != NULL)
        config.policy = *policy;
    else
        tcp_policy_default(&config.policy);
    netdev_ip_init(&pair->device[side], 1500);
    pair->stack[side] = stack_create(&config, pair->now_ns, NULL);
    ASSERT(pair->stack[side] != NULL);
}

void pair_open(struct pair *pair, const struct tcp_policy *policy_a, const struct tcp_policy *policy_b)
{
    memset(pair, 0, sizeof *pair);
    pair->now_ns = 1000 * PAIR_S;
    pair->delay_ns = 5 * PAIR_MS;
    pair->random = 0x9e3779b97f4a7c15;
    pair->flying = malloc(PAIR_PACKETS_MAX * sizeof *pair->flying);
    stack_open(pair, 0, policy_a);
    stack_open(pair, 1, policy_b);
}

void pair_close(struct pair *pair)
{
    free(pair->stack[0]);
    free(pair->stack[1]);
    free(pair->flying);
}

static void collect(struct pair *pair, int from)
{
    const uint8_t *data;
    for (size_t bytes; (bytes = netdev_ip_pop(&pair->device[from], &data)) != 0;) {
        ASSERT(pair->flying_count < PAIR_PACKETS_MAX);
        ASSERT(bytes <= sizeof pair->flying[0].data);
        struct pair_packet *packet = &pair->flying[pair->flying_count];
        packet->arrives_ns = pair->now_ns + pair->delay_ns;
        packet->order = pair->order++;
        packet->to = !from;
        packet->bytes = (uint32_t)bytes;
        memcpy(packet->data, data, bytes);
        uint32_t index = pair->sent_count[from]++;
        if (pair->network == NULL || pair->network(pair, from, index, packet))
            pair->flying_count++;
    }
}

/* Returns the packet that arrives next; -1: none. */
static int next_packet(const struct pair *pair)
{
    int best = -1;
    for (size_t i = 0; i < pair->flying_count; i++)
        if (best < 0 || pair->flying[i].arrives_ns < pair->flying[best].arrives_ns
            || (pair->flying[i].arrives_ns == pair->flying[best].arrives_ns
                && pair->flying[i].order < pair->flying[best].order))
            best = (int)i;
    return best;
}

void pair_turn(struct pair *pair)
{
    for (int next; (next = next_packet(pair)) >= 0 && pair->flying[next].arrives_ns <= pair->now_ns;) {
        struct pair_packet *packet = &pair->flying[next];
        int to = packet->to;
        netdev_ip_push(&pair->device[to], packet->data, packet->bytes);
        pair->flying[next] = pair->flying[--pair->flying_count];
        net_input(pair->stack[to], pair->now_ns);
        net_stack_check(pair->stack[to]);
        net_idle(pair->stack[to], pair->now_ns);
    }
    for (int side = 0; side < 2; side++) {
        net_idle(pair->stack[side], pair->now_ns);
        net_stack_check(pair->stack[side]);
        collect(pair, side);
    }
}

bool pair_step(struct pair *pair, uint64_t until_ns)
{
    pair_turn(pair);
    uint64_t next_ns = UINT64_MAX;
    int next = next_packet(pair);
    if (next >= 0)
        next_ns = pair->flying[next].arrives_ns;
    for (int side = 0; side < 2; side++) {
        uint64_t wake_ns = net_next_deadline_ns(pair->stack[side]);
        if (wake_ns < next_ns)
            next_ns = wake_ns;
    }
    if (next_ns > until_ns) {
        pair->now_ns = until_ns;
        return false;
    }
    if (next_ns > pair->now_ns)
        pair->now_ns = next_ns;
    return true;
}

void pair_run(struct pair *pair, uint64_t for_ns)
{
    uint64_t until_ns = pair->now_ns + for_ns;
    while (pair_step(pair, until_ns)) {
    }
    pair_turn(pair);
}

void pair_connect(struct pair *pair, uint16_t port, int *a, int *b)
{
    int listener = tcp_listen(pair->stack[1], port, 4, NULL);
    ASSERT(listener >= 0);
    *a = tcp_connect(pair->stack[0], PAIR_ADDRESS_B, port, 0, NULL, pair->now_ns);
    ASSERT(*a >= 0);
    pair_run(pair, 4 * pair->delay_ns);
    *b = tcp_accept(pair->stack[1], listener);
    ASSERT(*b >= 0);
    ASSERT(tcp_state(pair->stack[0], *a) == TCP_ESTABLISHED);
}

bool pair_tcp_of(const struct pair_packet *packet, struct pair_tcp *tcp)
{
    const struct ipv4_wire *ipv4 = (const struct ipv4_wire *)packet->data;
    const struct tcp_wire *wire = (const struct tcp_wire *)(packet->data + (ipv4->version_ihl & 0xf) * 4);
    if (ipv4->protocol != IPV4_PROTOCOL_TCP)
        return false;
    uint32_t header_bytes = (uint32_t)(wire->offset >> 4) * 4;
    *tcp = (struct pair_tcp){
        .seq = load_be32(&wire->seq),
        .ack = load_be32(&wire->ack),
        .flags = wire->flags,
        .window = load_be16(&wire->window),
        .payload = (const uint8_t *)wire + header_bytes,
        .options = (const uint8_t *)(wire + 1),
        .option_bytes = header_bytes - (uint32_t)sizeof *wire,
    };
    tcp->bytes = packet->bytes - (uint32_t)(tcp->payload - packet->data);
    return true;
}
