/* The wire probe as the network device itself: times a guest from descriptor to descriptor.
 *
 *     vhost_probe SOCKET CORE SHOTS GAPS PLAYS [SCRIPT]
 *
 * Waits for QEMU on the UNIX socket and runs on that core (-1: any). GAPS is a list (1,10) of milliseconds between two
 * shots. The probe plays each of PLAYS (a,b,c) with each gap: SHOTS shots that count, after a few that do not.
 *
 *     ethernet   an ARP request and its reply: the lowest frame that every guest answers
 *     icmp       an echo request of 56 bytes and its reply
 *     udp:BYTES  a datagram with that payload to port 7 and its echo; at least 2 bytes
 *     tcp:BYTES  the same over one connection: until the last byte is back
 *     sha256     POST /sha256?rounds=1 to port 7 with a body of 5 bytes, over one connection, and its response
 *     ntp        an NTP request and its reply
 *     ntp-rate   NTP_RATE_COUNT of them, NTP_RATE_WINDOW at a time; one time for all
 *     burst      digits on the input stream and the POST of the answer that they end with. SCRIPT is a file of lines
 *                "digits answer ..."; the first answer is timed, all must come
 *     trade      a datagram of market data and the order that it brings. SCRIPT is a file of records, each after its
 *                length in two bytes (trade_session.py). Each request of the guest has three: the request itself, a
 *                datagram to the feed's port, packets of the orders' session. The datagram that brings an order stands
 *                before the order's records
 *
 * Prints "PLAY GAP NS" for each shot. A shot's time runs from the moment before the guest can see the frame in its ring
 * to the moment when the device finds the guest's answer. Between the two stand no system call of this program's and no
 * QEMU, except for the interrupt of a guest that asks for one. Exits with a message when an answer does not come.
 *
 * The network is 10.77.0.0/24: this side is .1, the contest's server for input (port 10001) and output (10002), and the
 * exchange for orders (26404); the guest is .2 (tools/workshop/vm/machine.py). No frame is lost here, so the TCP of
 * this side sends nothing twice. */
#define _GNU_SOURCE
#include <assert.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "net/ip/arp_wire.h"
#include "net/ip/checksum.h"
#include "net/ip/icmp_wire.h"
#include "net/ip/udp_wire.h"
#include "net/tcp/wire.h"
#include "tools/workshop/probe/vhost_user.h"

enum {
    OUR_ADDRESS = 0x0a4d0001,
    GUEST_ADDRESS = 0x0a4d0002,
    INPUT_PORT = 10001,
    OUTPUT_PORT = 10002,
    ORDERS_PORT = 26404,
    FEED_PORT = 26400,
    ECHO_PORT = 7,
    OUR_UDP_PORT = 40007,
    OUR_TCP_PORT = 40008,
    TCP_WINDOW = 65000,
    ICMP_BYTES = 56,
    NTP_PORT = 123,
    NTP_BYTES = 48, /* RFC 5905 figure 8: origin stamp at 24, transmit stamp at 40 */
    NTP_RATE_COUNT = 512,
    NTP_RATE_WINDOW = 32,
    PAYLOAD_BYTES_MAX = 1200,
    ANSWER_COUNT_MAX = 16,
    FIRST_REQUESTS = 2,       /* the trader's login and its query, before it orders */
    SOUP_HEARTBEAT_BYTES = 3, /* the length 1 in two bytes, the type */
    WARM_UP_SHOTS = 20,
    SLOW_GAP_MS = 50,   /* at the beginning: QEMU has yet to translate code */
    TRIES = 3,          /* a first frame may meet a neighbour, or a guest that starts */
    SERVE_TURNS = 4096, /* turns of the loop between two looks at QEMU's socket */
};
static const uint64_t SECOND_NS = 1000000000, START_NS = 120 * SECOND_NS, SHOT_NS = 5 * SECOND_NS;
static const uint8_t our_mac[6] = { 0x02, 0x00, 0x0a, 0x4d, 0x00, 0x01 };

/* One side of a connection: the guest opened it to one of our ports, or we opened it to the echo's. */
struct peer {
    uint16_t port, guest_port; /* guest_port 0: nobody has come */
    uint32_t seq, ack;         /* the next number that we send, and the next that we expect */
    bool timestamps;
    uint32_t timestamp_echo;
};

/* A frame of the guest, as far as a shot asks. `payload` is that of TCP, of UDP or of the ICMP echo. */
struct answer {
    uint64_t found_ns;
    bool is_arp_reply, is_icmp_reply, is_udp, is_ntp;
    uint16_t number; /* ICMP's sequence, the echo's first bytes, the end of NTP's origin stamp */
    struct peer *peer;
    const uint8_t *payload;
    uint32_t payload_bytes;
};

