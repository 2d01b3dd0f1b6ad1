/* Plays timelines against the stack: build/test/tests/wire/timeline [--arp] FILE... tests/wire/README.md describes the
 * language. Several files are played by a process each, one after the other, and a line "== exit N FILE" follows the
 * output of each. With --arp the stack must ask for its gateway. The answer comes only after a frame waits for it, and
 * the gateway's address changes before each segment and call. The timeline must hold in both cases.
 *
 * Time is virtual, the stack speaks IP through host/library/netdev_ip.h, and the timeline must name every packet sent.
 * Exit 0: all as written; 1: a difference, which is printed; 2: the timeline is not understood. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/library/netdev_ip.h"
#include "net/ip/arp_wire.h"
#include "net/stack_state.h"
#include "net/tcp/sockets.h"
#include "tests/lib/stack_create.h"
#include "tests/wire/igmp.h"

enum {
    PEER_PORT = 8080,
    LISTEN_PORT = 80, /* the default */
    FLOWS_MAX = 4096,
    SENT_MAX = 8192,
    CONNECTIONS_MAX = 4096,
    ANY_RESULT = 1000000000,
};
#define MS UINT64_C(1000000)

static struct {
    struct script script;
    struct net_config config;
    struct net_stack *stack; /* made by the first dated line: policy may be set until then */
    struct netdev_ip device;
    uint64_t begin_ns, now_ns, tolerance_ns;
    uint32_t peer_isn;
    struct wire_base flows[FLOWS_MAX];
    uint32_t flow_count;
    struct {
        uint64_t at_ns;
        uint16_t bytes;
        uint8_t data[WIRE_PACKET_BYTES_MAX];
    } sent[SENT_MAX];
    uint32_t sent_head, sent_tail;
    int connections[CONNECTIONS_MAX], connection_count, connection, listener;
    uint64_t read_bytes[CONNECTIONS_MAX], written_bytes[CONNECTIONS_MAX];
    int current; /* index of `connection` among those opened */
    bool with_arp, gateway_known;
    uint8_t gateway_mac[NETDEV_MAC_BYTES]; /* the destination that every frame must have */
    uint32_t arp_requests;
} t;

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    printf("%s:%zu: assertion failed: %s:%d: %s\n", t.script.path, t.script.line + 1, file, line, condition);
    fflush(stdout);
    abort();
}

/* ---- Differences ---- */

static double seconds(uint64_t ns) { return (double)(ns - t.begin_ns) / 1e9; }

static _Noreturn void failed(const char *field, const char *expected, const char *actual)
{
    printf("%s:%zu: %s\n  expected: %s\n  actual:   %s\n", t.script.path, t.script.line + 1, field, expected, actual);
    exit(1);
}

static void check_number(const char *field, int64_t expected, int64_t actual)
{
    char text[2][40];
    if (expected == actual)
        return;
    snprintf(text[0], sizeof text[0], "%lld", (long long)expected);
    snprintf(text[1], sizeof text[1], "%lld", (long long)actual);
    failed(field, text[0], text[1]);
}

static void check_range(const char *field, int64_t low, int64_t high, int64_t actual)
{
    char text[2][60];
    if (low <= actual && actual <= high)
        return;
    snprintf(text[0], sizeof text[0], "%lld..%lld", (long long)low, (long long)high);
    snprintf(text[1], sizeof text[1], "%lld", (long long)actual);
    failed(field, text[0], text[1]);
}

/* ---- The stack and its time ---- */

static void stack_make(void)
{
    const char *why = "";
    t.begin_ns = t.now_ns = UINT64_C(1000000000000);
    t.config.device = &t.device.device;
    netdev_ip_init(&t.device, 1500);
    t.device.device.point_to_point = !t.with_arp;
    t.stack = stack_create(&t.config, t.now_ns, &why);
    if (t.stack == NULL)
        script_fault(&t.script, why);
}

