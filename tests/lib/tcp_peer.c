/* See tcp_peer.h. */
#include "tests/lib/tcp_peer.h"
#include "tests/lib/packet.h"

#include "net/stack_state.h"
#include "tests/lib/stack_create.h"
#include "tests/lib/test.h"

uint8_t peer_pattern(uint32_t seq) { return (uint8_t)(seq * 37 + (seq >> 8)); }
uint8_t peer_stack_pattern(uint32_t seq) { return (uint8_t)(seq * 29 + (seq >> 7)); }

/* ---- Printing ---- */

static const char *flags_text(uint8_t flags)
{
    static char text[8];
    char *at = text;
    for (size_t i = 0; i < 6; i++)
        if (flags & (1 << i))
            *at++ = "FSRP.U"[i];
    *at = '\0';
    return text;
}

static void fail_at(const char *file, int line, const char *form, ...)
{
    va_list list;
    va_start(list, form);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, form, list);
    fprintf(stderr, "\n");
    va_end(list);
    _fail(file, line);
}

static void print_seen(const struct peer *p, const struct seen *s)
{
    fprintf(stderr, "    at %.6f s: %s %u:%u ack %u win %u%s", (double)(s->at_ns - p->begin_ns) / 1e9,
            flags_text(s->flags), s->seq, s->seq + s->bytes, s->ack, s->window, s->sack_count ? " sack" : "");
    for (uint32_t i = 0; i < s->sack_count; i++)
        fprintf(stderr, " %u:%u", s->sack[i].left, s->sack[i].right);
    fprintf(stderr, "\n");
}

/* ---- The stack ---- */

void peer_begin_with(struct peer *p, const struct tcp_policy *policy, uint32_t mask, bool arp)
{
    memset(p, 0, sizeof *p);
    struct net_config config = {
        .capacity = {
            .connection_count = PEER_CONNECTION_COUNT, .listener_count = 4, .half_open_count = 16,
            .time_wait_count = 32, .segment_count = 128, .receive_bytes = 65536, .send_bytes = 65536,
        },
        .device = &p->device.device,
        .address = PEER_STACK_ADDRESS,
        .mask = mask,
        .gateway = PEER_GATEWAY,
    };
    memcpy(p->gateway_mac, (uint8_t[]){ 2, 0, 0, 0, 0, 2 }, sizeof p->gateway_mac);
    if (!arp)
        memcpy(config.gateway_mac, p->gateway_mac, sizeof config.gateway_mac);
    for (int i = 0; i < 32; i++)
        config.secret[i] = (uint8_t)(i * 5 + 3);
    if (policy != NULL)
        config.policy = *policy;
    else
        tcp_policy_default(&config.policy);
    netdev_ip_init(&p->device, 1500);
    p->device.device.point_to_point = !arp;
    p->now_ns = p->begin_ns = 5000 * S;
    p->id = p->listener = -1;
    p->window = 65535;
    p->timestamp = 700000;
    p->peer_port = PEER_PORT;
    p->stack = stack_create(&config, p->now_ns, NULL);
    assert_non_null(p->stack);
}

void peer_begin(struct peer *p, const struct tcp_policy *policy) { peer_begin_with(p, policy, 0xffffffff, false); }

void peer_end(struct peer *p)
{
    const struct tcp *tcp = &p->stack->tcp;
    for (uint32_t i = 0; i < tcp->connection_end; i++)
        if (tcp->connections[i].used && tcp->connections[i].listener < 0 && !tcp->connections[i].orphan)
            tcp_abort(p->stack, (int)i, p->now_ns);
    if (p->listener >= 0)
        tcp_unlisten(p->stack, p->listener, p->now_ns);
    peer_pass(p, 400 * S);
    peer_drain(p);
    assert_int_equal(tcp->connection_end, 0);
    assert_int_equal(tcp->half_open_used, 0);
    assert_int_equal(tcp->time_wait_used, 0);
    assert_int_equal(p->device.free_count + p->stack->ip.arp.held_count, NETDEV_IP_BUFFER_COUNT);
    assert_int_equal(p->device.borrowed_count, 0);
    free(p->stack);
}

