/* Multicast reception: groups, and what timelines of tests/wire/igmp do not say of IGMP: filters, bad messages. Time is
 * virtual. The sequence of the messages that the stack sends is compared as text: tests/lib/igmp_packet.h. */
#include "tests/lib/igmp_packet.h"
#include "tests/lib/stack_fixture.h"

enum { QUERIER = 0x0a0000fe, SENDER = NEIGHBOUR, PORT = 4000 };
#define G1          UINT32_C(0xef010101) /* 239.1.1.1 */
#define G2          UINT32_C(0xef010102)
#define STRANGE     UINT32_C(0xef010105)
#define ALL_SYSTEMS UINT32_C(0xe0000001)

static struct netdev_ops ops;

/* The filter's table, as the stack gave it last. */
static struct {
    uint32_t calls, count;
    uint8_t groups[NETDEV_GROUP_COUNT_MAX][6];
} filter;

static void groups_set(struct netdev *netdev, const uint8_t (*groups)[6], uint32_t count)
{
    assert_ptr_equal(netdev, &device.device);
    filter.calls++;
    filter.count = count;
    memcpy(filter.groups, groups, 6 * count);
}

static void begin_at(uint32_t address, uint16_t mtu_bytes)
{
    struct net_config config = stack_config(address, MASK, QUERIER);
    config.mtu_bytes = mtu_bytes;
    memcpy(config.gateway_mac, their_mac, 6);
    device.device.point_to_point = true; /* no ARP */
    ops = *device.device.ops;
    ops.groups_set = groups_set;
    device.device.ops = &ops;
    memset(&filter, 0, sizeof filter);
    stack_begin(config);
    assert_true(udp_bind(&stack->ip, PORT));
}

BEFORE_EACH() { begin_at(ADDRESS, 0); }

#define COUNTED(name) (stack->ip.counters.name)

/* ---- The stack's messages ---- */

/* Appends what the stack has sent to a list of texts, each with a `;`. Other frames than IGMP's are left out. */
static void sent_append(char *list, size_t list_bytes)
{
    for (uint32_t bytes; (bytes = frame_take()) != 0;) {
        char text[400];
        if (load_be16(sent + 12) != ETHERNET_TYPE_IPV4 || sent[14 + 9] != IPV4_PROTOCOL_IGMP)
            continue;
        uint32_t destination = load_be32(sent + 14 + 16);
        const uint8_t mac[6] = { 1, 0, 0x5e, destination >> 16 & 0x7f, destination >> 8 & 0xff, destination & 0xff };
        assert_memory_equal(sent, mac, 6);
        assert_memory_equal(sent + 6, our_mac, 6);
        const char *fault = igmp_packet_text(sent + 14, bytes - 14, stack->ip.interface.address, text, sizeof text);
        if (fault != NULL)
            fail_msg("%s: %s", fault, text);
        size_t at = strlen(list);
        snprintf(list + at, list_bytes - at, "%s;", text);
    }
}

/* Lets time pass, from timer to timer, and checks the messages that are sent meanwhile. */
static void expect(uint64_t ns, const char *wanted)
{
    char list[4000] = "";
    uint64_t until_ns = now_ns + ns;
    for (int turns = 0; turns < 10000; turns++) {
        net_input(stack, now_ns);
        net_idle(stack, now_ns);
        igmp_check(&stack->ip);
        sent_append(list, sizeof list);
        uint64_t next_ns = net_next_deadline_ns(stack);
        if (now_ns == until_ns)
            break;
        now_ns = next_ns < until_ns ? (next_ns > now_ns ? next_ns : now_ns) : until_ns;
    }
    assert_int_equal(now_ns, until_ns);
    assert_string_equal(list, wanted);
}

/* Joins a group whose reports are over. */
static void join(uint32_t group)
{
    char wanted[100], text[50];
    assert_true(igmp_join(&stack->ip, group));
    snprintf(text, sizeof text, "to_ex %u.%u.%u.%u;", group >> 24, group >> 16 & 255, group >> 8 & 255, group & 255);
    snprintf(wanted, sizeof wanted, "%s%s", text, text);
    expect(2 * S, wanted);
}