static void gateway_replies(void)
{
    struct arp_wire arp = { .hardware_bytes = NETDEV_MAC_BYTES, .protocol_bytes = 4 };
    store_be16(&arp.hardware_type, ARP_HARDWARE_ETHERNET);
    store_be16(&arp.protocol_type, ETHERNET_TYPE_IPV4);
    store_be16(&arp.operation, ARP_OPERATION_REPLY);
    memcpy(arp.sender_mac, t.gateway_mac, NETDEV_MAC_BYTES);
    store_be32(&arp.sender_address, t.config.gateway);
    store_be32(&arp.target_address, WIRE_STACK_ADDRESS);
    net_input_arp(t.stack, (const uint8_t *)&arp, sizeof arp, t.now_ns);
    t.gateway_known = true;
    t.arp_requests = 0;
    net_stack_check(t.stack);
}

/* Answers the stack's ARP requests as soon as a frame waits for an answer; without such a frame, the second request. */
static void gateway_answers(void)
{
    bool asked = t.arp_requests > (t.gateway_known ? 0 : 1);
    if (t.with_arp && (asked || t.stack->ip.arp.held_count != 0))
        gateway_replies();
}

static void gateway_moves(void)
{
    if (!t.gateway_known)
        return;
    t.gateway_mac[NETDEV_MAC_BYTES - 1] ^= 1;
    for (uint32_t i = 0; i < t.stack->ip.arp.entry_count; i++) /* the old address was asked and did not answer */
        if (t.stack->ip.arp.entries[i].state == ARP_KNOWN)
            t.stack->ip.arp.entries[i].request_count = ARP_REQUEST_COUNT_MAX;
    gateway_replies();
}

/* Returns the Ethernet destination that a packet must have. */
static const uint8_t *destination_mac(const uint8_t *packet)
{
    static uint8_t group[NETDEV_MAC_BYTES] = { 0x01, 0x00, 0x5e };
    if (packet[16] >> 4 != 0xe)
        return t.gateway_mac;
    group[3] = packet[17] & 0x7f;
    group[4] = packet[18];
    group[5] = packet[19];
    return group;
}

static void collect(void)
{
    const uint8_t *packet;
    for (size_t bytes; (bytes = netdev_ip_pop(&t.device, &packet)) != 0;) {
        if (t.with_arp && load_be16(packet) == ARP_HARDWARE_ETHERNET) {
            t.arp_requests++;
            continue;
        }
        if (memcmp(packet - sizeof(struct ethernet_wire), destination_mac(packet), NETDEV_MAC_BYTES) != 0)
            failed("Ethernet destination", "the gateway's, or the group's", "another");
        if (t.sent_head == t.sent_tail)
            t.sent_head = t.sent_tail = 0;
        ASSERT(t.sent_tail < SENT_MAX && bytes <= WIRE_PACKET_BYTES_MAX);
        t.sent[t.sent_tail].at_ns = t.now_ns;
        t.sent[t.sent_tail].bytes = (uint16_t)bytes;
        memcpy(t.sent[t.sent_tail++].data, packet, bytes);
    }
}

static void idle_and_collect(void)
{
    net_stack_check(t.stack);
    net_idle(t.stack, t.now_ns);
    net_stack_check(t.stack);
    collect();
    gateway_answers();
    collect();
}

/* Lets time pass, to `until_ns` or to the first thing sent. */
static void run(uint64_t until_ns, bool until_sent)
{
    if (until_ns < t.now_ns)
        until_ns = t.now_ns;
    for (uint32_t turns = 0;; turns++) {
        if (until_sent && t.sent_head != t.sent_tail)
            return;
        uint64_t deadline_ns = net_next_deadline_ns(t.stack);
        if (deadline_ns > until_ns)
            break;
        if (deadline_ns > t.now_ns) {
            t.now_ns = deadline_ns;
            turns = 0;
        }
        if (turns > 1000)
            failed("timers", "that time moves on", "a timer that is due again at once, for ever");
        idle_and_collect();
    }
    t.now_ns = until_ns;
    idle_and_collect();
}

static struct wire_base *flow_of(uint16_t peer_port)
{
    for (uint32_t i = 0; i < t.flow_count; i++)
        if (t.flows[i].peer_port == peer_port)
            return &t.flows[i];
    ASSERT(t.flow_count < FLOWS_MAX);
    struct wire_base *flow = &t.flows[t.flow_count++];
    *flow = (struct wire_base){
        .peer_port = peer_port, .port = LISTEN_PORT, .peer_isn = t.peer_isn, .cuttable_id = -1
    };
    return flow;
}

