/* Many neighbours under connections, and a gateway that changes: ARP's table and TCP's copies of its addresses. */
#include "net/ip/udp_wire.h"
#include "tests/lib/stack_fixture.h"

enum { CONNECTIONS = 256, PORT = 80, PEER_PORT = 1000, WIDE_MASK = 0xffff0000, CLIENTS = 0x0a000100 };

static int listener;

static void begin_at(uint32_t address)
{
    struct net_config config = stack_config(address, WIDE_MASK, 0);
    config.capacity = (struct net_capacity){ CONNECTIONS, 1, CONNECTIONS, 8, 4, 2048, 2048, 0 };
    config.policy.nodelay = true;
    stack_begin(config);
    listener = tcp_listen(stack, PORT, CONNECTIONS, NULL);
}

BEFORE_EACH() { begin_at(ADDRESS); }

static void begin_with_dhcp(void) { begin_at(0); }

static void peer_gives(const uint8_t mac[6], uint32_t source, uint8_t flags, uint32_t seq, uint32_t ack)
{
    segment_give(mac, source, PEER_PORT, PORT, flags, seq, ack);
}

/* Opens a connection from `source`. Returns it. */
static int client_opens(const uint8_t mac[6], uint32_t source)
{
    drain();
    peer_gives(mac, source, TCP_SYN, 0, 0);
    assert_true(take(ETHERNET_TYPE_IPV4));
    assert_memory_equal(sent, mac, 6);
    peer_gives(mac, source, TCP_ACK, 1, load_be32(sent + 14 + 20 + 4) + 1);
    int id = tcp_accept(stack, listener);
    assert_true(id >= 0);
    return id;
}

/* Sends a byte. Expects the segment at this MAC address, and at once. */
static void expect_sent_to(int id, const uint8_t mac[6])
{
    drain();
    assert_int_equal(tcp_write(stack, id, "x", 1, now_ns), 1);
    assert_true(take(ETHERNET_TYPE_IPV4));
    assert_memory_equal(sent, mac, 6);
}

/* ---- Many neighbours ---- */

static void mac_of_client(uint32_t client, uint8_t mac[6])
{
    memcpy(mac, our_mac, 6);
    store_be16(mac + 4, (uint16_t)(0x100 + client));
}

static void strangers_ask(void)
{
    uint8_t mac[6];
    for (uint32_t i = 0; i < 2000; i++, now_ns += S / 1000) {
        mac_of_client(CONNECTIONS + i, mac);
        arp_give(ARP_OPERATION_REQUEST, CLIENTS + CONNECTIONS + i, ADDRESS, mac);
        drain();
    }
}

/* Fills the stack with connections from neighbours that ask for our address first, as Linux does. */
TEST(neighbour_under_each_connection_is_known_whoever_asks)
{
    uint8_t mac[6];
    int id[CONNECTIONS];
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        mac_of_client(i, mac);
        arp_give(ARP_OPERATION_REQUEST, CLIENTS + i, ADDRESS, mac);
        id[i] = client_opens(mac, CLIENTS + i);
        expect_sent_to(id[i], mac);
    }
    net_stack_check(stack);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        mac_of_client(i, mac);
        expect_sent_to(id[i], mac);
    }
    assert_int_equal(stack->ip.counters.arp_tx_drop_held_full, 0);
    assert_int_equal(stack->ip.counters.arp_table_full, 0);
    strangers_ask();
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        mac_of_client(i, mac);
        assert_non_null(arp_known(&stack->ip, CLIENTS + i));
        assert_memory_equal(arp_known(&stack->ip, CLIENTS + i), mac, 6);
        tcp_abort(stack, id[i], now_ns);
    }
    strangers_ask(); /* now the entries are anybody's */
    assert_null(arp_known(&stack->ip, CLIENTS));
}