/* ---- Messages to the stack ---- */

static void packet_give(const uint8_t to[6], const uint8_t *packet, size_t bytes)
{
    uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    packet_ethernet(frame, to, their_mac, ETHERNET_TYPE_IPV4);
    memcpy(frame + 14, packet, bytes);
    assert_true(netdev_memory_feed(&device, frame, 14 + (uint32_t)bytes, false));
    net_input(stack, now_ns);
    igmp_check(&stack->ip);
}

static void group_frame_give(uint32_t group, const uint8_t *packet, size_t bytes)
{
    const uint8_t mac[6] = { 1, 0, 0x5e, group >> 16 & 0x7f, group >> 8 & 0xff, group & 0xff };
    packet_give(mac, packet, bytes);
}

static void message_give(struct igmp_packet message)
{
    uint8_t packet[IGMP_PACKET_BYTES_MAX];
    if (message.source == 0)
        message.source = QUERIER;
    size_t bytes = igmp_packet_write(&message, packet);
    if (message.destination >> 28 == 0xe)
        group_frame_give(message.destination, packet, bytes);
    else
        packet_give(our_mac, packet, bytes);
}

static struct igmp_packet query(int version, uint32_t group, uint8_t max_response)
{
    const uint32_t to = group != 0 ? group : ALL_SYSTEMS;
    return (struct igmp_packet){ 0, to, IGMP_QUERY, max_response, .group = group, .version = version };
}

static struct igmp_packet source_query(uint32_t group, uint32_t first, uint32_t count)
{
    struct igmp_packet message = query(3, group, 10);
    message.source_count = count;
    for (uint32_t i = 0; i < count; i++)
        message.sources[i] = first + i;
    return message;
}

static void report_give(uint8_t type, uint32_t group)
{
    message_give((struct igmp_packet){ .type = type, .group = group, .destination = group, .source = SENDER });
}

static void datagram_give_to(const uint8_t mac[6], uint32_t destination, uint16_t port)
{
    uint8_t packet[100];
    uint8_t udp[12] = { 0 };
    store_be16(udp, 5000);
    store_be16(udp + 2, port);
    store_be16(udp + 4, sizeof udp);
    packet_give(mac, packet, packet_around(packet, IPV4_PROTOCOL_UDP, SENDER, destination, udp, sizeof udp));
}

static void datagram_give(uint32_t group)
{
    const uint8_t mac[6] = { 1, 0, 0x5e, group >> 16 & 0x7f, group >> 8 & 0xff, group & 0xff };
    datagram_give_to(mac, group, PORT);
}

static bool datagram_came(uint32_t group)
{
    bool came = stack->datagram_ready;
    if (came)
        assert_int_equal(stack->datagram.destination, group);
    stack->datagram_ready = false;
    return came;
}

/* ---- The table of groups ---- */

TEST(datagrams_of_joined_groups_alone_are_taken)
{
    datagram_give(G1);
    assert_false(datagram_came(G1));
    assert_int_equal(COUNTED(ethernet_rx_drop_group), 1);
    assert_true(igmp_join(&stack->ip, G1));
    datagram_give(G1);
    assert_true(datagram_came(G1));
    datagram_give(G2);
    assert_false(datagram_came(G2));
    assert_int_equal(COUNTED(ethernet_rx_drop_group), 2);

    /* Another group with the same Ethernet address. */
    datagram_give(G1 ^ 0x00800000);
    assert_false(datagram_came(0));
    assert_int_equal(COUNTED(ipv4_rx_drop_not_ours), 1);
    /* Some networks carry groups in unicast frames. */
    datagram_give_to(our_mac, G1, PORT);
    assert_true(datagram_came(G1));

    igmp_leave(&stack->ip, G1);
    datagram_give(G1);
    assert_false(datagram_came(G1));
    assert_int_equal(COUNTED(ethernet_rx_drop_group), 3);
}