/* Reads the oldest packet sent, an IGMP message, as text. */
static void igmp_take(char *text, size_t text_bytes)
{
    const char *fault = igmp_packet_text(t.sent[t.sent_head].data, t.sent[t.sent_head].bytes, WIRE_STACK_ADDRESS, text,
                                         text_bytes);
    t.sent_head++;
    if (fault != NULL)
        failed(fault, "a well-formed message", text);
}

/* Reads the oldest packet sent. */
static void sent_take(struct wire_segment *segment, char *text, size_t text_bytes)
{
    const uint8_t *data = t.sent[t.sent_head].data;
    uint32_t bytes = t.sent[t.sent_head].bytes;
    if (data[9] == IPV4_PROTOCOL_IGMP) {
        igmp_take(text, text_bytes);
        failed("protocol", "a segment", text);
    }
    struct wire_base *flow = flow_of(wire_segment_peer_port(data, bytes));
    const char *fault = wire_segment_read(segment, flow, data, bytes);
    int at = snprintf(text, text_bytes, "%.6f > ", seconds(t.sent[t.sent_head].at_ns));
    wire_segment_print(segment, text + at, text_bytes - (size_t)at);
    t.sent_head++;
    if (fault != NULL)
        failed(fault, "a well-formed packet", text);
}

static void nothing_sent(void)
{
    struct wire_segment segment;
    char text[600];
    if (t.sent_head == t.sent_tail)
        return;
    if (t.sent[t.sent_head].data[9] == IPV4_PROTOCOL_IGMP)
        igmp_take(text, sizeof text);
    else
        sent_take(&segment, text, sizeof text);
    failed("sent", "nothing more before this line", text);
}

/* ---- Segments ---- */

static void segment_to_stack(void)
{
    static uint8_t packet[70000];
    struct wire_segment segment;
    script_segment(&t.script, &segment);
    if (segment.peer_port == 0)
        segment.peer_port = PEER_PORT;
    struct wire_base *flow = flow_of(segment.peer_port);
    if (segment.port == 0)
        segment.port = flow->port;
    else
        flow->port = segment.port;
    size_t bytes = wire_segment_write(&segment, flow, packet);
    gateway_moves();
    ASSERT(netdev_ip_push(&t.device, packet, bytes));
    if (segment.queued)
        return; /* the stack reads this segment together with the next */
    while (net_input(t.stack, t.now_ns) == NET_INPUT_FRAMES_MAX) {
    }
    idle_and_collect();
}

static void segment_from_stack(uint64_t at_ns)
{
    struct wire_segment expected, actual;
    char values[2][200], wanted[600], got[600];
    script_segment(&t.script, &expected);
    run(at_ns + t.tolerance_ns, true);
    int at = snprintf(wanted, sizeof wanted, "%.6f > ", seconds(at_ns));
    wire_segment_print(&expected, wanted + at, sizeof wanted - (size_t)at);
    if (t.sent_head == t.sent_tail)
        failed("sent", wanted, "nothing");
    uint64_t sent_ns = t.sent[t.sent_head].at_ns;
    sent_take(&actual, got, sizeof got);
    const char *field = wire_segment_compare(&expected, &actual, values);
    if (field == NULL && (sent_ns + t.tolerance_ns < at_ns || sent_ns > at_ns + t.tolerance_ns)) {
        field = "time";
        snprintf(values[0], sizeof values[0], "%.6f", seconds(at_ns));
        snprintf(values[1], sizeof values[1], "%.6f", seconds(sent_ns));
    }
    if (field == NULL)
        return;
    printf("%s:%zu: field %s: expected %s, actual %s\n  expected packet: %s\n  actual packet:   %s\n", t.script.path,
           t.script.line + 1, field, values[0], values[1], wanted, got);
    exit(1);
}