static struct vhost_user device;
static struct peer peers[] = {
    { .port = INPUT_PORT }, { .port = OUTPUT_PORT }, { .port = OUR_TCP_PORT }, { .port = ORDERS_PORT }
};
static struct peer *const input = &peers[0], *const output = &peers[1], *const echo = &peers[2];
static struct peer *const orders = &peers[3];
static uint8_t guest_mac[6];
static bool guest_known, input_open; /* the guest's address is known; the input request has been answered */
static bool echo_open;               /* our connection is ESTABLISHED */
static uint32_t echo_bytes;          /* payload of a datagram or segment to the echo */
static uint32_t echo_bytes_left;     /* the part of a segment's that is not yet back */
/* The player's bursts or the trader's session; NULL: the guest's program opens no connection to us. */
static FILE *script;
static uint32_t requests_answered; /* the trader's */

/* ---- Frames to the guest ---- */

static void send_frame(const uint8_t *frame, uint32_t bytes, uint64_t *sent_ns)
{
    uint64_t end_ns = vhost_user_now_ns() + SHOT_NS;
    while ((*sent_ns = vhost_user_send(&device, frame, bytes)) == 0)
        if (!vhost_user_serve(&device) || vhost_user_now_ns() > end_ns)
            errx(1, "the guest gives no receive buffers");
}

static struct ethernet_wire *ethernet_head(uint8_t *frame, const uint8_t *to, uint16_t type)
{
    struct ethernet_wire *ethernet = (struct ethernet_wire *)frame;
    memcpy(ethernet->destination, to, 6);
    memcpy(ethernet->source, our_mac, 6);
    store_be16(&ethernet->type, type);
    return ethernet;
}

static void send_arp(uint16_t operation, const uint8_t *to, uint64_t *sent_ns)
{
    uint8_t frame[60] = { 0 }; /* the least frame of Ethernet */
    struct arp_wire *arp = (struct arp_wire *)(ethernet_head(frame, to, ETHERNET_TYPE_ARP) + 1);
    store_be16(&arp->hardware_type, ARP_HARDWARE_ETHERNET);
    store_be16(&arp->protocol_type, ETHERNET_TYPE_IPV4);
    arp->hardware_bytes = 6;
    arp->protocol_bytes = 4;
    store_be16(&arp->operation, operation);
    memcpy(arp->sender_mac, our_mac, 6);
    store_be32(&arp->sender_address, OUR_ADDRESS);
    memcpy(arp->target_mac, operation == ARP_OPERATION_REPLY ? to : (const uint8_t[6]){ 0 }, 6);
    store_be32(&arp->target_address, GUEST_ADDRESS);
    send_frame(frame, sizeof frame, sent_ns);
}

/* Sends the IPv4 packet whose payload stands in `frame` after both headers. */
static void send_ipv4(uint8_t *frame, uint8_t protocol, uint32_t bytes, uint64_t *sent_ns)
{
    static uint16_t id;
    assert(bytes <= VHOST_USER_FRAME_BYTES_MAX - sizeof(struct ethernet_wire) - sizeof(struct ipv4_wire));
    struct ipv4_wire *ipv4 = (struct ipv4_wire *)(ethernet_head(frame, guest_mac, ETHERNET_TYPE_IPV4) + 1);
    *ipv4 = (struct ipv4_wire){ .version_ihl = 0x45, .ttl = IPV4_TTL_DEFAULT, .protocol = protocol };
    store_be16(&ipv4->total_bytes, (uint16_t)(sizeof *ipv4 + bytes));
    store_be16(&ipv4->id, id++);
    store_be16(&ipv4->flags_offset, IPV4_DONT_FRAGMENT);
    store_be32(&ipv4->source, OUR_ADDRESS);
    store_be32(&ipv4->destination, GUEST_ADDRESS);
    store_be16(&ipv4->checksum, checksum_finish(checksum_sum(0, ipv4, sizeof *ipv4)));
    send_frame(frame, (uint32_t)(sizeof(struct ethernet_wire) + sizeof *ipv4) + bytes, sent_ns);
}

static uint8_t *ipv4_payload(uint8_t *frame) { return frame + sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire); }