TEST(frames_to_groups_that_are_not_ipv4s_are_dropped_by_type)
{
    static const uint8_t spanning_tree[6] = { 1, 0x80, 0xc2, 0, 0, 0 }, ipv6[6] = { 0x33, 0x33, 0, 0, 0, 1 };
    uint8_t frame[60] = { 0 };
    packet_ethernet(frame, ipv6, their_mac, 0x86dd);
    assert_true(netdev_memory_feed(&device, frame, sizeof frame, false));
    packet_ethernet(frame, spanning_tree, their_mac, 0x0027);
    assert_true(netdev_memory_feed(&device, frame, sizeof frame, false));
    net_input(stack, now_ns);
    assert_int_equal(COUNTED(ethernet_rx_drop_type), 2);
}

TEST(addresses_that_are_no_groups_are_not_joined)
{
    static const uint32_t addresses[] = { 0, ADDRESS, QUERIER, ALL_SYSTEMS, 0xdfffffff, 0xf0000000, 0xffffffff };
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++)
        assert_false(igmp_join(&stack->ip, addresses[i]));
    igmp_leave(&stack->ip, 0);
    igmp_leave(&stack->ip, G1);
    expect(10 * S, "");
    assert_null(stack->ip.igmp.operations);
}

TEST(groups_are_joined_once_and_as_many_as_there_are_places)
{
    assert_true(igmp_join(&stack->ip, G1));
    assert_true(igmp_join(&stack->ip, G1));
    for (uint32_t i = 1; i < IGMP_GROUP_COUNT_MAX; i++)
        assert_true(igmp_join(&stack->ip, G1 + i));
    assert_false(igmp_join(&stack->ip, STRANGE + 100));
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) {
        datagram_give(G1 + i);
        assert_true(datagram_came(G1 + i));
    }
    /* The place of a group that is left can be had at once. */
    igmp_leave(&stack->ip, G1 + 3);
    assert_true(igmp_join(&stack->ip, STRANGE + 100));
    assert_false(igmp_join(&stack->ip, G1 + 3));
    datagram_give(STRANGE + 100);
    assert_true(datagram_came(STRANGE + 100));
}

TEST(groups_become_the_devices_filter)
{
    static const uint8_t wanted[3][6] = { { 1, 0, 0x5e, 1, 1, 1 }, { 1, 0, 0x5e, 1, 1, 2 }, { 1, 0, 0x5e, 0, 0, 1 } };
    net_idle(stack, now_ns);
    assert_int_equal(filter.calls, 0);
    assert_true(igmp_join(&stack->ip, G1));
    assert_true(igmp_join(&stack->ip, G2));
    net_idle(stack, now_ns);
    assert_int_equal(filter.calls, 1);
    assert_int_equal(filter.count, 3);
    assert_memory_equal(filter.groups, wanted, sizeof wanted);
    igmp_leave(&stack->ip, G1);
    igmp_leave(&stack->ip, G2);
    net_idle(stack, now_ns);
    assert_int_equal(filter.calls, 2);
    assert_int_equal(filter.count, 0);
}

/* ---- RFC 1122 §3.2.2, §4.2.3.10: nobody answers a group ---- */

TEST(groups_get_no_answer)
{
    static const struct {
        uint8_t protocol, payload[24];
        uint32_t bytes;
    } rows[] = {
        { IPV4_PROTOCOL_ICMP, { 8 }, 16 },                                           /* an echo request */
        { IPV4_PROTOCOL_UDP, { 1, 1, 2, 2, 0, 8 }, 8 },                              /* to a port that is not bound */
        { IPV4_PROTOCOL_TCP, { 1, 1, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2 }, 20 }, /* a SYN to a listener */
        { IPV4_PROTOCOL_TCP, { 1, 1, 0, 81, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2 }, 20 }, /* a SYN to no listener */
        { 99, { 0 }, 8 },                                                            /* an unknown protocol */
    };
    int listener = tcp_listen(stack, 80, 1, NULL);
    join(G1);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        for (int unicast = 0; unicast < 2; unicast++) {
            uint8_t packet[100];
            uint32_t bytes = packet_around(packet, rows[i].protocol, SENDER, G1, rows[i].payload, rows[i].bytes);
            if (unicast)
                packet_give(our_mac, packet, bytes);
            else
                group_frame_give(G1, packet, bytes);
            net_idle(stack, now_ns);
            assert_int_equal(frame_take(), 0);
        }
    assert_int_equal(COUNTED(icmp_rx_drop_broadcast), 2);
    assert_int_equal(COUNTED(udp_rx_drop_no_port), 2);
    assert_int_equal(COUNTED(tcp_rx_drop_broadcast), 4);
    assert_int_equal(COUNTED(ipv4_rx_drop_protocol), 2);
    tcp_unlisten(stack, listener, now_ns);
}

