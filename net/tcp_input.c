/* A segment arrives. RFC 9293 §3.10.7, in its order; RFC 5961 where it is stricter; RFC 7323 §5 before both. */
#include "net/checksum.h"
#include "net/tcp_internal.h"

/* ---- Whose is it ---- */

/* Checks the header and describes the segment. False: dropped and counted. */
static bool segment_parse(struct net_stack *stack, const struct ipv4_packet *packet, struct tcp_received *r)
{
    const struct tcp_wire *tcp = (const struct tcp_wire *)packet->payload;
    if (packet->payload_bytes < sizeof *tcp) {
        NET_COUNT(stack, tcp_rx_drop_short);
        return false;
    }
    uint32_t header_bytes = (uint32_t)(tcp->offset >> 4) * 4;
    if (header_bytes < sizeof *tcp || header_bytes > packet->payload_bytes) {
        NET_COUNT(stack, tcp_rx_drop_offset);
        return false;
    }
    if (!packet->checksum_good && !NET_SKIP_CHECKSUMS) {        /* MUST-3 */
        uint32_t sum = checksum_pseudo_ipv4(packet->source, packet->destination, IPV4_PROTOCOL_TCP,
                                            (uint16_t)packet->payload_bytes);
        if (checksum_finish(checksum_sum(sum, packet->payload, packet->payload_bytes)) != 0) {
            NET_COUNT(stack, tcp_rx_drop_bad_checksum);
            return false;
        }
    }
    if (packet->broadcast || !ipv4_address_is_unicast(packet->source)) {        /* MUST-57, MUST-63 */
        NET_COUNT(stack, tcp_rx_drop_broadcast);
        return false;
    }
    *r = (struct tcp_received){
        .packet = packet,
        .address = packet->source,
        .peer_port = load_be16(&tcp->source_port),
        .port = load_be16(&tcp->destination_port),
        .seq = load_be32(&tcp->seq),
        .ack = load_be32(&tcp->ack),
        .flags = tcp->flags & TCP_FLAGS_KNOWN_MASK,
        .window = load_be16(&tcp->window),
        .data = packet->payload + header_bytes,
        .bytes = packet->payload_bytes - header_bytes,
    };
    if (r->peer_port == 0 || r->port == 0) {
        NET_COUNT(stack, tcp_rx_drop_port_zero);
        return false;
    }
    if (!tcp_options_parse(&r->options, packet->payload + sizeof *tcp, header_bytes - (uint32_t)sizeof *tcp))
        NET_COUNT(stack, tcp_rx_bad_options);
    return true;
}

void tcp_input(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns)
{
    struct tcp_received r;
    NET_COUNT(stack, tcp_rx_segments);
    if (!segment_parse(stack, packet, &r))
        return;
    struct tcp_connection *c = tcp_find(stack, r.address, r.peer_port, r.port);
    if (c != NULL) {
        tcp_connection_input(stack, c, &r, now_ns);
        return;
    }
    if (tcp_time_wait_input(stack, &r, now_ns) || tcp_listen_input(stack, &r, now_ns))
        return;
    NET_COUNT(stack, tcp_rx_drop_no_connection);
    tcp_reply_reset(stack, &r, now_ns);
}

/* ---- Challenge ACKs ---- */

/* By connection, so that no stranger can measure it from another (CVE-2016-5696). */
bool tcp_challenge_allowed(struct tcp_challenges *sent, const struct tcp_received *r, uint64_t now_ns)
{
    if (now_ns >= sent->until_ns) {
        sent->until_ns = now_ns + TCP_CHALLENGES_NS;
        sent->count = 0;
    }
    bool answered = now_ns < sent->again_ns && r->seq == sent->seq && r->ack == sent->ack && r->flags == sent->flags;
    if (answered || sent->count == TCP_CHALLENGES_MAX)
        return false;
    sent->count++;
    sent->again_ns = now_ns + TCP_CHALLENGE_AGAIN_NS;
    sent->seq = r->seq;
    sent->ack = r->ack;
    sent->flags = r->flags;
    return true;
}