/* Plays `< igmp ...`. */
static void igmp_to_stack(void)
{
    uint8_t packet[IGMP_PACKET_BYTES_MAX];
    struct igmp_packet message;
    wire_igmp_read(&t.script, &message);
    ASSERT(netdev_ip_push(&t.device, packet, igmp_packet_write(&message, packet)));
    net_input(t.stack, t.now_ns);
    idle_and_collect();
}

/* Plays `> igmp [within SECONDS] TEXT`. With `within` the message must come in that time, and not at once. */
static void igmp_from_stack(uint64_t at_ns)
{
    char wanted[400], got[400];
    uint64_t within_ns = script_take(&t.script, "within") ? script_seconds_ns(&t.script) : 0;
    wire_igmp_text(&t.script, wanted, sizeof wanted);
    run(at_ns + (within_ns != 0 ? within_ns : t.tolerance_ns), true);
    if (t.sent_head == t.sent_tail)
        failed("sent", wanted, "nothing");
    uint64_t sent_ns = t.sent[t.sent_head].at_ns;
    igmp_take(got, sizeof got);
    if (strcmp(wanted, got) != 0)
        failed("message", wanted, got);
    if (within_ns != 0)
        check_range("time in ns", (int64_t)at_ns + 1, (int64_t)(at_ns + within_ns), (int64_t)sent_ns);
    else
        check_range("time in ns", (int64_t)(at_ns - t.tolerance_ns), (int64_t)(at_ns + t.tolerance_ns),
                    (int64_t)sent_ns);
}

/* Plays `sent FLAGS LOW..HIGH`: checks how many packets with all these flags were sent until now. `-`: any flags. */
static void sent_count(void)
{
    char flags[16], text[600];
    struct wire_segment segment;
    int64_t count = 0;
    script_word(&t.script, flags, sizeof flags);
    int64_t low = script_number(&t.script), high = script_take(&t.script, "..") ? script_number(&t.script) : low;
    for (; t.sent_head != t.sent_tail; count++) {
        char words[2][16];
        sent_take(&segment, text, sizeof text);
        if (strcmp(flags, "-") == 0)
            continue;
        sscanf(text, "%*s %*s %15s", words[0]);
        if (strcmp(words[0], flags) != 0)
            failed("flags", flags, text);
    }
    check_range("packets sent", low, high, count);
}

/* ---- Calls ---- */

static void line_play(void);

static const struct {
    const char *name;
    int result;
} results[] = {
    { "OK", TCP_OK },
    { "END", 0 },
    { "AGAIN", TCP_AGAIN },
    { "INVALID", TCP_INVALID },
    { "IN_USE", TCP_IN_USE },
    { "NO_ROOM", TCP_NO_ROOM },
    { "NO_ROUTE", TCP_NO_ROUTE },
    { "NOT_CONNECTED", TCP_NOT_CONNECTED },
    { "PIPE", TCP_PIPE },
    { "REFUSED", TCP_REFUSED },
    { "RESET", TCP_RESET },
    { "TIMED_OUT", TCP_TIMED_OUT },
    { "UNREACHABLE", TCP_UNREACHABLE },
    { "ABORTED", TCP_ABORTED },
};

static int64_t result_parse(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(results); i++)
        if (script_take(&t.script, results[i].name))
            return results[i].result;
    return script_number(&t.script);
}

/* Checks a call's result against `= RESULT`, or against the usual result. */
static void check_result(const char *call, int64_t usual, int64_t actual)
{
    int64_t expected = script_take(&t.script, "=") ? result_parse() : usual;
    if (expected == ANY_RESULT)
        expected = actual >= 0 ? actual : 0;
    check_number(call, expected, actual);
}

static void connection_opened(int connection)
{
    if (connection < 0)
        return;
    ASSERT(t.connection_count < CONNECTIONS_MAX);
    t.current = t.connection_count++;
    t.connections[t.current] = t.connection = connection;
}

/* Plays `connect [to PORT] [from PORT] [address N] [= RESULT]`. */
static void call_connect(void)
{
    uint16_t port = PEER_PORT, from_port = 0;
    uint32_t address = WIRE_PEER_ADDRESS;
    if (script_take(&t.script, "to"))
        port = (uint16_t)script_number(&t.script);
    if (script_take(&t.script, "from"))
        from_port = (uint16_t)script_number(&t.script);
    if (script_take(&t.script, "address"))
        address = (uint32_t)script_number(&t.script);
    int connection = tcp_connect(t.stack, address, port, from_port, NULL, t.now_ns);
    connection_opened(connection);
    check_result("connect", ANY_RESULT, connection);
}