/* Opens connections from neighbours that know our address already, as after our restart, and answers no ARP request. */
TEST(clients_that_come_at_once_are_answered_without_arp)
{
    enum { CLIENT_COUNT = 2 * ARP_HELD_COUNT_MAX };
    uint8_t mac[6];
    int id[CLIENT_COUNT];
    for (uint32_t i = 0; i < CLIENT_COUNT; i++) {
        mac_of_client(i, mac);
        id[i] = client_opens(mac, CLIENTS + i);
    }
    for (uint32_t i = 0; i < CLIENT_COUNT; i++) {
        mac_of_client(i, mac);
        expect_sent_to(id[i], mac);
    }
    assert_int_equal(stack->ip.arp.held_count, 0);
    assert_int_equal(stack->ip.counters.arp_tx_drop_held_full, 0);
    mac_of_client(CLIENT_COUNT, mac);
    arp_give(ARP_OPERATION_REQUEST, CLIENTS, ADDRESS, mac); /* one has moved: found as any other neighbour */
    now_ns += 2 * S;
    arp_give(ARP_OPERATION_REQUEST, CLIENTS, ADDRESS, mac);
    now_ns += S;
    net_idle(stack, now_ns);
    arp_give(ARP_OPERATION_REQUEST, CLIENTS, ADDRESS, mac);
    expect_sent_to(id[0], mac);
    for (uint32_t i = 0; i < CLIENT_COUNT; i++)
        tcp_abort(stack, id[i], now_ns);
}

/* ---- A gateway that changes ---- */

enum { SERVER = 0x0a000002, GATEWAY = 0x0a000003, NEW_GATEWAY = 0x0a000004, FAR = 0xc6336401, LEASE_SECONDS = 100 };
static const uint8_t server_mac[6] = { 2, 0, 0, 0, 0, 2 }, gateway_mac[6] = { 2, 0, 0, 0, 0, 3 };
static const uint8_t new_gateway_mac[6] = { 2, 0, 0, 0, 0, 4 };

static uint8_t *option_put(uint8_t *at, uint8_t option, uint8_t bytes, uint32_t value)
{
    at[0] = option;
    at[1] = bytes;
    if (bytes == 1)
        at[2] = (uint8_t)value;
    else if (bytes == 2)
        store_be16(at + 2, (uint16_t)value);
    else
        store_be32(at + 2, value);
    return at + 2 + bytes;
}

/* Answers the DHCP message that the stack sends next. */
static void dhcp_answer(uint8_t type, uint32_t gateway, uint16_t mtu_bytes)
{
    enum { MESSAGE_BYTES = 300 };
    uint8_t packet[20 + 8 + MESSAGE_BYTES] = { 0 }, *message = packet + 28, *at = message + 240;
    assert_true(take(ETHERNET_TYPE_IPV4));
    memcpy(message, sent + 14 + 28, 44); /* the transaction and our MAC address */
    message[0] = 2;
    store_be32(message + 16, ADDRESS);
    store_be32(message + 236, 0x63825363);
    at = option_put(at, 53, 1, type);
    at = option_put(at, 54, 4, SERVER);
    at = option_put(at, 51, 4, LEASE_SECONDS);
    at = option_put(at, 1, 4, WIDE_MASK);
    at = option_put(at, 3, 4, gateway);
    at = option_put(at, 26, 2, mtu_bytes);
    if (gateway == 0) { /* a route to the server alone: RFC 3442 */
        const uint8_t route[] = { 121, 9, 32, 10, 0, 0, 2, 0, 0, 0, 0 };
        memcpy(at, route, sizeof route);
        at += sizeof route;
    }
    *at = 255;
    const struct ipv4_output output = { .source = SERVER, .destination = ADDRESS, .protocol = IPV4_PROTOCOL_UDP };
    ipv4_header_write((struct ipv4_wire *)packet, &output, 8 + MESSAGE_BYTES);
    struct udp_wire *udp = (struct udp_wire *)(packet + 20);
    store_be16(&udp->source_port, DHCP_SERVER_PORT);
    store_be16(&udp->destination_port, DHCP_CLIENT_PORT);
    store_be16(&udp->bytes, 8 + MESSAGE_BYTES);
    frame_give(server_mac, our_mac, ETHERNET_TYPE_IPV4, packet, sizeof packet);
}

static void lease_get(void)
{
    net_idle(stack, now_ns);
    dhcp_answer(2, GATEWAY, 1500);
    dhcp_answer(5, GATEWAY, 1500);
    assert_true(stack->ip.interface.up);
}