static void seen_options(const struct peer *p, struct seen *s, const uint8_t *at, uint32_t bytes)
{
    memcpy(s->options, at, bytes);
    s->option_bytes = bytes;
    s->scale = -1;
    for (uint32_t i = 0; i < bytes && at[i] != 0; i += at[i] == 1 ? 1 : at[i + 1]) {
        if (at[i] == 1)
            continue;
        assert_in_range(at[i + 1], 2, bytes - i);
        if (at[i] == TCP_OPTION_MSS)
            s->mss = load_be16(at + i + 2);
        if (at[i] == TCP_OPTION_WINDOW_SCALE)
            s->scale = at[i + 2];
        if (at[i] == TCP_OPTION_SACK_PERMITTED)
            s->sack_permitted = true;
        if (at[i] == TCP_OPTION_TIMESTAMPS) {
            s->timestamps = true;
            s->timestamp = load_be32(at + i + 2);
            s->timestamp_echo = load_be32(at + i + 6);
        }
        if (at[i] == TCP_OPTION_SACK)
            for (uint32_t k = i + 2; k < i + at[i + 1]; k += 8) {
                s->sack[s->sack_count].left = load_be32(at + k) - PEER_ISS;
                s->sack[s->sack_count++].right = load_be32(at + k + 4) - PEER_ISS;
            }
    }
    (void)p;
}