static void call_read(bool peek)
{
    static uint8_t out[1 << 20];
    int64_t wanted = script_number(&t.script);
    int64_t count = tcp_read(t.stack, t.connection, out, (size_t)wanted, peek, t.now_ns);
    bool any = script_take(&t.script, "any");
    check_result("read", wanted, count);
    for (int64_t k = 0; !any && k < count; k++) {
        uint8_t expected = wire_stream_byte(WIRE_TO_STACK, (uint32_t)(1 + t.read_bytes[t.current] + (uint64_t)k));
        if (out[k] != expected)
            check_number("read: a byte of the stream", expected, out[k]);
    }
    if (!peek && count > 0)
        t.read_bytes[t.current] += (uint64_t)count;
}

static void call_write(void)
{
    static uint8_t data[1 << 20];
    int64_t wanted = script_number(&t.script);
    for (int64_t k = 0; k < wanted; k++)
        data[k] = wire_stream_byte(WIRE_FROM_STACK, (uint32_t)(1 + t.written_bytes[t.current] + (uint64_t)k));
    int64_t count = tcp_write(t.stack, t.connection, data, (size_t)wanted, t.now_ns);
    if (count > 0)
        t.written_bytes[t.current] += (uint64_t)count;
    check_result("write", wanted, count);
}

static void call_state(void)
{
    char name[32];
    script_word(&t.script, name, sizeof name);
    const char *actual = tcp_state_name(tcp_state(t.stack, t.connection));
    if (strcmp(name, actual) != 0)
        failed("state", name, actual);
}

/* Plays `info FIELD LOW[..HIGH]`. */
static void call_info(void)
{
    struct tcp_info info;
    char name[32];
    if (!tcp_info(t.stack, t.connection, &info))
        failed("info", "a connection", "none");
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {
        { "cwnd", info.cwnd_bytes },
        { "ssthresh", info.ssthresh_bytes },
        { "rto_us", info.rto_us },
        { "srtt_us", info.srtt_us },
        { "rttvar_us", info.rttvar_us },
        { "snd_mss", info.snd_mss },
        { "snd_wnd", info.snd_wnd },
        { "rcv_wnd", info.rcv_wnd },
        { "snd_scale", info.snd_scale },
        { "rcv_scale", info.rcv_scale },
        { "path_mtu", info.path_mtu_bytes },
        { "in_flight", info.in_flight_bytes },
        { "unacked", info.unacked_bytes },
        { "sacked", info.sacked_bytes },
        { "lost", info.lost_bytes },
        { "unread", info.unread_bytes },
        { "in_recovery", info.in_recovery },
        { "sack", info.sack },
        { "timestamps", info.timestamps },
        { "scaling", info.window_scaling },
        { "retransmits", (int64_t)info.retransmits_total },
    };
    script_word(&t.script, name, sizeof name);
    int64_t low = script_number(&t.script), high = script_take(&t.script, "..") ? script_number(&t.script) : low;
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++)
        if (strcmp(fields[i].name, name) == 0) {
            check_range(name, low, high, fields[i].value);
            return;
        }
    script_fault(&t.script, "no such field of tcp_info");
}

/* Plays `counter MODULE_NAME LOW[..HIGH]`. */
static void call_counter(void)
{
    char name[64];
    script_word(&t.script, name, sizeof name);
    int64_t low = script_number(&t.script), high = script_take(&t.script, "..") ? script_number(&t.script) : low;
    for (size_t module = 0; module < NET_GROUP_COUNT; module++) {
        const struct counter_group group = net_counter_group(&t.stack->ip.counters, module);
        const size_t bytes = strlen(group.prefix);
        for (size_t i = 0; strncmp(name, group.prefix, bytes - 1) == 0 && i < group.count; i++)
            if (strcmp(name + bytes, group.counters[i].name) == 0) {
                check_range(name, low, high, (int64_t)group.values[i]);
                return;
            }
    }
    script_fault(&t.script, "no such counter");
}

