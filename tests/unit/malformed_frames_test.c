/* Frames that crashed small stacks in the past. A row names the changed bytes, the counter of the reason, and the
 * number of reply frames. After each row all buffers are back, and a ping, a datagram and a SYN are served. Frames have
 * their exact length, and AddressSanitizer guards the byte after them.
 *
 * Families: Ripple20 (CVE-2020-11896), AMNESIA:33 (CVE-2020-13988, 17437), FreeRTOS+TCP (CVE-2018-16523, 16601, 16603),
 * URGENT/11 (CVE-2019-12256). Fragments: ipv4_test.c. Options of every length, and changes of every byte of every kind
 * of packet: net_malformed_test.c. Such segments in an open connection: tests/wire. */
#include "tests/lib/stack_fixture.h"

enum { UDP_PORT = 4000, TCP_PORT = 80 };

/* ---- Valid frames, which the rows change ---- */

enum base { ECHO, OPTIONS, ERROR, DATAGRAM, SYN, ARP };
enum { IP = 14, L4 = 34, OPTIONS_L4 = 74, QUOTE = L4 + 8, FRAME_BYTES = 128 };

static uint32_t ipv4_begin(uint8_t *frame, uint32_t header_bytes, uint8_t protocol, uint32_t payload_bytes)
{
    packet_ipv4(frame + IP, protocol, NEIGHBOUR, ADDRESS, header_bytes - 20 + payload_bytes);
    frame[IP] = (uint8_t)(0x40 | header_bytes / 4);
    return IP + header_bytes + payload_bytes;
}

static uint32_t base_frame(enum base base, uint8_t *frame)
{
    memset(frame, 0, FRAME_BYTES);
    packet_ethernet(frame, our_mac, their_mac, base == ARP ? ETHERNET_TYPE_ARP : ETHERNET_TYPE_IPV4);
    switch (base) {
    case ECHO:
        frame[L4] = 8;
        return ipv4_begin(frame, 20, 1, 8 + 16);
    case OPTIONS: /* an echo request after 40 bytes of NOP */
        memset(frame + L4, 1, 40);
        frame[OPTIONS_L4] = 8;
        return ipv4_begin(frame, 60, 1, 8 + 16);
    case ERROR: /* port unreachable, about a segment that the stack never sent */
        frame[L4] = 3;
        frame[L4 + 1] = 3;
        packet_ipv4(frame + QUOTE, 6, ADDRESS, NEIGHBOUR, 20);
        return ipv4_begin(frame, 20, 1, 8 + 20 + 8);
    case DATAGRAM:
        store_be16(frame + L4, 1000);
        store_be16(frame + L4 + 2, UDP_PORT);
        store_be16(frame + L4 + 4, 8 + 16);
        return ipv4_begin(frame, 20, 17, 8 + 16);
    case SYN:
        store_be16(frame + L4, 1000);
        store_be16(frame + L4 + 2, TCP_PORT);
        frame[L4 + 12] = 0x50;
        frame[L4 + 13] = TCP_SYN;
        return ipv4_begin(frame, 20, 6, 20);
    case ARP:
        *(struct arp_wire *)(frame + 14) = packet_arp(ARP_OPERATION_REQUEST, their_mac, NEIGHBOUR, ADDRESS);
        return 42;
    }
    return 0;
}

/* Makes the checksums right, if the changed headers still lead to them. */
static void checksums_fix(uint8_t *frame, uint32_t bytes)
{
    if (bytes >= L4 && load_be16(frame + 12) == ETHERNET_TYPE_IPV4)
        packet_sum(frame + IP, bytes - IP);
}

/* ---- The rows ---- */

struct row {
    const char *name;
    enum base base;
    const char *counter;
    struct {
        uint8_t at;
        uint8_t count;
        uint8_t bytes[6];
    } bends[3];
    uint8_t cut;          /* the frame ends here; 0: at its right end */
    uint8_t padding;      /* bytes after the packet */
    bool wrong_checksum;  /* the transport's */
    bool own_ip_checksum; /* the changes include the IP checksum */
    uint8_t answers;
};

