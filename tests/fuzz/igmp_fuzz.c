/* Fuzzes net/ip/igmp.c in a whole stack: a script of queries, reports of others, any bytes, joins, leaves, time and new
 * links. Each step is one byte of kind and its arguments. Each message that the stack sends must be well formed, and a
 * turn sends no more of them than there are groups. At the end all groups are left, and their places must be free. */
#include "net/stack_state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/igmp_packet.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/packet.h"
#include "tests/lib/stack_create.h"

enum { OURS = 0x0a090002, PEER = 0x0a090001, GROUPS = 12, STEPS_MAX = 300 };
enum step { QUERY, REPORT, RAW, JOIN, LEAVE, TIME, LINK, ANNOUNCE, STEP_COUNT };
#define GROUP       UINT32_C(0xef010100)
#define ALL_SYSTEMS UINT32_C(0xe0000001)
#define MS          UINT64_C(1000000)

static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 2 }, peer_mac[6] = { 2, 0, 0, 0, 0, 1 };
static struct netdev_memory wire;
static struct net_stack *stack;
static uint64_t now_ns;

struct script {
    const uint8_t *at, *end;
};

static uint32_t byte(struct script *s) { return s->at < s->end ? *s->at++ : 0; }

static void turn(void)
{
    static uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    char text[2000];
    uint32_t sent = 0;
    net_input(stack, now_ns);
    net_idle(stack, now_ns);
    net_stack_check(stack);
    igmp_check(&stack->ip);
    for (uint32_t bytes; (bytes = netdev_memory_take(&wire, frame)) != 0;)
        if (load_be16(frame + 12) == ETHERNET_TYPE_IPV4 && frame[14 + 9] == IPV4_PROTOCOL_IGMP) {
            ASSERT(igmp_packet_text(frame + 14, bytes - 14, OURS, text, sizeof text) == NULL);
            sent++;
        }
    ASSERT(sent <= IGMP_GROUP_COUNT_MAX);
    ASSERT(net_next_deadline_ns(stack) > now_ns); /* nothing that is due stays so */
}

/* Feeds a packet in the Ethernet frame of its destination. */
static void feed(const uint8_t *packet, size_t bytes)
{
    static uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    uint8_t mac[6] = { 1, 0, 0x5e, packet[17] & 0x7f, packet[18], packet[19] };
    packet_ethernet(frame, packet[16] >> 4 == 0xe ? mac : our_mac, peer_mac, ETHERNET_TYPE_IPV4);
    memcpy(frame + 14, packet, bytes);
    netdev_memory_feed(&wire, frame, 14 + (uint32_t)bytes, false);
}

static void message_feed(struct script *s, enum step kind)
{
    uint8_t packet[IGMP_PACKET_BYTES_MAX];
    uint32_t group = byte(s) % (GROUPS + 1);
    struct igmp_packet message = { .type = IGMP_QUERY, .source = PEER, .group = group < GROUPS ? GROUP + group : 0 };
    message.destination = message.group != 0 ? message.group : ALL_SYSTEMS;
    message.max_response = (uint8_t)byte(s);
    message.version = 1 + (int)(byte(s) % 3);
    if (kind == REPORT)
        message.type = message.version == 1 ? IGMP_REPORT_V1 : IGMP_REPORT_V2;
    else
        message.source_count = byte(s) % (IGMP_PACKET_SOURCES_MAX + 1);
    for (uint32_t i = 0; i < message.source_count; i++)
        message.sources[i] = byte(s);
    size_t bytes = igmp_packet_write(&message, packet);
    if (kind == RAW) { /* any bytes after the IPv4 header and its option */
        uint32_t count = (uint32_t)min_size(byte(s) % 64, (size_t)(s->end - s->at));
        memcpy(packet + 24, s->at, count);
        s->at += count;
        bytes = 24 + count;
        store_be16(packet + 2, (uint16_t)bytes);
    }
    feed(packet, bytes);
}

static void step_do(struct script *s)
{
    enum step kind = byte(s) % STEP_COUNT;
    switch (kind) {
    case QUERY:
    case REPORT:
    case RAW:
        message_feed(s, kind);
        break;
    case JOIN:
        igmp_join(&stack->ip, GROUP + byte(s) % GROUPS);
        break;
    case LEAVE:
        igmp_leave(&stack->ip, GROUP + byte(s) % GROUPS);
        break;
    case TIME:
        now_ns += (1 + byte(s) * (uint64_t)byte(s) * 10) * MS; /* 650 s at most */
        break;
    case LINK:
        wire.device.link_up = !wire.device.link_up;
        break;
    case ANNOUNCE:
        wire.device.announce = true;
        break;
    case STEP_COUNT:
        break;
    }
    turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = { data, data + size };
    struct net_config config = {
        .capacity = { 1, 1, 1, 1, 64, 4096, 4096, 0 },
        .device = &wire.device,
        .address = OURS,
        .mask = 0xffffff00,
    };
    tcp_policy_default(&config.policy);
    netdev_memory_init(&wire, our_mac, false);
    stack = stack_create(&config, now_ns, NULL);
    ASSERT(stack != NULL);
    for (int i = 0; i < STEPS_MAX && script.at < script.end; i++)
        step_do(&script);
    for (uint32_t i = 0; i < GROUPS; i++)
        igmp_leave(&stack->ip, GROUP + i);
    for (int i = 0; i < 3; i++) {
        now_ns += 2000 * MS;
        turn();
    }
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++)
        ASSERT(stack->ip.igmp.groups[i].address == 0);
    free(stack);
    return 0;
}