static void send_echo_request(uint16_t sequence, uint64_t *sent_ns)
{
    uint8_t frame[VHOST_USER_FRAME_BYTES_MAX] = { 0 };
    struct icmp_wire *icmp = (struct icmp_wire *)ipv4_payload(frame);
    icmp->type = ICMP_ECHO;
    store_be16(&icmp->echo.id, 1);
    store_be16(&icmp->echo.sequence, sequence);
    memset(icmp + 1, 'e', ICMP_BYTES);
    store_be16(&icmp->checksum, checksum_finish(checksum_sum(0, icmp, sizeof *icmp + ICMP_BYTES)));
    send_ipv4(frame, IPV4_PROTOCOL_ICMP, sizeof *icmp + ICMP_BYTES, sent_ns);
}

static uint16_t l4_checksum(uint8_t protocol, const void *l4, uint32_t bytes)
{
    uint32_t sum = checksum_pseudo_ipv4(OUR_ADDRESS, GUEST_ADDRESS, protocol, (uint16_t)bytes);
    return checksum_finish(checksum_sum(sum, l4, bytes));
}

static void send_datagram(uint16_t port, const uint8_t *payload, uint32_t bytes, uint64_t *sent_ns)
{
    uint8_t frame[VHOST_USER_FRAME_BYTES_MAX] = { 0 };
    struct udp_wire *udp = (struct udp_wire *)ipv4_payload(frame);
    assert(bytes <= PAYLOAD_BYTES_MAX);
    bytes += (uint32_t)sizeof *udp;
    store_be16(&udp->source_port, OUR_UDP_PORT);
    store_be16(&udp->destination_port, port);
    store_be16(&udp->bytes, (uint16_t)bytes);
    memcpy(udp + 1, payload, bytes - sizeof *udp);
    store_be16(&udp->checksum, l4_checksum(IPV4_PROTOCOL_UDP, udp, bytes));
    send_ipv4(frame, IPV4_PROTOCOL_UDP, bytes, sent_ns);
}

static void send_echo_datagram(uint16_t number, uint64_t *sent_ns)
{
    uint8_t payload[PAYLOAD_BYTES_MAX];
    memset(payload, 'u', echo_bytes);
    store_be16(payload, number);
    send_datagram(ECHO_PORT, payload, echo_bytes, sent_ns);
}

static void send_ntp_request(uint16_t number, uint64_t *sent_ns)
{
    uint8_t payload[NTP_BYTES] = { 4 << 3 | 3 }; /* version 4, client */
    store_be16(payload + 46, number);
    send_datagram(NTP_PORT, payload, sizeof payload, sent_ns);
}

static void send_segment(struct peer *peer, uint8_t flags, const void *payload, uint32_t bytes, uint64_t *sent_ns)
{
    uint8_t frame[VHOST_USER_FRAME_BYTES_MAX];
    struct tcp_wire *tcp = (struct tcp_wire *)ipv4_payload(frame);
    uint8_t *at = (uint8_t *)(tcp + 1);
    assert(bytes <= PAYLOAD_BYTES_MAX && peer->guest_port != 0);
    if (flags & TCP_SYN) {
        store_be32(at, TCP_OPTION_MSS << 24 | TCP_OPTION_MSS_BYTES << 16 | 1460);
        at += TCP_OPTION_MSS_BYTES;
    }
    if (peer->timestamps) {
        store_be32(at, TCP_TIMESTAMPS_ALIGNED_WORD);
        store_be32(at + 4, (uint32_t)(vhost_user_now_ns() / 1000000));
        store_be32(at + 8, peer->timestamp_echo);
        at += TCP_TIMESTAMPS_ALIGNED_BYTES;
    }
    uint32_t head_bytes = (uint32_t)(at - (uint8_t *)tcp);
    *tcp = (struct tcp_wire){ .offset = (uint8_t)(head_bytes / 4 << 4), .flags = flags };
    store_be16(&tcp->source_port, peer->port);
    store_be16(&tcp->destination_port, peer->guest_port);
    store_be32(&tcp->seq, peer->seq);
    store_be32(&tcp->ack, peer->ack);
    store_be16(&tcp->window, TCP_WINDOW);
    if (bytes != 0)
        memcpy(at, payload, bytes);
    store_be16(&tcp->checksum, l4_checksum(IPV4_PROTOCOL_TCP, tcp, head_bytes + bytes));
    peer->seq += bytes + ((flags & (TCP_SYN | TCP_FIN)) != 0);
    send_ipv4(frame, IPV4_PROTOCOL_TCP, head_bytes + bytes, sent_ns);
}

/* ---- Frames of the guest ---- */