TEST(first_fragment_to_a_group_is_not_reported_lost)
{
    uint8_t packet[100], udp[16] = { 0 };
    store_be16(udp + 2, PORT);
    join(G1);
    uint32_t bytes = packet_around(packet, IPV4_PROTOCOL_UDP, SENDER, G1, udp, sizeof udp);
    store_be16(packet + 6, IPV4_MORE_FRAGMENTS);
    packet_sum(packet, bytes);
    group_frame_give(G1, packet, bytes);
    assert_int_equal(COUNTED(ipv4_rx_fragments), 1);
    expect(60 * S, "");
    assert_int_equal(COUNTED(ipv4_rx_drop_fragment_timeout), 1);
    assert_int_equal(COUNTED(icmp_tx_errors), 0);
}

TEST(datagram_to_a_group_in_fragments_is_taken)
{
    uint8_t packet[100], udp[32] = { 0 };
    store_be16(udp + 2, PORT);
    store_be16(udp + 4, sizeof udp);
    join(G1);
    for (uint16_t at = 0; at < 32; at += 16) {
        uint32_t bytes = packet_ipv4(packet, IPV4_PROTOCOL_UDP, SENDER, G1, 16);
        memcpy(packet + 20, udp + at, 16);
        store_be16(packet + 6, (uint16_t)(at / 8 | (at == 0 ? IPV4_MORE_FRAGMENTS : 0)));
        packet_sum(packet, bytes);
        group_frame_give(G1, packet, bytes);
    }
    assert_true(datagram_came(G1));
}

/* ---- Changes: RFC 9776 §5.1 ---- */

TEST(groups_joined_together_are_reported_together)
{
    assert_true(igmp_join(&stack->ip, G1));
    assert_true(igmp_join(&stack->ip, G2));
    expect(0, "to_ex 239.1.1.1 to_ex 239.1.1.2;");
}

TEST(join_before_there_is_an_address_is_reported_with_the_address)
{
    free(stack);
    begin_at(0, 0); /* DHCP */
    assert_true(igmp_join(&stack->ip, G1));
    uint64_t deadline_ns = net_next_deadline_ns(stack);
    net_idle(stack, now_ns);
    assert_true(deadline_ns != 0 || net_next_deadline_ns(stack) > now_ns); /* nothing spins until then */
    assert_int_equal(COUNTED(igmp_tx_reports), 0);
    ipv4_interface_set(&stack->ip, ADDRESS, 0xffffff00, 1500);
    now_ns += S / 1000;
    net_idle(stack, now_ns);
    assert_int_equal(COUNTED(igmp_tx_reports), 1);
}

TEST(groups_are_reported_again_on_a_new_link_and_to_a_new_host)
{
    join(G1);
    device.device.link_up = false;
    expect(S, "");
    device.device.link_up = true;
    expect(2 * S, "to_ex 239.1.1.1;to_ex 239.1.1.1;");
    assert_int_equal(filter.calls, 2);
    device.device.announce = true; /* after a migration */
    expect(2 * S, "to_ex 239.1.1.1;to_ex 239.1.1.1;");
}

TEST(report_that_finds_no_buffer_is_repeated)
{
    assert_true(igmp_join(&stack->ip, G1));
    device.sent_max = 0;
    expect(0, "");
    assert_int_equal(COUNTED(igmp_tx_reports), 0);
    device.sent_max = FRAME_POOL_TX_COUNT;
    expect(2 * S, "to_ex 239.1.1.1;");
}