static const struct row rows[] = {
    /* Ethernet */
    { "one byte", ECHO, "ethernet.rx_drop_short", .cut = 1 },
    { "13 bytes", ECHO, "ethernet.rx_drop_short", .cut = 13 },
    { "IPv4 without a byte", ECHO, "ipv4.rx_drop_short", .cut = 14 },
    { "ARP without a byte", ARP, "arp.rx_drop_malformed", .cut = 14 },
    { "a type nobody knows", ECHO, "ethernet.rx_drop_type", .bends = { { 12, 2, { 0x86, 0xdd } } } },
    { "a length for a type (802.3)", ECHO, "ethernet.rx_drop_type", .bends = { { 12, 2, { 0, 46 } } } },
    { "to another station", ECHO, "ethernet.rx_drop_not_ours", .bends = { { 5, 1, { 77 } } } },
    { "padding behind the datagram", ECHO, "icmp.tx_echo_replies", .padding = 18, .answers = 1 },

    /* ARP */
    { "hlen 5", ARP, "arp.rx_drop_malformed", .bends = { { 18, 1, { 5 } } } },
    { "hlen 255", ARP, "arp.rx_drop_malformed", .bends = { { 18, 1, { 255 } } } },
    { "plen 16", ARP, "arp.rx_drop_malformed", .bends = { { 19, 1, { 16 } } } },
    { "plen 0", ARP, "arp.rx_drop_malformed", .bends = { { 19, 1, { 0 } } } },
    { "cut in the target's address", ARP, "arp.rx_drop_malformed", .cut = 41 },
    { "in our own address's name (RFC 5227: announced)", ARP, "arp.rx_drop_own_address",
      .bends = { { 28, 4, { 10, 0, 0, 1 } } }, .answers = 1 },
    { "of another hardware", ARP, "arp.rx_drop_malformed", .bends = { { 15, 1, { 17 } } } },
    { "of another protocol", ARP, "arp.rx_drop_malformed", .bends = { { 16, 1, { 0x18 } } } },
    { "RARP, operation 3", ARP, "arp.rx_drop_malformed", .bends = { { 21, 1, { 3 } } } },
    { "a group as sender's MAC", ARP, "arp.rx_drop_malformed", .bends = { { 22, 1, { 0xff } } } },
    { "a reply nobody asked for", ARP, "arp.rx_drop_unasked",
      .bends = { { 20, 2, { 0, 2 } }, { 28, 4, { 10, 0, 0, 99 } } } },
    { "a probe from 0.0.0.0 (RFC 5227)", ARP, "arp.tx_replies", .bends = { { 28, 4, { 0, 0, 0, 0 } } }, .answers = 1 },

    /* The IPv4 header */
    { "version 6", ECHO, "ipv4.rx_drop_version", .bends = { { 14, 1, { 0x65 } } } },
    { "IHL 0", ECHO, "ipv4.rx_drop_header_bytes", .bends = { { 14, 1, { 0x40 } } } },
    { "IHL 4", ECHO, "ipv4.rx_drop_header_bytes", .bends = { { 14, 1, { 0x44 } } } },
    { "IHL beyond the frame", ECHO, "ipv4.rx_drop_header_bytes", .bends = { { 14, 1, { 0x4f } } } },
    { "IHL beyond the total length", OPTIONS, "ipv4.rx_drop_total_bytes", .bends = { { 16, 2, { 0, 59 } } } },
    { "total length 0", ECHO, "ipv4.rx_drop_total_bytes", .bends = { { 16, 2, { 0, 0 } } } },
    { "total length 19", ECHO, "ipv4.rx_drop_total_bytes", .bends = { { 16, 2, { 0, 19 } } } },
    { "total length beyond the frame", ECHO, "ipv4.rx_drop_total_bytes", .bends = { { 16, 2, { 0, 45 } } } },
    { "total length 65535", ECHO, "ipv4.rx_drop_total_bytes", .bends = { { 16, 2, { 255, 255 } } } },
    { "no payload", ECHO, "icmp.rx_drop_short", .bends = { { 16, 2, { 0, 20 } } } },
    { "wrong checksum", ECHO, "ipv4.rx_drop_bad_checksum", .bends = { { 24, 2, { 1, 2 } } }, .own_ip_checksum = true },
    { "TTL 0 (RFC 1122 §3.2.1.7: a host takes it)", ECHO, "icmp.tx_echo_replies", .bends = { { 22, 1, { 0 } } },
      .answers = 1 },
    { "from 255.255.255.255", ECHO, "ipv4.rx_drop_source", .bends = { { 26, 4, { 255, 255, 255, 255 } } } },
    { "from our subnet's broadcast", ECHO, "ipv4.rx_drop_source", .bends = { { 26, 4, { 10, 0, 0, 255 } } } },
    { "from a multicast group", ECHO, "ipv4.rx_drop_source", .bends = { { 26, 4, { 224, 0, 0, 1 } } } },
    { "from ourselves (LAND)", SYN, "ipv4.rx_drop_source", .bends = { { 26, 4, { 10, 0, 0, 1 } } } },
    { "from loopback", ECHO, "ipv4.rx_drop_source", .bends = { { 26, 4, { 127, 0, 0, 1 } } } },
    { "from 0.0.0.0", ECHO, "ipv4.rx_drop_source", .bends = { { 26, 4, { 0, 0, 0, 0 } } } },
    { "from class E", ECHO, "ipv4.rx_drop_source", .bends = { { 26, 4, { 240, 0, 0, 1 } } } },
    { "to a multicast group", ECHO, "ipv4.rx_drop_not_ours", .bends = { { 30, 4, { 224, 0, 0, 1 } } } },
    { "to loopback", ECHO, "ipv4.rx_drop_not_ours", .bends = { { 30, 4, { 127, 0, 0, 1 } } } },
    { "to another host", ECHO, "ipv4.rx_drop_not_ours", .bends = { { 30, 4, { 10, 0, 0, 2 } } } },
    { "a protocol nobody knows", ECHO, "icmp.tx_errors", .bends = { { 23, 1, { 99 } } }, .answers = 1 },
    { "IP in IP (Ripple20)", ECHO, "icmp.tx_errors", .bends = { { 23, 1, { 4 } }, { 34, 4, { 0x45, 0, 0xff, 0xff } } },
      .answers = 1 },
    { "a protocol nobody knows, to everyone", ECHO, "ipv4.rx_drop_protocol",
      .bends = { { 23, 1, { 99 } }, { 30, 4, { 10, 0, 0, 255 } } } },

    /* IPv4 options */
    { "forty NOPs", OPTIONS, "icmp.tx_echo_replies", .answers = 1 },
    { "option of length 0", OPTIONS, "ipv4.rx_drop_bad_option", .bends = { { 34, 2, { 7, 0 } } } },
    { "option of length 1", OPTIONS, "ipv4.rx_drop_bad_option", .bends = { { 34, 2, { 7, 1 } } } },
    { "option past the header", OPTIONS, "ipv4.rx_drop_bad_option", .bends = { { 34, 2, { 7, 41 } } } },
    { "option whose length is past the header", OPTIONS, "ipv4.rx_drop_bad_option", .bends = { { 73, 1, { 7 } } } },
    { "end, then junk", OPTIONS, "icmp.tx_echo_replies", .bends = { { 34, 6, { 0, 7, 0, 131, 0, 255 } } },
      .answers = 1 },
    { "loose route, pointer 0", OPTIONS, "ipv4.rx_drop_source_route", .bends = { { 34, 3, { 131, 7, 0 } } } },
    { "loose route, pointer 3", OPTIONS, "ipv4.rx_drop_source_route", .bends = { { 34, 3, { 131, 7, 3 } } } },
    { "strict route, pointer past it", OPTIONS, "ipv4.rx_drop_source_route", .bends = { { 34, 3, { 137, 7, 255 } } } },
    { "strict route, in a datagram that draws an error", OPTIONS, "ipv4.rx_drop_source_route",
      .bends = { { 34, 3, { 137, 39, 4 } }, { 23, 1, { 99 } } } },
    { "record route, pointer past it", OPTIONS, "icmp.tx_echo_replies", .bends = { { 34, 3, { 7, 7, 255 } } },
      .answers = 1 },
    { "timestamp, pointer past it", OPTIONS, "icmp.tx_echo_replies", .bends = { { 34, 4, { 68, 8, 255, 0xff } } },
      .answers = 1 },

    /* ICMP */
    { "echo of seven bytes", ECHO, "icmp.rx_drop_short", .bends = { { 16, 2, { 0, 27 } } }, .cut = 41 },
    { "echo with a wrong checksum", ECHO, "icmp.rx_drop_bad_checksum", .wrong_checksum = true },
    { "echo to everyone", ECHO, "icmp.rx_drop_broadcast", .bends = { { 30, 4, { 10, 0, 0, 255 } } } },
    { "echo to all of all", ECHO, "icmp.rx_drop_broadcast", .bends = { { 30, 4, { 255, 255, 255, 255 } } } },
    { "echo to the network", ECHO, "icmp.rx_drop_broadcast", .bends = { { 30, 4, { 10, 0, 0, 0 } } } },
    { "redirect", ERROR, "icmp.rx_drop_type", .bends = { { 34, 2, { 5, 1 } } } },
    { "source quench", ERROR, "icmp.rx_drop_type", .bends = { { 34, 2, { 4, 0 } } } },
    { "timestamp request", ECHO, "icmp.rx_drop_type", .bends = { { 34, 1, { 13 } } } },
    { "address mask request", ECHO, "icmp.rx_drop_type", .bends = { { 34, 1, { 17 } } } },
    { "an answer to no echo of ours", ECHO, "icmp.rx_drop_type", .bends = { { 34, 1, { 0 } } } },
    { "error that quotes nothing", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 16, 2, { 0, 28 } } }, .cut = 42 },
    { "error that quotes a header alone", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 16, 2, { 0, 48 } } },
      .cut = 62 },
    { "error that quotes 7 bytes of transport", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 16, 2, { 0, 55 } } },
      .cut = 69 },
    { "quoted IHL 4", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 42, 1, { 0x44 } } } },
    { "quoted IHL past the end", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 42, 1, { 0x4f } } } },
    { "quoted IHL 6, transport past the end", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 42, 1, { 0x46 } } } },
    { "quoted version 6", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 42, 1, { 0x65 } } } },
    { "quoted later fragment", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 48, 2, { 0, 5 } } } },
    { "quoted from another host", ERROR, "icmp.rx_drop_bad_quote", .bends = { { 54, 4, { 10, 0, 0, 3 } } } },
    { "quoted: an error of ours", ERROR, "icmp.rx_errors", .bends = { { 51, 1, { 1 } }, { 62, 2, { 3, 3 } } } },
    { "quoted: no connection of ours", ERROR, "tcp.icmp_ignored", .cut = 0 },
    { "fragmentation needed, MTU 0, no connection", ERROR, "tcp.icmp_ignored", .bends = { { 34, 2, { 3, 4 } } } },
    { "fragmentation needed, MTU 67, no connection", ERROR, "tcp.icmp_ignored",
      .bends = { { 34, 2, { 3, 4 } }, { 40, 2, { 0, 67 } } } },

    /* UDP */
    { "seven bytes of UDP", DATAGRAM, "udp.rx_drop_short", .bends = { { 16, 2, { 0, 27 } } } },
    { "length 0", DATAGRAM, "udp.rx_drop_length", .bends = { { 38, 2, { 0, 0 } } } },
    { "length 7", DATAGRAM, "udp.rx_drop_length", .bends = { { 38, 2, { 0, 7 } } } },
    { "length past the datagram", DATAGRAM, "udp.rx_drop_length", .bends = { { 38, 2, { 0, 25 } } } },
    { "length 65535", DATAGRAM, "udp.rx_drop_length", .bends = { { 38, 2, { 255, 255 } } } },
    { "wrong UDP checksum", DATAGRAM, "udp.rx_drop_bad_checksum", .wrong_checksum = true },
    { "port 0", DATAGRAM, "udp.rx_drop_no_port", .bends = { { 36, 2, { 0, 0 } } }, .answers = 1 },
    { "a closed port", DATAGRAM, "udp.rx_drop_no_port", .bends = { { 36, 2, { 0, 9 } } }, .answers = 1 },
    { "a closed port, to everyone", DATAGRAM, "udp.rx_drop_no_port",
      .bends = { { 36, 2, { 0, 9 } }, { 30, 4, { 255, 255, 255, 255 } } } },

    /* TCP headers, at the listener's port */
    { "19 bytes of TCP", SYN, "tcp.rx_drop_short", .bends = { { 16, 2, { 0, 39 } } } },
    { "data offset 0", SYN, "tcp.rx_drop_offset", .bends = { { 46, 1, { 0x00 } } } },
    { "data offset 4", SYN, "tcp.rx_drop_offset", .bends = { { 46, 1, { 0x40 } } } },
    { "data offset past the segment", SYN, "tcp.rx_drop_offset", .bends = { { 46, 1, { 0x60 } } } },
    { "data offset past it, in the padding", SYN, "tcp.rx_drop_offset", .bends = { { 46, 1, { 0xf0 } } },
      .padding = 40 },
    { "source port 0", SYN, "tcp.rx_drop_port_zero", .bends = { { 34, 2, { 0, 0 } } } },
    { "destination port 0", SYN, "tcp.rx_drop_port_zero", .bends = { { 36, 2, { 0, 0 } } } },
    { "wrong TCP checksum", SYN, "tcp.rx_drop_bad_checksum", .wrong_checksum = true },
    { "SYN with FIN", SYN, "tcp.rx_drop_flags", .bends = { { 47, 1, { 3 } } } },
    { "SYN with RST", SYN, "tcp.rx_resets_ignored", .bends = { { 47, 1, { 6 } } } },
    { "all flags", SYN, "tcp.rx_resets_ignored", .bends = { { 47, 1, { 0xff } } } },
    { "no flags", SYN, "tcp.rx_drop_flags", .bends = { { 47, 1, { 0 } } } },
    { "FIN alone", SYN, "tcp.rx_drop_flags", .bends = { { 47, 1, { 1 } } } },
    { "URG alone", SYN, "tcp.rx_drop_flags", .bends = { { 47, 1, { 0x20 } }, { 52, 2, { 255, 255 } } } },
    { "SYN to everyone", SYN, "tcp.rx_drop_broadcast", .bends = { { 30, 4, { 10, 0, 0, 255 } } } },
    { "SYN to everyone's MAC", SYN, "tcp.rx_drop_broadcast", .bends = { { 0, 6, { 255, 255, 255, 255, 255, 255 } } } },
};