static void call_poll(void)
{
    static const char *const names[] = { "READ", "WRITE", "ENDED", "HUNG_UP", "ERROR" };
    uint32_t expected = 0;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t bit = 0; bit < ARRAY_COUNT(names); bit++)
            if (script_take(&t.script, names[bit])) {
                expected |= 1u << bit;
                more = true;
            }
    }
    check_number("poll bits", expected, tcp_poll_bits(t.stack, t.connection));
}

static void call_listen(void)
{
    uint16_t port = script_at_end(&t.script) ? LISTEN_PORT : (uint16_t)script_number(&t.script);
    uint32_t backlog = script_at_end(&t.script) ? 16 : (uint32_t)script_number(&t.script);
    t.listener = tcp_listen(t.stack, port, backlog, NULL);
    check_result("listen", ANY_RESULT, t.listener);
}

static void call_accept(void)
{
    int connection = tcp_accept(t.stack, t.listener);
    connection_opened(connection);
    check_result("accept", ANY_RESULT, connection);
}

/* Plays one of the two openings that most timelines begin with. The rest of the line belongs to the peer's SYN. */
static void call_open(bool passive)
{
    static const char *const active_lines[] = {
        "+0 connect",          "+0 > S 0:0(0) <...>",  "+0.010 < S. 0:0(0) ack 1 %s",
        "+0 > . 1:1(0) ack 1", "+0 state ESTABLISHED",
    };
    static const char *const passive_lines[] = {
        "+0 listen", "+0 < S 0:0(0) %s",     "+0 > S. 0:0(0) ack 1 <...>", "+0.010 < . 1:1(0) ack 1 %s",
        "+0 accept", "+0 state ESTABLISHED",
    };
    const char *const *lines = passive ? passive_lines : active_lines;
    size_t count = passive ? ARRAY_COUNT(passive_lines) : ARRAY_COUNT(active_lines);
    char rest[400], line[500];
    snprintf(rest, sizeof rest, "%s", t.script.at);
    for (size_t k = 0; k < count; k++) {
        char *options = strchr(rest, '<');
        if (passive && k == 3 && options != NULL)
            *options = 0; /* the options are the SYN's only, and stand last */
        const char *insert = strstr(lines[k], "%s");
        snprintf(line, sizeof line, "%.*s%s", (int)strcspn(lines[k], "%"), lines[k], insert != NULL ? rest : "");
        t.script.at = line;
        line_play();
    }
    t.script.at = "";
}

static void call(void)
{
    struct script *s = &t.script;
    gateway_moves();
    if (script_take(s, "open"))
        call_open(false);
    else if (script_take(s, "serve"))
        call_open(true);
    else if (script_take(s, "connect"))
        call_connect();
    else if (script_take(s, "listen"))
        call_listen();
    else if (script_take(s, "accept"))
        call_accept();
    else if (script_take(s, "unlisten"))
        tcp_unlisten(t.stack, t.listener, t.now_ns);
    else if (script_take(s, "read"))
        call_read(false);
    else if (script_take(s, "peek"))
        call_read(true);
    else if (script_take(s, "write"))
        call_write();
    else if (script_take(s, "shutdown"))
        check_result("shutdown", TCP_OK, tcp_shutdown(t.stack, t.connection, t.now_ns));
    else if (script_take(s, "close"))
        tcp_close(t.stack, t.connection, t.now_ns);
    else if (script_take(s, "abort"))
        tcp_abort(t.stack, t.connection, t.now_ns);
    else if (script_take(s, "state"))
        call_state();
    else if (script_take(s, "info"))
        call_info();
    else if (script_take(s, "counter"))
        call_counter();
    else if (script_take(s, "poll"))
        call_poll();
    else if (script_take(s, "error"))
        check_number("error", result_parse(), tcp_take_error(t.stack, t.connection));
    else if (script_take(s, "soft_error"))
        check_number("soft error", result_parse(), tcp_take_soft_error(t.stack, t.connection));
    else if (script_take(s, "nodelay"))
        tcp_set_nodelay(t.stack, t.connection, script_number(s) != 0, t.now_ns);
    else if (script_take(s, "keepalive"))
        tcp_set_keepalive(t.stack, t.connection, script_number(s) != 0, t.now_ns);
    else if (script_take(s, "receive_buffer"))
        tcp_set_receive_buffer(t.stack, t.connection, (uint32_t)script_number(s));
    else if (script_take(s, "sent"))
        sent_count();
    else if (script_take(s, "peer_isn"))
        t.peer_isn = (uint32_t)script_number(s);
    else if (script_take(s, "join"))
        check_result("join", true, igmp_join(&t.stack->ip, wire_igmp_address(s)));
    else if (script_take(s, "leave"))
        igmp_leave(&t.stack->ip, wire_igmp_address(s));
    else if (script_take(s, "quiet")) {
    } /* only time passes */
    else if (script_take(s, "forget"))
        t.flow_count = 0;
    else if (script_take(s, "on"))
        t.connection = t.connections[t.current = (int)script_number(s)];
    else
        script_fault(s, "an unknown call");
    if (!script_at_end(s))
        script_fault(s, "too many words");
    idle_and_collect();
}