/* Takes the segments that the stack has sent. Each must be well formed: lengths, checksums, reserved bits. */
static void collect(struct peer *p)
{
    const uint8_t *packet;
    for (size_t bytes; (bytes = netdev_ip_pop(&p->device, &packet)) != 0;) {
        const struct ipv4_wire *ip = (const struct ipv4_wire *)packet;
        if (packet[0] != 0x45)
            continue; /* ARP */
        assert_memory_equal(packet - sizeof(struct ethernet_wire), p->gateway_mac, sizeof p->gateway_mac);
        assert_int_equal(load_be16(&ip->total_bytes), bytes);
        assert_int_equal(checksum_finish(checksum_sum(0, ip, 20)), 0);
        if (ip->protocol != IPV4_PROTOCOL_TCP)
            continue;
        const struct tcp_wire *tcp = (const struct tcp_wire *)(ip + 1);
        uint32_t tcp_bytes = (uint32_t)bytes - 20, header_bytes = (uint32_t)(tcp->offset >> 4) * 4;
        uint32_t sum = checksum_pseudo_ipv4(load_be32(&ip->source), load_be32(&ip->destination), 6,
                                            (uint16_t)tcp_bytes);
        assert_int_equal(checksum_finish(checksum_sum(sum, tcp, tcp_bytes)), 0);
        assert_int_equal(tcp->offset & 0xf, 0);
        uint8_t ecn_flags = tcp->flags & (TCP_ECE | TCP_CWR); /* the peer does not take the offer of a SYN */
        assert_true(ecn_flags == 0 || (tcp->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN);
        assert_int_equal(load_be16(&tcp->urgent), 0);
        assert_in_range(header_bytes, 20, tcp_bytes);
        if ((tcp->flags & TCP_SYN) != 0) {
            p->stack_iss = load_be32(&tcp->seq);
            p->stack_port = load_be16(&tcp->source_port);
        }
        assert_true(p->queue_count < ARRAY_COUNT(p->queue));
        struct seen *s = &p->queue[(p->queue_first + p->queue_count++) % ARRAY_COUNT(p->queue)];
        *s = (struct seen){
            .at_ns = p->now_ns,
            .seq = load_be32(&tcp->seq) - p->stack_iss,
            .ack = load_be32(&tcp->ack) - PEER_ISS,
            .flags = tcp->flags & (uint8_t)~ecn_flags,
            .window = load_be16(&tcp->window),
            .bytes = tcp_bytes - header_bytes,
            .dont_fragment = (load_be16(&ip->flags_offset) & IPV4_DONT_FRAGMENT) != 0,
            .port = load_be16(&tcp->source_port),
            .peer_port = load_be16(&tcp->destination_port),
        };
        memcpy(s->data, (const uint8_t *)tcp + header_bytes, s->bytes);
        seen_options(p, s, (const uint8_t *)(tcp + 1), header_bytes - 20);
        for (uint32_t i = 0; i < s->bytes && !p->payload_any; i++)
            if (s->data[i] != peer_stack_pattern(s->seq + i))
                fail_at(__FILE__, __LINE__, "payload byte %u is wrong", s->seq + i);
        if (s->timestamps)
            p->timestamp_echo = s->timestamp;
    }
}

void peer_step(struct peer *p)
{
    net_stack_check(p->stack); /* after the test's own calls */
    net_input(p->stack, p->now_ns);
    net_stack_check(p->stack);
    if (!p->idle_later)
        net_idle(p->stack, p->now_ns);
    net_stack_check(p->stack);
    collect(p);
}

bool peer_wait(struct peer *p, uint64_t ns)
{
    uint64_t until_ns = p->now_ns + ns;
    peer_step(p);
    while (p->queue_count == 0) {
        uint64_t wake_ns = net_next_deadline_ns(p->stack);
        if (wake_ns > until_ns) {
            p->timestamp += (uint32_t)((until_ns - p->now_ns) / MS);
            p->now_ns = until_ns;
            return false;
        }
        if (wake_ns > p->now_ns) {
            p->timestamp += (uint32_t)((wake_ns - p->now_ns) / MS);
            p->now_ns = wake_ns;
        }
        peer_step(p);
    }
    return true;
}

void peer_pass(struct peer *p, uint64_t ns)
{
    uint64_t until_ns = p->now_ns + ns;
    for (;;) {
        peer_step(p);
        uint64_t wake_ns = net_next_deadline_ns(p->stack);
        if (wake_ns > until_ns)
            break;
        if (wake_ns > p->now_ns) {
            p->timestamp += (uint32_t)((wake_ns - p->now_ns) / MS);
            p->now_ns = wake_ns;
        }
    }
    p->timestamp += (uint32_t)((until_ns - p->now_ns) / MS);
    p->now_ns = until_ns;
    peer_step(p);
}

/* ---- The peer ---- */

void peer_send_packet(struct peer *p, const void *packet, uint32_t bytes)
{
    assert_true(netdev_ip_push(&p->device, packet, bytes));
    peer_step(p);
}

void peer_send_options(struct peer *p, uint8_t flags, uint32_t seq, uint32_t ack, const void *data, uint32_t bytes,
                       const void *options, uint32_t option_bytes)
{
    uint8_t packet[65536 + 60], payload[65536];
    assert_int_equal(option_bytes % 4, 0);
    for (uint32_t i = 0; i < bytes; i++)
        payload[i] = data != NULL ? ((const uint8_t *)data)[i] : peer_pattern(seq + i);
    const struct packet_tcp segment = {
        .source = PEER_ADDRESS,
        .destination = PEER_STACK_ADDRESS,
        .source_port = p->peer_port,
        .destination_port = p->stack_port,
        .seq = PEER_ISS + seq,
        .ack = (flags & TCP_ACK) != 0 ? p->stack_iss + ack : 0,
        .flags = flags,
        .window = p->window,
        .options = options,
        .option_bytes = option_bytes,
        .payload = payload,
        .bytes = bytes,
    };
    peer_send_packet(p, packet, packet_tcp(packet, &segment));
}

void neighbour_mark_old_address_silent(struct net_stack *stack, uint32_t address)
{
    for (uint32_t i = 0; i < stack->ip.arp.entry_count; i++) {
        struct arp_entry *entry = &stack->ip.arp.entries[i];
        if (entry->state == ARP_KNOWN && entry->address == address)
            entry->request_count = ARP_REQUEST_COUNT_MAX;
    }
}

void peer_send_arp_reply(struct peer *p, uint8_t last)
{
    p->gateway_mac[5] = last;
    struct arp_wire arp = packet_arp(ARP_OPERATION_REPLY, p->gateway_mac, PEER_GATEWAY, PEER_STACK_ADDRESS);
    memcpy(arp.target_mac, p->device.device.mac, NETDEV_MAC_BYTES);
    neighbour_mark_old_address_silent(p->stack, PEER_GATEWAY);
    net_input_arp(p->stack, (const uint8_t *)&arp, sizeof arp, p->now_ns);
    peer_step(p);
}

static uint32_t timestamps_write(const struct peer *p, uint8_t *at)
{
    store_be32(at, TCP_TIMESTAMPS_ALIGNED_WORD);
    store_be32(at + 4, p->timestamp);
    store_be32(at + 8, p->timestamp_echo);
    return 12;
}

void peer_send(struct peer *p, uint8_t flags, uint32_t seq, uint32_t ack, const void *data, uint32_t bytes)
{
    uint8_t options[12];
    peer_send_options(p, flags, seq, ack, data, bytes, options, p->timestamps ? timestamps_write(p, options) : 0);
}

void peer_send_sack(struct peer *p, uint32_t seq, uint32_t ack, const struct block *blocks, uint32_t count)
{
    uint8_t options[40];
    uint32_t at = p->timestamps ? timestamps_write(p, options) : 0;
    options[at] = options[at + 1] = TCP_OPTION_NOP;
    options[at + 2] = TCP_OPTION_SACK;
    options[at + 3] = (uint8_t)(2 + 8 * count);
    at += 4;
    for (uint32_t i = 0; i < count; i++, at += 8) {
        store_be32(options + at, p->stack_iss + blocks[i].left);
        store_be32(options + at + 4, p->stack_iss + blocks[i].right);
    }
    peer_send_options(p, TCP_ACK, seq, ack, NULL, 0, options, at);
}

void peer_send_icmp(struct peer *p, uint8_t type, uint8_t code, uint16_t mtu, uint32_t seq)
{
    uint8_t packet[20 + 8 + 28], *quote = packet + 20 + 8;
    struct icmp_wire *icmp = (struct icmp_wire *)(packet + 20);
    *icmp = (struct icmp_wire){ .type = type, .code = code };
    store_be16(&icmp->unreachable.next_hop_mtu, mtu);
    packet_ipv4(quote, IPV4_PROTOCOL_TCP, PEER_STACK_ADDRESS, PEER_ADDRESS, 1480);
    store_be16(quote + 20, p->stack_port);
    store_be16(quote + 22, p->peer_port);
    store_be32(quote + 24, p->stack_iss + seq);
    packet_ipv4(packet, IPV4_PROTOCOL_ICMP, PEER_GATEWAY, PEER_STACK_ADDRESS, 8 + 28);
    packet_sum(packet, sizeof packet);
    peer_send_packet(p, packet, sizeof packet);
}

static uint32_t offer_write(struct peer *p, uint8_t *at, struct offer offer)
{
    uint8_t *const begin = at;
    if (offer.mss != 0) {
        at[0] = TCP_OPTION_MSS;
        at[1] = 4;
        store_be16(at + 2, offer.mss);
        at += 4;
    }
    if (offer.sack) {
        memcpy(at, "\x01\x01\x04\x02", 4);
        at += 4;
    }
    if (offer.timestamps)
        at += timestamps_write(p, at);
    if (offer.scale >= 0) {
        memcpy(at, (uint8_t[]){ 1, 3, 3, (uint8_t)offer.scale }, 4);
        at += 4;
    }
    p->timestamps = offer.timestamps;
    return (uint32_t)(at - begin);
}

void peer_connect(struct peer *p, struct offer offer) { peer_connect_after(p, offer, 0); }

void peer_connect_after(struct peer *p, struct offer offer, uint64_t rtt_ns)
{
    uint8_t options[40];
    p->id = tcp_connect(p->stack, PEER_ADDRESS, p->peer_port, 0, NULL, p->now_ns);
    assert_true(p->id >= 0);
    peer_step(p);
    const struct seen *syn = EXPECT(p, TCP_SYN, 0, 0, 0);
    p->timestamps = offer.timestamps && syn->timestamps;
    if (rtt_ns != 0)
        peer_pass(p, rtt_ns);
    uint32_t option_bytes = offer_write(p, options, offer);
    peer_send_options(p, SA, 0, 1, NULL, 0, options, option_bytes);
    EXPECT(p, A, 1, 1, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

void peer_accept(struct peer *p, struct offer offer)
{
    uint8_t options[40];
    if (p->listener < 0)
        p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
    assert_true(p->listener >= 0);
    p->stack_port = PEER_STACK_PORT;
    uint32_t option_bytes = offer_write(p, options, offer);
    peer_send_options(p, TCP_SYN, 0, 0, NULL, 0, options, option_bytes);
    EXPECT(p, SA, 0, 1, 0);
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT_NONE(p);
    p->id = tcp_accept(p->stack, p->listener);
    assert_true(p->id >= 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
}

/* ---- The application ---- */

void peer_write(struct peer *p, uint32_t bytes)
{
    uint8_t data[65536];
    const struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    assert_true(bytes <= sizeof data);
    for (uint32_t i = 0; i < bytes; i++)
        data[i] = peer_stack_pattern(c->snd_end - c->iss + i);
    assert_int_equal(tcp_write(p->stack, p->id, data, bytes, p->now_ns), bytes);
    peer_step(p);
}

void peer_read(struct peer *p, uint32_t seq, uint32_t bytes)
{
    uint8_t data[65536];
    assert_int_equal(tcp_read(p->stack, p->id, data, bytes, false, p->now_ns), bytes);
    for (uint32_t i = 0; i < bytes; i++)
        assert_int_equal(data[i], peer_pattern(seq + i));
    peer_step(p);
}

/* ---- Checks ---- */

bool peer_take(struct peer *p, struct seen *s)
{
    if (p->queue_count == 0)
        return false;
    *s = p->queue[p->queue_first++ % ARRAY_COUNT(p->queue)];
    p->queue_first %= ARRAY_COUNT(p->queue);
    p->queue_count--;
    return true;
}

void peer_drain(struct peer *p)
{
    struct seen s;
    while (peer_take(p, &s))
        continue;
}

struct seen *peer_expect_at(struct peer *p, uint8_t flags, uint32_t seq, uint32_t ack, uint32_t bytes, const char *file,
                            int line)
{
    static struct seen s;
    static uint64_t previous_ns;
    if (!peer_take(p, &s)) {
        fail_at(file, line, "expected %s %u:%u ack %u, nothing came", flags_text(flags), seq, seq + bytes, ack);
        return NULL;
    }
    p->checked_ns = previous_ns;
    previous_ns = s.at_ns;
    if (s.flags != flags || s.seq != seq || s.bytes != bytes || ((flags & TCP_ACK) != 0 && s.ack != ack)) {
        print_seen(p, &s);
        fail_at(file, line, "expected %s %u:%u ack %u, the above came", flags_text(flags), seq, seq + bytes, ack);
    }
    return &s;
}

void peer_expect_none_at(struct peer *p, const char *file, int line)
{
    struct seen s;
    if (!peer_take(p, &s))
        return;
    print_seen(p, &s);
    fail_at(file, line, "expected nothing, the above came");
}

void peer_expect_state_at(struct peer *p, enum tcp_state state, const char *file, int line)
{
    enum tcp_state is = tcp_state(p->stack, p->id);
    if (is != state)
        fail_at(file, line, "expected state %s, it is %s", tcp_state_name(state), tcp_state_name(is));
}

void peer_check_number_at(const char *what, uint64_t got, uint64_t least, uint64_t most, const char *file, int line)
{
    if (got < least || got > most)
        fail_at(file, line, "%s: %llu is not within %llu..%llu", what, (unsigned long long)got,
                (unsigned long long)least, (unsigned long long)most);
}