static uint32_t row_frame(const struct row *row, uint8_t *frame)
{
    uint32_t bytes = base_frame(row->base, frame);
    for (size_t i = 0; i < ARRAY_COUNT(row->bends); i++)
        memcpy(frame + row->bends[i].at, row->bends[i].bytes, row->bends[i].count);
    uint8_t ip_checksum[2] = { frame[24], frame[25] };
    if (row->cut != 0)
        bytes = row->cut;
    checksums_fix(frame, bytes);
    if (row->own_ip_checksum)
        memcpy(frame + 24, ip_checksum, 2);
    if (row->wrong_checksum)
        frame[L4 + (row->base == SYN ? 17 : row->base == DATAGRAM ? 7 : 3)] ^= 0x40;
    return bytes + row->padding;
}

/* ---- Played ---- */

static uint64_t counter(const char *wanted)
{
    for (size_t module = 0; module < NET_GROUP_COUNT; module++) {
        const struct counter_group group = net_counter_group(&stack->ip.counters, module);
        const size_t bytes = strlen(group.prefix);
        for (size_t i = 0; strncmp(wanted, group.prefix, bytes) == 0 && i < group.count; i++)
            if (strcmp(wanted + bytes, group.counters[i].name) == 0)
                return group.values[i];
    }
    fail_msg("no counter %s", wanted);
    return 0;
}