/* ---- Lines ---- */

/* Reads `policy NAME=VALUE ...` or `capacity NAME=VALUE ...`. */
static void settings(bool capacity)
{
#define POLICY(name)                                                                                                   \
    {                                                                                                                  \
#name, &t.config.policy.name, sizeof t.config.policy.name                                                      \
    }
#define CAPACITY(name)                                                                                                 \
    {                                                                                                                  \
#name, &t.config.capacity.name, sizeof t.config.capacity.name                                                  \
    }
    const struct {
        const char *name;
        void *at;
        size_t bytes;
    } fields[] = {
        POLICY(ack),
        POLICY(congestion),
        POLICY(ack_delay_us),
        POLICY(rto_initial_us),
        POLICY(rto_min_us),
        POLICY(rto_max_us),
        POLICY(tlp_ack_delay_us),
        POLICY(initial_window_segments),
        POLICY(slow_start_ack_segments),
        POLICY(receive_buffer_bytes),
        POLICY(send_buffer_bytes),
        POLICY(window_scale),
        POLICY(window_scaling),
        POLICY(timestamps),
        POLICY(ecn),
        POLICY(slow_start_after_idle),
        POLICY(sack),
        POLICY(tail_probe),
        POLICY(nodelay),
        POLICY(keepalive),
        POLICY(path_mtu),
        POLICY(mss),
        POLICY(syn_soft_errors),
        POLICY(user_timeout),
        POLICY(syn_give_up_us),
        POLICY(data_give_up_us),
        POLICY(time_wait_us),
        POLICY(fin_wait_2_us),
        POLICY(keepalive_idle_us),
        POLICY(keepalive_interval_us),
        POLICY(keepalive_count),
        CAPACITY(connection_count),
        CAPACITY(half_open_count),
        CAPACITY(time_wait_count),
        CAPACITY(segment_count),
    };
    if (t.stack != NULL)
        script_fault(&t.script, "settings come before the first dated line");
    while (!script_at_end(&t.script)) {
        char name[40];
        size_t i = 0;
        script_word(&t.script, name, sizeof name);
        while (i < ARRAY_COUNT(fields) && strcmp(fields[i].name, name) != 0)
            i++;
        if (i == ARRAY_COUNT(fields) || !script_take(&t.script, "="))
            script_fault(&t.script, capacity ? "no such capacity" : "no such policy");
        int64_t value = script_number(&t.script);
        memcpy(fields[i].at, &value, fields[i].bytes); /* little-endian */
    }
}