TEST(late_turn_sends_what_is_due_once)
{
    assert_true(igmp_join(&stack->ip, G1));
    net_idle(stack, now_ns);
    message_give(query(3, 0, 100));
    now_ns += 10000 * S; /* the machine stood still */
    expect(0, "to_ex 239.1.1.1;to_ex 239.1.1.1;is_ex 239.1.1.1;");
    expect(1000 * S, "");
}

/* ---- Queries: RFC 9776 §5.2 ---- */

TEST(general_query_is_answered_within_its_time_and_not_at_once)
{
    join(G1);
    join(G2);
    uint64_t least_ns = UINT64_MAX, most_ns = 0;
    for (int i = 0; i < 300; i++) {
        message_give(query(3, 0, 100));
        expect(0, "");
        uint64_t delay_ns = net_next_deadline_ns(stack) - now_ns;
        assert_true(delay_ns > 0 && delay_ns <= 10 * S);
        least_ns = delay_ns < least_ns ? delay_ns : least_ns;
        most_ns = delay_ns > most_ns ? delay_ns : most_ns;
        expect(10 * S, "is_ex 239.1.1.1 is_ex 239.1.1.2;");
    }
    assert_true(least_ns < S && most_ns > 9 * S); /* spread over the whole time */
}

TEST(query_to_our_own_address_or_from_a_switch_without_one_is_answered)
{
    struct igmp_packet message = query(3, G1, 10);
    uint8_t packet[IGMP_PACKET_BYTES_MAX];
    join(G1);
    message.destination = ADDRESS;
    message_give(message);
    expect(4000 * S, "is_ex 239.1.1.1;");
    message = query(3, 0, 10);
    group_frame_give(ALL_SYSTEMS, packet, igmp_packet_write(&message, packet)); /* from 0.0.0.0 */
    expect(4000 * S, "is_ex 239.1.1.1;");
}

TEST(more_sources_than_are_remembered_are_answered_for_the_group)
{
    join(G1);
    message_give(source_query(G1, 0x0a000100, IGMP_SOURCE_COUNT_MAX));
    expect(S, "is_in 239.1.1.1 10.0.1.0 10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4 10.0.1.5 10.0.1.6;");
    message_give(source_query(G1, 0x0a000100, IGMP_SOURCE_COUNT_MAX + 1));
    expect(S, "is_ex 239.1.1.1;");
    message_give(source_query(G1, 0x0a000100, IGMP_SOURCE_COUNT_MAX));
    message_give(source_query(G1, 0x0a000200, 1));
    message_give(source_query(G1, 0x0a000300, 1));
    expect(S, "is_ex 239.1.1.1;");
    message_give(source_query(G1, 0x0a000100, 1)); /* nothing of all that is remembered */
    expect(S, "is_in 239.1.1.1 10.0.1.0;");
}

TEST(time_of_version_3_is_a_floating_point_number)
{
    static const struct {
        uint8_t code;
        uint64_t tenths;
    } rows[] = { { 1, 1 }, { 127, 127 }, { 128, 128 }, { 143, 248 }, { 0x9f, 496 }, { 255, 31744 } };
    join(G1);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t most_ns = 0;
        for (int k = 0; k < 100; k++) {
            message_give(query(3, 0, rows[i].code));
            uint64_t delay_ns = net_next_deadline_ns(stack) - now_ns;
            most_ns = delay_ns > most_ns ? delay_ns : most_ns;
            expect(rows[i].tenths * S / 10, "is_ex 239.1.1.1;");
        }
        assert_true(most_ns > rows[i].tenths * S / 10 * 8 / 10);
    }
}

TEST(long_report_is_cut_to_the_mtu)
{
    free(stack);
    begin_at(ADDRESS, IPV4_MTU_BYTES_MIN);
    char wanted[400] = "";
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++)
        assert_true(igmp_join(&stack->ip, G1 + i));
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) /* 68 bytes: headers 24 + 8, four records */
        sprintf(wanted + strlen(wanted), "to_ex 239.1.1.%u%s", 1 + i, i % 4 == 3 ? ";" : " ");
    expect(0, wanted);
    now_ns += 10 * S;
    net_idle(stack, now_ns);
    message_give(source_query(G1, 0x0a000100, IGMP_SOURCE_COUNT_MAX));
    char list[4000] = "";
    sent_append(list, sizeof list);
    expect(S, "is_in 239.1.1.1 10.0.1.0 10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4 10.0.1.5 10.0.1.6;");
}