/* Returns the value of the timestamps option; false: there is none. */
static bool timestamp_of(const struct tcp_wire *tcp, uint32_t head_bytes, uint32_t *value)
{
    const uint8_t *options = (const uint8_t *)(tcp + 1);
    uint32_t count = head_bytes - (uint32_t)sizeof *tcp;
    assert(head_bytes >= sizeof *tcp);
    for (uint32_t at = 0; at + 1 < count && options[at] != TCP_OPTION_END;) {
        if (options[at] == TCP_OPTION_TIMESTAMPS && at + TCP_OPTION_TIMESTAMPS_BYTES <= count) {
            *value = load_be32(options + at + 2);
            return true;
        }
        at += options[at] == TCP_OPTION_NOP ? 1 : options[at + 1] != 0 ? options[at + 1] : count;
    }
    return false;
}

/* Takes a segment: returns its payload if that is the next of its stream. */
static void take_segment(const struct tcp_wire *tcp, uint32_t bytes, struct answer *answer)
{
    uint32_t head_bytes = (uint32_t)(tcp->offset >> 4) * 4;
    uint16_t port = load_be16(&tcp->destination_port), guest_port = load_be16(&tcp->source_port);
    struct peer *peer = NULL;
    uint64_t sent_ns;
    for (size_t i = 0; i < ARRAY_COUNT(peers); i++)
        if (peers[i].port == port)
            peer = &peers[i];
    if (peer == NULL || head_bytes < sizeof *tcp || head_bytes > bytes)
        return;
    uint32_t stamp = 0;
    bool stamped = timestamp_of(tcp, head_bytes, &stamp);
    if (peer == echo && (tcp->flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK)) {
        peer->ack = load_be32(&tcp->seq) + 1;
        send_segment(peer, TCP_ACK, NULL, 0, &sent_ns);
        echo_open = true;
        return;
    }
    if (tcp->flags & TCP_SYN) {
        if (peer->guest_port != 0 && peer->guest_port != guest_port)
            errx(1, "the guest left its connection to port %u and came again", port);
        *peer = (struct peer){ .port = port,
                               .guest_port = guest_port,
                               .seq = 0x10203040,
                               .ack = load_be32(&tcp->seq) + 1,
                               .timestamps = stamped,
                               .timestamp_echo = stamp };
        send_segment(peer, TCP_SYN | TCP_ACK, NULL, 0, &sent_ns);
        return;
    }
    if (peer->guest_port != guest_port)
        return;
    if (tcp->flags & (TCP_FIN | TCP_RST))
        errx(1, "the guest ended its connection to port %u", port);
    bytes -= head_bytes;
    if (bytes == 0)
        return;
    if (load_be32(&tcp->seq) == peer->ack) {
        peer->ack += bytes;
        peer->timestamp_echo = stamp;
        answer->peer = peer;
        answer->payload = (const uint8_t *)tcp + head_bytes;
        answer->payload_bytes = bytes;
    }
}

static void take_datagram(const struct udp_wire *udp, uint32_t bytes, struct answer *answer)
{
    const uint8_t *payload = (const uint8_t *)(udp + 1);
    if (bytes < sizeof *udp || load_be16(&udp->destination_port) != OUR_UDP_PORT)
        return;
    bytes -= (uint32_t)sizeof *udp;
    answer->is_udp = load_be16(&udp->source_port) == ECHO_PORT && bytes == echo_bytes;
    answer->is_ntp = load_be16(&udp->source_port) == NTP_PORT && bytes == NTP_BYTES;
    answer->number = answer->is_udp ? load_be16(payload) : answer->is_ntp ? load_be16(payload + 30) : 0;
}

static void take_ipv4(const struct ipv4_wire *ipv4, uint32_t bytes, struct answer *answer)
{
    const void *l4 = ipv4 + 1;
    if (bytes < sizeof *ipv4 || load_be16(&ipv4->total_bytes) > bytes || ipv4->version_ihl != 0x45)
        return;
    bytes = load_be16(&ipv4->total_bytes) - (uint32_t)sizeof *ipv4;
    if (ipv4->protocol == IPV4_PROTOCOL_TCP && bytes >= sizeof(struct tcp_wire)) {
        take_segment(l4, bytes, answer);
    } else if (ipv4->protocol == IPV4_PROTOCOL_ICMP && bytes == sizeof(struct icmp_wire) + ICMP_BYTES) {
        const struct icmp_wire *icmp = l4;
        answer->is_icmp_reply = icmp->type == ICMP_ECHO_REPLY && checksum_finish(checksum_sum(0, icmp, bytes)) == 0;
        answer->number = load_be16(&icmp->echo.sequence);
    } else if (ipv4->protocol == IPV4_PROTOCOL_UDP) {
        take_datagram(l4, bytes, answer);
    }
}