/* Gives a frame to the stack. Returns the number of frames that the stack sends. */
static uint32_t give(const uint8_t *frame, uint32_t bytes)
{
    uint32_t count = 0;
    now_ns += S; /* so that no rate limit drops an answer */
    stack->datagram_ready = false;
    assert_true(netdev_memory_feed(&device, frame, bytes, false));
    turn();
    net_stack_check(stack);
    while (frame_take() != 0)
        count++;
    return count;
}

BEFORE_EACH()
{
    uint8_t frame[FRAME_BYTES];
    stack_begin(stack_config(ADDRESS, MASK, 0));
    assert_true(udp_bind(&stack->ip, UDP_PORT));
    assert_true(tcp_listen(stack, TCP_PORT, 4, NULL) >= 0);
    give(frame, base_frame(ARP, frame)); /* our neighbour is known from here on */
}

/* Checks that valid frames are served, and that all memory is back. */
static void check_serves(const char *after)
{
    static const struct row good[] = { { "echo", ECHO, NULL, .answers = 1 },
                                       { "datagram", DATAGRAM, NULL, .answers = 0 },
                                       { "ARP", ARP, NULL, .answers = 1 },
                                       { "SYN", SYN, NULL, .answers = 1 } };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        uint8_t frame[FRAME_BYTES];
        uint32_t bytes = row_frame(&good[i], frame);
        uint32_t got = give(frame, bytes);
        if (got != good[i].answers)
            fail_msg("after \"%s\": %s got %u answers, expected %u", after, good[i].name, got, good[i].answers);
        if (good[i].base == DATAGRAM && (!stack->datagram_ready || stack->datagram.payload.count != 16))
            fail_msg("after \"%s\": the datagram did not arrive", after);
    }
    uint8_t reset[FRAME_BYTES]; /* the SYN is taken back */
    const struct row row = { .name = "RST", .base = SYN, .bends = { { 41, 1, { 1 } }, { 47, 1, { TCP_RST } } } };
    uint32_t bytes = row_frame(&row, reset);
    assert_int_equal(give(reset, bytes), 0);
    assert_int_equal(stack->tcp.half_open_used, 0);
    assert_int_equal(device.pool.rx_out_count, 0);
    assert_int_equal(frame_pool_tx_held_count(&device.pool), 0);
}