static void line_play(void)
{
    struct script *s = &t.script;
    if (script_at_end(s))
        return;
    if (script_take(s, "policy")) {
        settings(false);
        return;
    }
    if (script_take(s, "capacity")) {
        settings(true);
        return;
    }
    if (script_take(s, "tolerance")) {
        t.tolerance_ns = script_seconds_ns(s);
        return;
    }
    if (t.stack == NULL)
        stack_make();
    bool relative = script_take(s, "+");
    uint64_t at_ns = (relative ? t.now_ns : t.begin_ns) + script_seconds_ns(s);
    if (script_take(s, ">")) {
        if (script_take(s, "igmp"))
            igmp_from_stack(at_ns);
        else
            segment_from_stack(at_ns);
        return;
    }
    if (at_ns > t.now_ns) {
        nothing_sent();
        run(at_ns, false);
    }
    bool counts = strncmp(s->at + strspn(s->at, " "), "sent", 4) == 0;
    if (!counts)
        nothing_sent();
    if (!script_take(s, "<"))
        call();
    else if (script_take(s, "igmp"))
        igmp_to_stack();
    else
        segment_to_stack();
}

/* Checks that the connections of the timeline have left no state and no buffer. */
static void end_check(void)
{
    nothing_sent();
    for (int i = 0; i < t.connection_count; i++)
        tcp_abort(t.stack, t.connections[i], t.now_ns);
    if (t.listener >= 0)
        tcp_unlisten(t.stack, t.listener, t.now_ns);
    idle_and_collect();
    t.now_ns += UINT64_C(400000000000); /* beyond every TIME-WAIT, FIN-WAIT-2 and reassembly */
    idle_and_collect();
    check_number("transmit buffers back, of", NETDEV_IP_BUFFER_COUNT, t.device.free_count + t.stack->ip.arp.held_count);
    check_number("TIME-WAIT left", 0, t.stack->tcp.time_wait_used);
    check_number("half-open left", 0, t.stack->tcp.half_open_used);
    free(t.stack);
}

static void play(const char *path)
{
    size_t loop_line = 0;
    int64_t loop_count = 0;
    t.tolerance_ns = MS;
    t.listener = -1;
    t.peer_isn = 3000000000; /* wraps past 2^31 early; timelines about wrapping set their own */
    t.config = (struct net_config){
        .capacity = { .connection_count = 2, /* few: most of a timeline's time goes into clearing their buffers */
                      .listener_count = 4,
                      .half_open_count = 16,
                      .time_wait_count = 64,
                      .segment_count = 256,
                      .receive_bytes = 1 << 18,
                      .send_bytes = 1 << 18 },
        .address = WIRE_STACK_ADDRESS,
        .mask = 0xffffffff,
        .gateway = 0x0a0000fe,
    };
    memcpy(t.gateway_mac, (uint8_t[]){ 2, 0, 0, 0, 0, 2 }, sizeof t.gateway_mac);
    if (!t.with_arp)
        memcpy(t.config.gateway_mac, t.gateway_mac, sizeof t.gateway_mac);
    memset(t.config.secret, 7, sizeof t.config.secret);
    tcp_policy_default(&t.config.policy);
    t.config.policy.ecn = false; /* the timelines of ecn/ turn it on */
    script_open(&t.script, path);
    for (size_t line = 0; line < t.script.line_count; line++) {
        script_go(&t.script, line);
        if (script_take(&t.script, "repeat")) { /* repeat N ... end, with `i` from 0 */
            loop_count = script_number(&t.script);
            loop_line = line;
            t.script.i = 0;
        } else if (script_take(&t.script, "end")) {
            if (++t.script.i < loop_count)
                line = loop_line;
        } else {
            line_play();
        }
    }
    end_check();
}

/* Returns the exit status of a process that plays the file; -1 if a signal ended it. */
static int play_apart(const char *path)
{
    fflush(stdout);
    pid_t child = fork();
    ASSERT(child >= 0);
    if (child == 0) {
        play(path);
        exit(0);
    }
    int status;
    pid_t ended = waitpid(child, &status, 0);
    ASSERT(ended == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argument_count, char **arguments)
{
    t.with_arp = argument_count > 1 && strcmp(arguments[1], "--arp") == 0;
    char **paths = arguments + 1 + t.with_arp, **end = arguments + argument_count;
    if (end - paths == 0)
        return 2;
    if (end - paths == 1) {
        play(*paths);
        return 0;
    }
    int worst = 0;
    for (; paths < end; paths++) {
        int status = play_apart(*paths);
        printf("== exit %d %s\n", status, *paths);
        worst = status != 0 ? 1 : worst;
    }
    return worst;
}