/* Takes the next frame of the guest, if any, and answers ARP and SYNs. */
static bool take_frame(struct answer *answer)
{
    *answer = (struct answer){ 0 };
    uint32_t bytes;
    uint64_t sent_ns;
    const uint8_t *frame = vhost_user_receive(&device, &bytes, &answer->found_ns);
    if (frame == NULL)
        return false;
    const struct ethernet_wire *ethernet = (const struct ethernet_wire *)frame;
    if (bytes < sizeof *ethernet)
        return true;
    bytes -= (uint32_t)sizeof *ethernet;
    uint16_t type = load_be16(&ethernet->type);
    if (type == ETHERNET_TYPE_IPV4)
        take_ipv4((const struct ipv4_wire *)(ethernet + 1), bytes, answer);
    const struct arp_wire *arp = (const struct arp_wire *)(ethernet + 1);
    if (type != ETHERNET_TYPE_ARP || bytes < sizeof *arp || load_be32(&arp->sender_address) != GUEST_ADDRESS)
        return true;
    memcpy(guest_mac, arp->sender_mac, 6);
    guest_known = true;
    answer->is_arp_reply = load_be16(&arp->operation) == ARP_OPERATION_REPLY;
    if (!answer->is_arp_reply && load_be32(&arp->target_address) == OUR_ADDRESS)
        send_arp(ARP_OPERATION_REPLY, guest_mac, &sent_ns);
    return true;
}

/* Returns the body of the next request; NULL: there is no further one. */
static const uint8_t *body_after(const uint8_t *at, const uint8_t *end)
{
    assert(at <= end);
    const uint8_t *head_end = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
    return head_end == NULL ? NULL : head_end + 4;
}

/* Reads the next record of the trader's session. */
static uint32_t read_record(uint8_t record[PAYLOAD_BYTES_MAX])
{
    uint8_t length[2];
    assert(script != NULL);
    if (fread(length, sizeof length, 1, script) != 1)
        errx(1, "trade: too few records");
    uint32_t bytes = load_be16(length);
    if (bytes > PAYLOAD_BYTES_MAX || fread(record, 1, bytes, script) != bytes)
        errx(1, "trade: a record of %u bytes", bytes);
    return bytes;
}

/* Returns true for a request of the trader: a packet of SoupBinTCP, one in a segment, that is no heartbeat. */
static bool is_request(const struct answer *answer, uint16_t number)
{
    (void)number;
    return answer->peer == orders && !(answer->payload_bytes == SOUP_HEARTBEAT_BYTES && answer->payload[2] == 'R');
}

/* Does what the session has next: compares the request, sends its datagram and its answers. */
static void serve_request(const struct answer *answer)
{
    uint8_t record[PAYLOAD_BYTES_MAX];
    uint64_t sent_ns;
    uint32_t bytes = read_record(record);
    if (bytes != answer->payload_bytes || memcmp(record, answer->payload, bytes) != 0)
        errx(1, "trade: request %u of the guest is not that of the session", requests_answered + 1);
    requests_answered++;
    bytes = read_record(record);
    if (bytes > 0)
        send_datagram(FEED_PORT, record, bytes, &sent_ns);
    bytes = read_record(record);
    send_segment(orders, TCP_ACK | TCP_PSH, record, bytes, &sent_ns);
}

/* Does what the contest's servers and the exchange do: acknowledges, answers the input request, each POST, and each
 * request of the trader. */
static void serve(const struct answer *answer)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nServer: Most\r\nContent-type: text/plain\r\n\r\n";
    static const char verdict[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n+8\n";
    uint64_t sent_ns;
    if (answer->peer == input) {
        send_segment(input, TCP_ACK | TCP_PSH, head, input_open ? 0 : sizeof head - 1, &sent_ns);
        input_open = true;
    } else if (answer->peer == output) {
        char verdicts[PAYLOAD_BYTES_MAX];
        uint32_t bytes = 0;
        const uint8_t *end = answer->payload + answer->payload_bytes, *body = answer->payload;
        for (; (body = body_after(body, end)) != NULL && bytes + sizeof verdict <= sizeof verdicts;
             bytes += sizeof verdict - 1)
            memcpy(verdicts + bytes, verdict, sizeof verdict - 1);
        send_segment(output, TCP_ACK | TCP_PSH, verdicts, bytes, &sent_ns);
    } else if (is_request(answer, 0)) {
        serve_request(answer);
    } else if (answer->peer != NULL) {
        send_segment(answer->peer, TCP_ACK, NULL, 0, &sent_ns);
    }
}