TEST(each_row_is_counted_answered_as_allowed_and_survived)
{
    check_serves("the beginning");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint8_t frame[FRAME_BYTES];
        uint32_t bytes = row_frame(&rows[i], frame);
        uint64_t before = counter(rows[i].counter);
        uint32_t answers = give(frame, bytes);
        if (counter(rows[i].counter) != before + 1)
            fail_msg("\"%s\": %s is %llu, expected %llu", rows[i].name, rows[i].counter,
                     (unsigned long long)counter(rows[i].counter), (unsigned long long)before + 1);
        if (answers != rows[i].answers)
            fail_msg("\"%s\": %u answers, expected %u", rows[i].name, answers, rows[i].answers);
        check_serves(rows[i].name);
    }
}

/* Expects an ICMP error that quotes the datagram with its options, and that has no options itself. */
TEST(errors_carry_no_options)
{
    uint8_t frame[FRAME_BYTES];
    const struct row row = { .base = OPTIONS, .bends = { { 34, 3, { 7, 39, 4 } }, { 23, 1, { 99 } } } };
    uint32_t bytes = row_frame(&row, frame);
    now_ns += S;
    assert_true(netdev_memory_feed(&device, frame, bytes, false));
    net_input(stack, now_ns);
    assert_true(frame_take() >= 14 + 20 + 8 + 60 + 8);
    assert_int_equal(sent[14], 0x45);
    assert_memory_equal(sent + 14 + 20 + 8, frame + 14, 60);
}

/* Sends ARP from ten thousand addresses. Needed entries stay, and the table does not grow. */
TEST(ten_thousand_arp_senders_are_survived)
{
    for (uint32_t i = 0; i < 10000; i++) {
        uint8_t frame[FRAME_BYTES];
        uint32_t bytes = base_frame(ARP, frame);
        store_be32(frame + 28, UINT32_C(0x0a000000) + (i % 200) + 20);
        store_be32(frame + 24, i);
        assert_int_equal(give(frame, bytes), 1);
    }
    uint8_t frame[FRAME_BYTES];
    give(frame, base_frame(ARP, frame));
    check_serves("ten thousand senders");
}