/* ---- Older queriers: RFC 9776 §7.2.1, RFC 2236 ---- */

/* Switches have been seen that leave the option out. A report follows to each query, as with the option. */
TEST(query_without_the_router_alert_is_answered)
{
    const struct {
        struct igmp_packet query;
        const char *answer;
    } rows[] = {
        { query(3, 0, 10), "is_ex 239.1.1.1;" },
        { query(3, G1, 10), "is_ex 239.1.1.1;" },
        { source_query(G1, SENDER, 1), "is_in 239.1.1.1 10.0.0.7;" },
        { query(2, G1, 10), "is_ex 239.1.1.1;" }, /* in version 3 still */
        { query(2, 0, 10), "v2 239.1.1.1;" },
    };
    join(G1);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct igmp_packet message = rows[i].query;
        message.no_alert = true;
        for (int k = 0; k < 100; k++)
            message_give(message);
        expect(S, rows[i].answer); /* one for all of them */
        expect(10 * S, "");
    }
}

TEST(change_that_was_not_reported_survives_a_new_version)
{
    join(G1);
    assert_true(igmp_join(&stack->ip, G2));
    message_give(query(2, 0, 255)); /* before the turn that would have sent the report */
    expect(0, "v2 239.1.1.2;");
}

/* A report of another member ends ours, and the query after it plans an answer: nothing else is due. */
TEST(filter_is_set_at_once_if_a_report_takes_the_place_of_the_first_one)
{
    join(G2);
    message_give(query(2, 0, 255));
    filter.calls = 0;
    assert_true(igmp_join(&stack->ip, G1));
    report_give(IGMP_REPORT_V2, G1);
    message_give(query(2, G1, 255));
    assert_int_equal(net_next_deadline_ns(stack), 0);
    net_idle(stack, now_ns);
    assert_int_equal(filter.calls, 1);
    assert_int_equal(filter.count, 3);
    assert_true(net_next_deadline_ns(stack) > now_ns);
}

/* Routers hear a report that goes to its group, and no other one. */
TEST(report_to_another_address_than_its_group_is_dropped)
{
    static const uint32_t destinations[] = { ADDRESS, ALL_SYSTEMS, G2 };
    join(G1);
    join(G2);
    message_give(query(2, 0, 100));
    for (size_t i = 0; i < ARRAY_COUNT(destinations); i++)
        message_give((struct igmp_packet){
            .type = i == 0 ? IGMP_REPORT_V1 : IGMP_REPORT_V2,
            .group = G1,
            .destination = destinations[i],
            .source = SENDER,
        });
    assert_int_equal(COUNTED(igmp_rx_drop_group), 3);
    assert_int_equal(COUNTED(igmp_rx_reports), 0);
    report_give(IGMP_REPORT_V2, G2);
    expect(10 * S, "v2 239.1.1.1;");
}

/* ---- Messages that are dropped ---- */