/* Takes and serves one frame. Looks at QEMU's socket now and then, and ends with QEMU. */
static bool turn(struct answer *answer)
{
    static uint32_t turns;
    if (++turns % SERVE_TURNS == 0 && !vhost_user_serve(&device))
        errx(1, "QEMU has gone");
    return take_frame(answer);
}

static void wait_ns(uint64_t ns)
{
    struct answer answer;
    for (uint64_t end_ns = vhost_user_now_ns() + ns; vhost_user_now_ns() < end_ns;)
        if (turn(&answer))
            serve(&answer);
}

/* ---- Shots ---- */

/* Waits for the answer to a shot and serves all that comes meanwhile. Returns the shot's time; 0: no answer. */
static uint64_t wait_answer(uint64_t sent_ns, uint64_t patience_ns, bool (*is_answer)(const struct answer *, uint16_t),
                            uint16_t number)
{
    struct answer answer;
    uint64_t found_ns = 0;
    assert(sent_ns != 0);
    while (found_ns == 0 && vhost_user_now_ns() < sent_ns + patience_ns) {
        if (!turn(&answer))
            continue;
        if (is_answer(&answer, number))
            found_ns = answer.found_ns;
        serve(&answer);
    }
    assert(found_ns == 0 || found_ns > sent_ns);
    return found_ns == 0 ? 0 : found_ns - sent_ns;
}

static bool is_arp_reply(const struct answer *answer, uint16_t number)
{
    (void)number;
    return answer->is_arp_reply;
}
static bool is_icmp_reply(const struct answer *answer, uint16_t number)
{
    return answer->is_icmp_reply && answer->number == number;
}
static bool is_udp_echo(const struct answer *answer, uint16_t number)
{
    return answer->is_udp && answer->number == number;
}