void tcp_challenge(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    if (r->seq + 1 == c->rcv_nxt)
        c->challenges.again_ns = 0;     /* a window probe or a keepalive: they repeat themselves by right */
    if (!tcp_challenge_allowed(&c->challenges, r, now_ns)) {
        NET_COUNT(stack, tcp_tx_challenges_withheld);
        return;
    }
    NET_COUNT(stack, tcp_tx_challenges);
    tcp_ack_send_now(stack, c, now_ns);
}

/* ---- SYN-SENT: RFC 9293 §3.10.7.3 ---- */

static void syn_sent_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    bool has_ack = (r->flags & TCP_ACK) != 0;

    /* First, the ACK bit: it must be of our SYN. */
    if (has_ack && (seq_le(r->ack, c->iss) || seq_gt(r->ack, c->snd_nxt))) {
        NET_COUNT(stack, tcp_rx_drop_bad_ack);
        tcp_reply_reset(stack, r, now_ns);
        return;
    }
    /* Second, the RST bit: only with such an ACK is it about our SYN. */
    if ((r->flags & TCP_RST) != 0) {
        if (has_ack) {
            NET_COUNT(stack, tcp_rx_resets);
            tcp_connection_end(stack, c, TCP_REFUSED);
        } else {
            NET_COUNT(stack, tcp_rx_resets_ignored);
        }
        return;
    }
    /* Fourth, the SYN bit. */
    if ((r->flags & TCP_SYN) == 0) {
        NET_COUNT(stack, tcp_rx_drop_flags);
        return;
    }
    c->irs = r->seq;
    c->rcv_nxt = c->rcv_read = r->seq + 1;
    c->rcv_adv = c->rcv_nxt + min_size(c->rcv_buffer_bytes, 0xffff);    /* what our SYN offered, unscaled */
    c->snd_wl1 = r->seq - 1;
    tcp_options_agree(stack, c, &r->options, now_ns);
    r->seq++;
    r->flags &= (uint8_t)~TCP_SYN;
    if (!has_ack) {                     /* both have opened: figure 8 */
        c->state = TCP_SYN_RECEIVED;
        c->snd_wnd = r->window;
        c->snd_wl1 = r->seq - 1;
        tcp_syn_send(stack, c, now_ns);
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->rto_at_ns);
        return;
    }
    uint8_t scale = c->snd_scale;
    c->snd_scale = 0;                   /* RFC 7323 §2.2: a SYN's window is not scaled */
    tcp_ack_accept(stack, c, r, now_ns);
    c->snd_scale = scale;
    tcp_established(stack, c, now_ns);
    c->ack_now = true;
    if (r->bytes != 0 || (r->flags & TCP_FIN) != 0)
        tcp_receive_payload(stack, c, r, now_ns);
    if (c->used)
        tcp_output(stack, c, now_ns);
    if (c->used && c->ack_now)          /* unless data took it along */
        tcp_ack_send_now(stack, c, now_ns);
}

/* ---- All other states: RFC 9293 §3.10.7.4 ---- */

/* RFC 7323 §5.3, R1: an old timestamp is an old segment. A RST is not held to it, nor a SYN, which gets its challenge
 * without it; nor is one whose reference is 24 days old (§5.5). A segment without the option is let pass, as Linux does:
 * §3.2 would rather have it dropped, but peers behind a middlebox that strips it would hang. */
static bool timestamp_is_old(const struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    const uint64_t reference_ns_max = UINT64_C(24) * 24 * 3600 * 1000000000;
    return seq_lt(r->options.timestamp, c->ts_recent) && now_ns - c->ts_recent_ns < reference_ns_max;
}