/* Rows: a general query of version 3 with a byte changed, or cut. The checksums are made right, except in one row. */
TEST(bad_messages_are_dropped_and_counted)
{
    enum { MESSAGE = 24, WRONG_SUM = 1000 };
    static const struct {
        const char *what;
        uint32_t at;
        uint8_t value;
        uint32_t cut;
        size_t counter;
    } rows[] = {
#define AT(name) offsetof(struct net_counters, name)
        { "a wrong checksum", WRONG_SUM, 0, 0, AT(igmp_rx_drop_bad_checksum) },
        { "a TTL of 2", 8, 2, 0, AT(igmp_rx_drop_ttl) },
        { "a TTL of 0", 8, 0, 0, AT(igmp_rx_drop_ttl) },
        { "an option that is too long", 21, 5, 0, AT(ipv4_rx_drop_bad_option) },
        { "an unknown type", MESSAGE, 0x13, 0, AT(igmp_rx_drop_type) },
        { "a report of version 3", MESSAGE, IGMP_REPORT_V3, 0, AT(igmp_rx_drop_type) },
        { "a leave", MESSAGE, IGMP_LEAVE_V2, 0, AT(igmp_rx_drop_type) },
        { "a group that is none", MESSAGE + 4, 10, 0, AT(igmp_rx_drop_group) },
        { "a source that is not there", MESSAGE + 11, 1, 0, AT(igmp_rx_drop_length) },
        { "sources beyond the end", MESSAGE + 10, 255, 0, AT(igmp_rx_drop_length) },
        { "7 bytes", 0, 0x46, 5, AT(igmp_rx_drop_length) },
        { "0 bytes", 0, 0x46, 12, AT(igmp_rx_drop_length) },
        { "9 bytes", 0, 0x46, 3, AT(igmp_rx_drop_length) },
        { "11 bytes", 0, 0x46, 1, AT(igmp_rx_drop_length) },
        { "from ourselves", 15, 1, 0, AT(ipv4_rx_drop_source) },
        { "from a group", 12, 0xe1, 0, AT(ipv4_rx_drop_source) },
        { "from 0.0.0.254", 12, 0, 0, AT(ipv4_rx_drop_source) },
#undef AT
    };
    join(G1);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct igmp_packet message = query(3, 0, 10);
        struct igmp_packet whole = message;
        uint8_t packet[IGMP_PACKET_BYTES_MAX];
        const uint64_t *counter = (const uint64_t *)((const char *)&stack->ip.counters + rows[i].counter);
        uint64_t before = *counter;
        whole.source = QUERIER;
        size_t bytes = igmp_packet_write(&whole, packet);
        if (rows[i].at == WRONG_SUM) {
            packet[MESSAGE + 2] ^= 1;
        } else {
            packet[rows[i].at] = rows[i].value;
            bytes -= rows[i].cut;
            store_be16(packet + 2, (uint16_t)bytes);
            if (bytes >= MESSAGE + 4)
                igmp_packet_sum(packet, bytes);
            store_be16(packet + 10, 0);
            store_be16(packet + 10, checksum_finish(checksum_sum(0, packet, MESSAGE)));
        }
        print_message("  %s\n", rows[i].what);
        group_frame_give(ALL_SYSTEMS, packet, bytes);
        assert_int_equal(*counter, before + 1);
        expect(10 * S, "");
    }
    assert_int_equal(COUNTED(igmp_rx_queries), 0);
}

TEST(general_query_to_another_address_than_that_of_all_systems_is_dropped)
{
    struct igmp_packet message = query(3, 0, 10);
    join(G1);
    message.destination = G1;
    message_give(message);
    message.destination = ADDRESS;
    message_give(message);
    message = query(3, ALL_SYSTEMS, 10); /* nobody reports the group of all systems */
    message_give(message);
    message = source_query(0, SENDER, 1);
    message_give(message);
    assert_int_equal(COUNTED(igmp_rx_drop_group), 4);
    expect(10 * S, "");
}

TEST(bytes_after_a_query_are_ignored)
{
    struct igmp_packet message = source_query(G1, SENDER, 3);
    uint8_t packet[IGMP_PACKET_BYTES_MAX];
    join(G1);
    message.source = QUERIER;
    size_t bytes = igmp_packet_write(&message, packet);
    store_be16(packet + 24 + 10, 1); /* two sources of three are further octets: RFC 9776 §4.1.11 */
    igmp_packet_sum(packet, bytes);
    group_frame_give(G1, packet, bytes);
    expect(S, "is_in 239.1.1.1 10.0.0.7;");
}

TEST(stack_that_has_joined_nothing_is_deaf)
{
    message_give(query(3, 0, 10));
    message_give(query(3, G1, 10));
    assert_int_equal(COUNTED(ethernet_rx_drop_group), 2);
    expect(10 * S, "");
    join(G1);
    igmp_leave(&stack->ip, G1);
    expect(2 * S, "to_in 239.1.1.1;to_in 239.1.1.1;");
    message_give(query(3, 0, 10));
    assert_int_equal(COUNTED(ethernet_rx_drop_group), 3);
    expect(10 * S, "");
}