static void lease_renew(uint32_t gateway, uint16_t mtu_bytes)
{
    /* Then the request to the server need not wait for ARP. */
    arp_give(ARP_OPERATION_REQUEST, SERVER, ADDRESS, server_mac);
    drain();
    now_ns += LEASE_SECONDS / 2 * S;
    net_idle(stack, now_ns);
    dhcp_answer(5, gateway, mtu_bytes);
}

/* Renews a lease of the same address with another gateway. The old one is gone. */
TEST_AFTER(begin_with_dhcp, connection_follows_the_gateway_of_a_new_lease)
{
    lease_get();
    arp_give(ARP_OPERATION_REPLY, GATEWAY, ADDRESS, gateway_mac);
    int id = client_opens(gateway_mac, FAR);
    expect_sent_to(id, gateway_mac);
    peer_gives(gateway_mac, FAR, TCP_ACK, 1, stack->tcp.connections[id].snd_nxt);

    lease_renew(NEW_GATEWAY, 1500);
    assert_int_equal(stack->ip.address.gateway, NEW_GATEWAY);
    do
        assert_true(take(ETHERNET_TYPE_ARP)); /* asked at once, before a segment waits */
    while (load_be32(&((const struct arp_wire *)(sent + 14))->target_address) != NEW_GATEWAY);
    arp_give(ARP_OPERATION_REPLY, NEW_GATEWAY, ADDRESS, new_gateway_mac);
    expect_sent_to(id, new_gateway_mac);
    tcp_abort(stack, id, now_ns);
}

/* Renews a lease without a default route while a far client's handshake is under way. Its segments are lost until there
 * is a route again. */
TEST_AFTER(begin_with_dhcp, route_that_goes_during_a_handshake_costs_segments_alone)
{
    lease_get();
    arp_give(ARP_OPERATION_REPLY, GATEWAY, ADDRESS, gateway_mac);
    arp_give(ARP_OPERATION_REQUEST, SERVER, ADDRESS, server_mac);
    drain();
    now_ns += LEASE_SECONDS / 2 * S;
    net_idle(stack, now_ns);
    peer_gives(gateway_mac, FAR, TCP_SYN, 0, 0);
    dhcp_answer(5, 0, 1500);
    assert_true(take(ETHERNET_TYPE_IPV4));
    const uint32_t ack = load_be32(sent + 14 + 20 + 4) + 1;
    peer_gives(gateway_mac, FAR, TCP_ACK, 1, ack);
    int id = tcp_accept(stack, listener);
    assert_true(id >= 0);
    drain();
    assert_int_equal(tcp_write(stack, id, "x", 1, now_ns), 1);
    assert_int_equal(stack->ip.counters.ipv4_tx_drop_no_route, 1);
    now_ns += 2 * S;
    net_idle(stack, now_ns);
    net_stack_check(stack);
    assert_false(take(ETHERNET_TYPE_IPV4));
    ipv4_route_add(&stack->ip, 0, 0, GATEWAY);
    peer_gives(gateway_mac, FAR, TCP_ACK, 1, ack);
    expect_sent_to(id, gateway_mac);
    tcp_abort(stack, id, now_ns);
}

/* Returns the bytes of the longest IP packet that carries this text. */
static uint32_t longest_packet_of(int id, size_t bytes)
{
    static const uint8_t text[2048];
    uint32_t longest = 0;
    drain();
    assert_int_equal(tcp_write(stack, id, text, bytes, now_ns), bytes);
    while (take(ETHERNET_TYPE_IPV4))
        longest = max_u32(longest, load_be16(sent + 14 + 2));
    return longest;
}

/* Renews a lease with a smaller MTU. */
TEST_AFTER(begin_with_dhcp, connection_follows_the_mtu_of_a_new_lease)
{
    enum { TEXT_BYTES = 1400, MTU_BYTES = 600 };
    lease_get();
    arp_give(ARP_OPERATION_REPLY, GATEWAY, ADDRESS, gateway_mac);
    int id = client_opens(gateway_mac, FAR);
    assert_int_equal(longest_packet_of(id, TEXT_BYTES), 40 + TEXT_BYTES);
    peer_gives(gateway_mac, FAR, TCP_ACK, 1, stack->tcp.connections[id].snd_nxt);
    lease_renew(GATEWAY, MTU_BYTES);
    assert_int_equal(longest_packet_of(id, TEXT_BYTES), MTU_BYTES);
    tcp_abort(stack, id, now_ns);
}