static uint64_t shoot_ethernet(uint16_t number)
{
    uint64_t sent_ns;
    send_arp(ARP_OPERATION_REQUEST, (const uint8_t[6]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_arp_reply, number);
}

static uint64_t shoot_icmp(uint16_t number)
{
    uint64_t sent_ns;
    send_echo_request(number, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_icmp_reply, number);
}

static uint64_t shoot_udp(uint16_t number)
{
    uint64_t sent_ns;
    send_echo_datagram(number, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_udp_echo, number);
}

static bool is_echo_whole(const struct answer *answer, uint16_t number)
{
    (void)number;
    if (answer->peer != echo)
        return false;
    assert(answer->payload_bytes <= echo_bytes_left);
    echo_bytes_left -= answer->payload_bytes;
    return echo_bytes_left == 0;
}

/* Opens the connection to the echo, which all shots use. */
static void open_echo(void)
{
    struct answer answer;
    uint64_t sent_ns;
    *echo = (struct peer){ .port = OUR_TCP_PORT, .guest_port = ECHO_PORT, .seq = 0x10203040 };
    send_segment(echo, TCP_SYN, NULL, 0, &sent_ns);
    for (uint64_t end_ns = vhost_user_now_ns() + SHOT_NS; !echo_open && vhost_user_now_ns() < end_ns;)
        if (turn(&answer))
            serve(&answer);
    if (!echo_open)
        errx(1, "tcp: the guest's port %u does not open", ECHO_PORT);
}

static uint64_t shoot_tcp(uint16_t number)
{
    uint8_t payload[PAYLOAD_BYTES_MAX];
    uint64_t sent_ns;
    if (!echo_open)
        open_echo();
    memset(payload, 't', echo_bytes);
    echo_bytes_left = echo_bytes;
    send_segment(echo, TCP_ACK | TCP_PSH, payload, echo_bytes, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_echo_whole, number);
}

static const char sha256_request[] = "POST /sha256?rounds=1 HTTP/1.1\r\nHost: guest\r\nContent-Length: 5\r\n\r\nhello";
static const char sha256_result[] = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n";

/* Returns true if a segment ends with the result. */
static bool is_sha256_result(const struct answer *answer, uint16_t number)
{
    const uint32_t bytes = sizeof sha256_result - 1;
    (void)number;
    return answer->peer == echo && answer->payload_bytes >= bytes
           && memcmp(answer->payload + answer->payload_bytes - bytes, sha256_result, bytes) == 0;
}

static uint64_t shoot_sha256(uint16_t number)
{
    uint64_t sent_ns;
    if (!echo_open)
        open_echo();
    send_segment(echo, TCP_ACK | TCP_PSH, sha256_request, sizeof sha256_request - 1, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_sha256_result, number);
}

static bool is_ntp_reply(const struct answer *answer, uint16_t number)
{
    return answer->is_ntp && answer->number == number;
}

static uint64_t shoot_ntp(uint16_t number)
{
    uint64_t sent_ns;
    send_ntp_request(number, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_ntp_reply, number);
}

/* Asks NTP_RATE_COUNT times, with at most NTP_RATE_WINDOW requests under way. Returns 0 if a reply is lost. */
static uint64_t shoot_ntp_rate(uint16_t number)
{
    struct answer answer;
    uint64_t begun_ns = 0, sent_ns, now_ns = 0;
    (void)number;
    for (uint32_t asked = 0, answered = 0; answered < NTP_RATE_COUNT;) {
        if (asked < NTP_RATE_COUNT && asked - answered < NTP_RATE_WINDOW) {
            send_ntp_request((uint16_t)asked++, &sent_ns);
            begun_ns = begun_ns != 0 ? begun_ns : sent_ns;
        } else if (vhost_user_now_ns() > begun_ns + SHOT_NS) {
            return 0;
        }
        while (turn(&answer)) {
            serve(&answer);
            answered += answer.is_ntp;
            now_ns = answer.found_ns;
        }
    }
    assert(now_ns > begun_ns);
    return now_ns - begun_ns;
}

static char *expected[ANSWER_COUNT_MAX];

/* Strikes a POST's body out of the expected answers. Returns true if it is the first one. */
static bool strike(const uint8_t *body, size_t count)
{
    for (int i = 0; i < ANSWER_COUNT_MAX; i++) {
        if (expected[i] == NULL || strlen(expected[i]) != count || memcmp(body, expected[i], count) != 0)
            continue;
        expected[i] = NULL;
        return i == 0;
    }
    errx(1, "the guest posted what was not offered: %.*s", (int)count, (const char *)body);
}

/* Takes the POSTs of a segment, which may hold several. Returns true if the first answer is among them. */
static bool is_answer_posted(const struct answer *answer, uint16_t number)
{
    (void)number;
    if (answer->peer != output)
        return false;
    bool found = false;
    const uint8_t *end = answer->payload + answer->payload_bytes, *body = answer->payload;
    while ((body = body_after(body, end)) != NULL) {
        size_t count = 0;
        while (body + count < end && body[count] >= '0' && body[count] <= '9')
            count++;
        found |= strike(body, count);
    }
    return found;
}

/* Waits for an answer that is not timed. */
static bool wait_other(int index)
{
    struct answer answer;
    for (uint64_t end_ns = vhost_user_now_ns() + SHOT_NS; expected[index] != NULL && vhost_user_now_ns() < end_ns;) {
        if (!turn(&answer))
            continue;
        is_answer_posted(&answer, 0);
        serve(&answer);
    }
    return expected[index] == NULL;
}

static uint64_t shoot_burst(uint16_t number)
{
    static char line[2 * PAYLOAD_BYTES_MAX];
    (void)number;
    if (fgets(line, sizeof line, script) == NULL)
        errx(1, "too few bursts");
    char *rest = line;
    const char *digits = strsep(&rest, " \n");
    for (int i = 0; i < ANSWER_COUNT_MAX; i++) {
        char *word = rest != NULL ? strsep(&rest, " \n") : NULL;
        expected[i] = word != NULL && *word != 0 ? word : NULL;
    }
    uint64_t sent_ns;
    send_segment(input, TCP_ACK | TCP_PSH, digits, (uint32_t)strlen(digits), &sent_ns);
    uint64_t time_ns = wait_answer(sent_ns, SHOT_NS, is_answer_posted, 0);
    for (int i = 1; i < ANSWER_COUNT_MAX; i++)
        if (expected[i] != NULL && !wait_other(i))
            errx(1, "an answer was not posted: %s", expected[i]);
    return time_ns;
}

static uint64_t shoot_trade(uint16_t number)
{
    uint8_t tick[PAYLOAD_BYTES_MAX];
    uint64_t sent_ns;
    uint32_t bytes = read_record(tick);
    send_datagram(FEED_PORT, tick, bytes, &sent_ns);
    return wait_answer(sent_ns, SHOT_NS, is_request, number);
}

static const struct play {
    const char *name;
    uint64_t (*shoot)(uint16_t number);
    uint32_t bytes_min; /* the least payload that a colon may name; 0: none */
} plays[] = {
    { "ethernet", shoot_ethernet, 0 }, { "icmp", shoot_icmp, 0 },     { "udp", shoot_udp, 2 },
    { "tcp", shoot_tcp, 1 },           { "ntp", shoot_ntp, 0 },       { "ntp-rate", shoot_ntp_rate, 0 },
    { "burst", shoot_burst, 0 },       { "sha256", shoot_sha256, 0 }, { "trade", shoot_trade, 0 },
};

/* Finds a play by its name, and sets echo_bytes. */
static const struct play *find_play(const char *words)
{
    size_t name_count = strcspn(words, ":");
    for (size_t i = 0; i < ARRAY_COUNT(plays); i++) {
        if (strlen(plays[i].name) != name_count || memcmp(plays[i].name, words, name_count) != 0)
            continue;
        long bytes = words[name_count] != 0 ? atol(words + name_count + 1) : 0;
        if (bytes < plays[i].bytes_min || bytes > (plays[i].bytes_min != 0 ? PAYLOAD_BYTES_MAX : 0))
            errx(2, "'%s': %u to %u bytes", words, plays[i].bytes_min, PAYLOAD_BYTES_MAX);
        echo_bytes = (uint32_t)bytes;
        return &plays[i];
    }
    errx(2, "'%s' is no play", words);
}

static void play_one(const struct play *play, const char *name, long gap_ms, long shots)
{
    static uint16_t number;
    for (long i = -WARM_UP_SHOTS; i < shots; i++) {
        wait_ns((uint64_t)(i < -WARM_UP_SHOTS / 2 && gap_ms < SLOW_GAP_MS ? SLOW_GAP_MS : gap_ms) * 1000000);
        uint64_t time_ns = 0;
        for (int tries = i == -WARM_UP_SHOTS ? TRIES : 1; time_ns == 0; tries--) {
            if (tries == 0)
                errx(1, "%s: no answer to shot %ld within %u s", name, i, (unsigned)(SHOT_NS / SECOND_NS));
            time_ns = play->shoot(++number);
        }
        if (i >= 0)
            printf("%s %ld %llu\n", name, gap_ms, (unsigned long long)time_ns);
    }
}

/* ---- Main ---- */

static int accept_qemu(const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof name.sun_path)
        errx(1, "%s: the name is too long for a socket", path);
    strcpy(name.sun_path, path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&name, sizeof name) < 0 || listen(listener, 1) < 0)
        err(1, "%s", path);
    printf("listening\n");
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0)
        err(1, "%s", path);
    close(listener);
    return connection;
}