static bool paws_refuses(const struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    return c->timestamps_on && r->options.has_timestamps && (r->flags & (TCP_RST | TCP_SYN)) == 0
        && timestamp_is_old(c, r, now_ns);
}

/* First: SEG.SEQ. RFC 9293 §3.4, table 6, but segments at either edge of the window pass whatever they carry, so that
 * their ACK and RST count when the window is closed (MUST-66); payload is cut to the window later. */
static bool sequence_acceptable(const struct tcp_connection *c, const struct tcp_received *r)
{
    uint32_t end = r->seq + tcp_received_space(r);
    if (seq_lt(end, c->rcv_nxt) || (end == c->rcv_nxt && r->seq != end))
        return false;                   /* all of it is old */
    return seq_le(r->seq, c->rcv_nxt + tcp_receive_window(c))
        && (r->seq == c->rcv_nxt || r->seq != c->rcv_nxt + tcp_receive_window(c) || tcp_received_space(r) == 0);
}

/* What a refused segment repeats is told by DSACK (RFC 2883 §4.1): a sender that resent in vain takes its cut back. */
static void repetition_note(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r)
{
    if (seq_lt(r->seq, c->rcv_nxt))
        tcp_receive_duplicate(stack, c, r->seq, seq_min(r->seq + r->bytes, c->rcv_nxt));
}

static void sequence_refused(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                             uint64_t now_ns)
{
    NET_COUNT(stack, tcp_rx_drop_out_of_window);
    if ((r->flags & TCP_RST) != 0) {
        NET_COUNT(stack, tcp_rx_resets_ignored);
        return;
    }
    repetition_note(stack, c, r);
    if (tcp_received_space(r) != 0 && (r->flags & TCP_SYN) == 0)
        tcp_ack_send_now(stack, c, now_ns);     /* Linux: never withheld for data or FIN, the peer is repeating itself */
    else
        tcp_challenge(stack, c, r, now_ns);
}

/* Second: RST. RFC 5961 §3.2: exactly the next one resets, another in the window is asked back. */
static void reset_input(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                        uint64_t now_ns)
{
    if (r->seq != c->rcv_nxt) {
        NET_COUNT(stack, tcp_rx_resets_ignored);
        if (seq_within(r->seq, c->rcv_nxt, c->rcv_nxt + tcp_receive_window(c)))
            tcp_challenge(stack, c, r, now_ns);         /* not if only text with it reaches into the window */
        return;
    }
    NET_COUNT(stack, tcp_rx_resets);
    NET_COUNT(stack, tcp_resets_in_open);
    /* CLOSING and LAST-ACK too, as in Linux and FreeBSD: what stood before our FIN may never have arrived. */
    tcp_connection_end(stack, c, c->state == TCP_SYN_RECEIVED ? TCP_REFUSED
                                 : c->state == TCP_CLOSE_WAIT ? TCP_PIPE    /* Linux: it is our writing that failed */
                                                              : TCP_RESET);
}

/* Fourth: SYN. RFC 5961 §4.2: whatever its sequence number, it is asked back. Only the SYN,ACK that completes a
 * simultaneous open is what it seems (RFC 9293 figure 8). True: the segment is to be processed further. */
static bool syn_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    if (c->state == TCP_SYN_RECEIVED && (r->flags & TCP_ACK) != 0 && r->seq == c->irs && r->ack == c->snd_nxt) {
        r->flags &= (uint8_t)~TCP_SYN;
        r->seq++;
        r->window >>= c->snd_scale;     /* a SYN's window is not scaled; what follows will scale this one */
        return true;
    }
    NET_COUNT(stack, tcp_rx_drop_flags);
    tcp_challenge(stack, c, r, now_ns);
    return false;
}

static bool fin_is_acked(const struct tcp_connection *c)
{
    return c->fin_wanted && c->snd_una == c->snd_end + 1;
}