/* Returns true if the guest's program has done all that it does before the first shot. */
static bool has_come(void)
{
    return script == NULL || (input_open && output->guest_port != 0) || requests_answered == FIRST_REQUESTS;
}

/* Waits until the guest answers, and until its program has come if it does. */
static void wait_guest(void)
{
    uint64_t end_ns = vhost_user_now_ns() + START_NS, asked_ns = 0, sent_ns;
    struct answer answer;
    while (!guest_known || !has_come()) {
        uint64_t now_ns = vhost_user_now_ns();
        if (now_ns > end_ns)
            errx(1, guest_known ? "no program came to our ports" : "the guest answers no ARP");
        if (turn(&answer))
            serve(&answer);
        else if (!guest_known && vhost_user_is_running(&device) && now_ns - asked_ns > SECOND_NS / 10) {
            send_arp(ARP_OPERATION_REQUEST, (const uint8_t[6]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, &sent_ns);
            asked_ns = now_ns;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 7)
        errx(2, "usage: vhost_probe SOCKET CORE SHOTS GAPS PLAYS [SCRIPT]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_PDEATHSIG, 9); /* ends with the program that started this one */
    if (atoi(argv[2]) >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((unsigned)atoi(argv[2]), &one);
        if (sched_setaffinity(0, sizeof one, &one) < 0)
            err(1, "core %s", argv[2]);
    }
    if (argc == 7 && (script = fopen(argv[6], "r")) == NULL)
        err(1, "%s", argv[6]);
    vhost_user_init(&device, accept_qemu(argv[1]));
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    wait_guest();
    for (char *rest_plays = argv[5], *name; (name = strsep(&rest_plays, ",")) != NULL;) {
        const struct play *play = find_play(name);
        char *gaps = strdup(argv[4]);
        for (char *rest = gaps, *gap; (gap = strsep(&rest, ",")) != NULL;)
            play_one(play, name, atol(gap), atol(argv[3]));
        free(gaps);
    }
    return 0;
}