/* Fifth: what the ACK of our FIN does. False: the connection is no more. */
static bool fin_acked(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    switch (c->state) {
    case TCP_FIN_WAIT_1:
        c->state = TCP_FIN_WAIT_2;
        stack->tcp.changed = true;
        if (c->orphan) {
            c->state_ns = now_ns + c->policy.fin_wait_2_us * UINT64_C(1000);
            tcp_timer_due_at(stack, c->state_ns);
        }
        return true;
    case TCP_CLOSING:
        tcp_time_wait_enter(stack, c, now_ns);
        return false;
    case TCP_LAST_ACK:
        tcp_connection_end(stack, c, TCP_OK);
        return false;
    default:
        return true;
    }
}

/* RFC 7323 §4.3 (2): the timestamp to echo is that of the segment that moved the edge we acknowledged. */
static void timestamp_take(struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    if (c->timestamps_on && r->options.has_timestamps && seq_le(r->seq, c->last_ack_sent)
        && !timestamp_is_old(c, r, now_ns)) {
        c->ts_recent = r->options.timestamp;
        c->ts_recent_ns = now_ns;
    }
}

void tcp_connection_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    if (c->state == TCP_SYN_SENT) {
        syn_sent_input(stack, c, r, now_ns);
        return;
    }
    if ((r->flags & (TCP_ACK | TCP_RST | TCP_SYN)) == 0) {      /* fifth, but before the first, as in Linux: no answer */
        NET_COUNT(stack, tcp_rx_drop_no_ack);
        return;
    }
    if (paws_refuses(c, r, now_ns)) {
        NET_COUNT(stack, tcp_rx_drop_paws);
        repetition_note(stack, c, r);   /* the original that comes behind its retransmission has an old timestamp */
        if (r->bytes != 0)
            tcp_ack_send_now(stack, c, now_ns);
        else
            tcp_challenge(stack, c, r, now_ns);
        return;
    }
    if ((r->flags & (TCP_SYN | TCP_RST)) == TCP_SYN && !syn_input(stack, c, r, now_ns))
        return;
    if (!sequence_acceptable(c, r)) {
        sequence_refused(stack, c, r, now_ns);
        return;
    }
    if ((r->flags & TCP_RST) != 0) {
        reset_input(stack, c, r, now_ns);
        return;
    }
    if (c->state == TCP_SYN_RECEIVED) {
        if (seq_le(r->ack, c->snd_una) || seq_gt(r->ack, c->snd_nxt)) {
            NET_COUNT(stack, tcp_rx_drop_bad_ack);
            tcp_reply_reset(stack, r, now_ns);
            return;
        }
        c->snd_wl1 = r->seq - 1;
        tcp_ack_accept(stack, c, r, now_ns);
        tcp_established(stack, c, now_ns);
    } else if (!tcp_ack_accept(stack, c, r, now_ns)) {
        return;
    }
    c->last_received_ns = now_ns;
    c->keepalive_count = 0;
    timestamp_take(c, r, now_ns);
    if (fin_is_acked(c) && !fin_acked(stack, c, now_ns))
        return;

    /* Sixth: URG says nothing we use; the data is delivered in line (RFC 6093). Seventh and eighth: text and FIN. */
    if (r->bytes != 0 && (c->orphan || c->read_shut) && (c->state == TCP_FIN_WAIT_1 || c->state == TCP_FIN_WAIT_2)
        && seq_gt(r->seq + r->bytes, c->rcv_nxt)) {
        NET_COUNT(stack, tcp_rx_drop_after_close);      /* RFC 9293 §3.6.1: nobody will ever read it */
        tcp_reply_reset(stack, r, now_ns);              /* as if there were no connection; so does Linux */
        tcp_connection_end(stack, c, TCP_RESET);
        return;
    }
    if (r->bytes != 0 || (r->flags & TCP_FIN) != 0)
        tcp_receive_payload(stack, c, r, now_ns);
    if (c->used)
        tcp_output(stack, c, now_ns);
}
