/* The input of segments. RFC 9293 §3.10.7, in its order; RFC 5961 if it is stricter; RFC 7323 §5 before both.
 *
 * All cases. "challenge" is an ACK of a limited rate (challenge.c); "reset" is an RST (tcp_reply_reset).
 *
 *     state              RST                    SYN                   an ACK not ours      FIN, all before it here
 *     none               dropped                reset                 reset                reset
 *     LISTEN             dropped                half-open (listen.c)  a cookie's, or reset dropped
 *     SYN-SENT           with our SYN's ACK:    opens; without ACK:   reset                received with the SYN,ACK
 *                        ends, else dropped     SYN-RECEIVED
 *     SYN-RECEIVED       ends, refused          challenge, except     reset                CLOSE-WAIT
 *                                               figure 8's SYN,ACK
 *     ESTABLISHED        ends, reset            challenge             challenge            CLOSE-WAIT
 *     FIN-WAIT-1         ends, reset            challenge             challenge            CLOSING
 *     FIN-WAIT-2         ends, reset            challenge             challenge            TIME-WAIT
 *     CLOSE-WAIT         ends, broken pipe      challenge             challenge            old: acknowledged
 *     CLOSING, LAST-ACK  ends, reset            challenge             challenge            old: acknowledged
 *     TIME-WAIT          ends                   a new connection,     dropped              acknowledged, 2 MSL anew
 *     (time_wait.c)                             or challenge
 *
 * From SYN-RECEIVED on, an RST ends a connection at RCV.NXT alone: elsewhere in the window it gets a challenge, outside
 * it is dropped. Any other segment outside the window gets an ACK (sequence_refused). An ACK of old data is late and is
 * processed; "not ours" is one of data that was never sent, or from before any window. */
#include "net/tcp/input.h"

#include "base/time.h"
#include "net/ip/checksum.h"
#include "net/stack_state.h"
#include "net/tcp/ack.h"
#include "net/tcp/challenge.h"
#include "net/tcp/check.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ecn.h"
#include "net/tcp/frame.h"
#include "net/tcp/handshake.h"
#include "net/tcp/listen.h"
#include "net/tcp/options.h"
#include "net/tcp/output.h"
#include "net/tcp/ranges.h"
#include "net/tcp/receive.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/time_wait.h"
#include "net/tcp/window.h"

/* ---- Parsing and dispatch ---- */

/* Checks the header and describes the segment. Returns false if the segment was dropped and counted. */
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
    if (!packet->checksum_good && !NET_SKIP_CHECKSUMS) { /* MUST-3 */
        uint32_t sum = checksum_pseudo_ipv4(packet->source, packet->destination, IPV4_PROTOCOL_TCP,
                                            (uint16_t)packet->payload_bytes);
        if (checksum_finish(checksum_sum(sum, packet->payload, packet->payload_bytes)) != 0) {
            NET_COUNT(stack, tcp_rx_drop_bad_checksum);
            return false;
        }
    }
    if (packet->broadcast || !ipv4_address_is_unicast(packet->source)) { /* MUST-57, MUST-63 */
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
        .flags = tcp->flags,
        .congested = (packet->tos & IPV4_ECN_MASK) == IPV4_ECN_CONGESTED,
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
    if (c == NULL && !tcp_time_wait_input(stack, &r, now_ns) && !tcp_listen_input(stack, &r, now_ns, &c)) {
        NET_COUNT(stack, tcp_rx_drop_no_connection);
        tcp_reply_reset(stack, &r, now_ns);
    }
    if (c != NULL)
        tcp_connection_input(stack, c, &r, now_ns);
}

/* ---- SYN-SENT: RFC 9293 §3.10.7.3 ---- */

static void syn_sent_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    bool has_ack = (r->flags & TCP_ACK) != 0;
    ASSERT(c->snd_una == c->iss);

    /* First, the ACK bit: the ACK must cover our SYN. */
    if (has_ack && (seq_le(r->ack, c->iss) || seq_gt(r->ack, c->snd_nxt))) {
        NET_COUNT(stack, tcp_rx_drop_bad_ack);
        tcp_reply_reset(stack, r, now_ns);
        return;
    }
    /* Second, the RST bit: an RST answers our SYN only with such an ACK. */
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
    tcp_irs_set(c, r->seq, tcp_receive_window(c)); /* our SYN's window */
    tcp_window_begin(c, r->window, r->seq);
    tcp_options_agree(stack, c, &r->options, now_ns);
    r->seq++;
    r->flags &= (uint8_t)~TCP_SYN;
    if (!has_ack) { /* RFC 9293 §3.5, figure 8: a simultaneous open */
        c->state = TCP_SYN_RECEIVED;
        tcp_syn_send(stack, c, now_ns);
        tcp_timer_set(stack, c, TCP_TIMER_RTO, c->deadline.rto_at_ns);
        return;
    }
    tcp_ack_accept(stack, c, r, now_ns);
    /* RFC 3168 §6.1.1: ECE of a SYN,ACK accepts ECN, and is no mark. A SYN,ACK with both flags comes from a peer that
     * echoes flags it does not know. */
    tcp_ecn_agree(c, c->policy.ecn && !c->syn_resent && (r->flags & (TCP_ECE | TCP_CWR)) == TCP_ECE);
    tcp_established(stack, c, now_ns);
    tcp_ack_owe(stack, c);
    if (r->bytes != 0 || (r->flags & TCP_FIN) != 0)
        tcp_receive_payload(stack, c, r, now_ns);
    if (c->used)
        tcp_output(stack, c, now_ns);
    if (c->used && c->ack.now) /* unless data carried the ACK */
        tcp_ack_send_now(stack, c, now_ns);
}

/* ---- All other states: RFC 9293 §3.10.7.4 ---- */

/* RFC 7323 §5.3, R1: Returns true if the timestamp is old; an old timestamp means an old segment. The test does not
 * hold for an RST, nor for a SYN, which gets its challenge without the test. A reference of 24 days is too old to
 * compare with (§5.5). A segment without the option passes, as in Linux: §3.2 would rather drop it, but peers behind
 * a middlebox that strips the option would hang. */
static bool timestamp_is_old(const struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    const uint64_t reference_ns_max = 24 * 24 * 3600 * NS_PER_S;
    return seq_lt(r->options.timestamp, c->ts_recent) && now_ns - c->ts_recent_ns < reference_ns_max;
}

static bool paws_refuses(const struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    return c->timestamps_on && r->options.has_timestamps && (r->flags & (TCP_RST | TCP_SYN)) == 0
           && timestamp_is_old(c, r, now_ns);
}

/* RFC 9293 §3.4, table 6: Returns true if SEG.SEQ is acceptable (the first step). A segment at RCV.NXT passes with any
 * payload, so its ACK and RST count while the window is closed (MUST-66). At the right edge an empty segment passes.
 * The payload is cut to the window later. */
static bool sequence_acceptable(const struct tcp_connection *c, const struct tcp_received *r)
{
    uint32_t end = r->seq + tcp_received_space(r);
    if (seq_lt(end, c->rcv_nxt) || (end == c->rcv_nxt && r->seq != end))
        return false; /* the whole segment is old */
    return seq_le(r->seq, c->rcv_nxt + tcp_receive_window(c))
           && (r->seq == c->rcv_nxt || r->seq != c->rcv_nxt + tcp_receive_window(c) || tcp_received_space(r) == 0);
}

/* RFC 2883 §4.1: Reports the repeated bytes of a refused segment by DSACK. A sender that resent in vain then restores
 * its window. */
static void duplicate_note(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r)
{
    if (seq_lt(r->seq, c->rcv_nxt))
        tcp_receive_duplicate(stack, c, r->seq, seq_min(r->seq + r->bytes, c->rcv_nxt));
}

/* RFC 7323 §4.3 (2): Takes the timestamp to echo, if the segment begins at or before the number acknowledged last. */
static void timestamp_take(struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    if (c->timestamps_on && r->options.has_timestamps && seq_le(r->seq, c->last_ack_sent)
        && !timestamp_is_old(c, r, now_ns)) {
        c->ts_recent = r->options.timestamp;
        c->ts_recent_ns = now_ns;
    }
}

/* RFC 7323 §4.3 (2): Takes the timestamp of a refused segment, too. The peer repeats what we have, since our ACK was
 * lost. An older time in the next ACK would make its round trip the time since the first copy, and its RTO grow to
 * minutes. A forged segment must not set a time that makes all others old (PAWS). So this one must lie in the
 * latest window, and have an ACK that the peer can have sent (RFC 5961 §5.2). Linux takes the latest segment alone. */
static void timestamp_take_again(struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    bool recent = seq_ge(r->seq, c->rcv_nxt - c->rcv_buffer_bytes), has_ack = (r->flags & TCP_ACK) != 0;
    if (recent && has_ack && (r->flags & TCP_SYN) == 0 && seq_le(r->ack, c->snd_nxt)
        && seq_ge(r->ack, c->snd_una - c->snd_wnd_max))
        timestamp_take(c, r, now_ns);
}

static void sequence_refused(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                             uint64_t now_ns)
{
    ASSERT(c->state >= TCP_SYN_RECEIVED);
    NET_COUNT(stack, tcp_rx_drop_out_of_window);
    if ((r->flags & TCP_RST) != 0) {
        NET_COUNT(stack, tcp_rx_resets_ignored);
        return;
    }
    timestamp_take_again(c, r, now_ns);
    duplicate_note(stack, c, r);
    if (tcp_received_space(r) != 0 && (r->flags & TCP_SYN) == 0)
        tcp_ack_send_now(stack, c, now_ns); /* never withheld: the peer repeats data or FIN until an ACK arrives */
    else
        tcp_challenge(stack, c, r, now_ns);
}

/* RFC 5961 §3.2: Processes an RST (the second step). The exact next sequence number resets; another number in the
 * window gets a challenge. */
static void reset_input(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                        uint64_t now_ns)
{
    if (r->seq != c->rcv_nxt) {
        NET_COUNT(stack, tcp_rx_resets_ignored);
        /* An RST that begins outside the window gets no challenge, even if its text reaches into the window. */
        if (seq_within(r->seq, c->rcv_nxt, c->rcv_nxt + tcp_receive_window(c)))
            tcp_challenge(stack, c, r, now_ns);
        return;
    }
    NET_COUNT(stack, tcp_rx_resets);
    NET_COUNT(stack, tcp_resets_in_open);
    /* CLOSING and LAST-ACK too, where the RFC would end in silence: the data before our FIN may never have arrived. */
    tcp_connection_end(stack, c,
                       c->state == TCP_SYN_RECEIVED ? TCP_REFUSED
                       : c->state == TCP_CLOSE_WAIT ? TCP_PIPE /* the peer had ended its side: our writing failed */
                                                    : TCP_RESET);
}

/* RFC 5961 §4.2: Processes a SYN (the fourth step): any sequence number gets a challenge. Only the SYN,ACK that
 * completes a simultaneous open is valid (RFC 9293 figure 8). Returns true if the segment is to be processed
 * further. */
static bool syn_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    if (c->state == TCP_SYN_RECEIVED && (r->flags & TCP_ACK) != 0 && r->seq == c->irs && r->ack == c->snd_nxt) {
        r->flags &= (uint8_t)~TCP_SYN;
        r->seq++;
        ASSERT(r->seq == c->rcv_nxt);
        return true;
    }
    NET_COUNT(stack, tcp_rx_drop_flags);
    tcp_challenge(stack, c, r, now_ns);
    return false;
}

static bool fin_is_acked(const struct tcp_connection *c) { return c->fin_wanted && c->snd_una == c->snd_end + 1; }

/* Processes the ACK of our FIN (the fifth step). Returns false if the connection is no more. */
static bool fin_acked(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->fin_wanted);
    switch (c->state) {
    case TCP_FIN_WAIT_1:
        c->state = TCP_FIN_WAIT_2;
        c->blocked = false; /* a FIN that was to be sent again */
        stack->tcp.changed = true;
        if (c->orphan)
            tcp_fin_wait_2_limit(stack, c, now_ns);
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

static void received_note(struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    if (r->bytes == 0) {
        c->data_received_ns = tcp_data_received_ns(c);
        c->bare_received_ns = now_ns;
    }
    tcp_received_note(c, now_ns);
}

static void other_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    ASSERT(c->state >= TCP_SYN_RECEIVED);
    ASSERT(c->state != TCP_TIME_WAIT);
    /* The fifth step's test of the ACK bit, before the first step: a segment without ACK is made by hand, and gets no
     * answer that tells the window. Linux has this order. */
    if ((r->flags & (TCP_ACK | TCP_RST | TCP_SYN)) == 0) {
        NET_COUNT(stack, tcp_rx_drop_no_ack);
        return;
    }

    /* RFC 7323 §5.3: PAWS. RFC 5961 §4.2: SYN, the fourth step. Then SEG.SEQ, the first, and RST, the second. */
    if (paws_refuses(c, r, now_ns)) {
        NET_COUNT(stack, tcp_rx_drop_paws);
        duplicate_note(stack, c, r); /* an original that follows its retransmission has an old timestamp */
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

    /* The fifth step: the acknowledgement, of data or of our SYN. */
    if (c->state == TCP_SYN_RECEIVED) {
        if (seq_le(r->ack, c->snd_una) || seq_gt(r->ack, c->snd_nxt)) {
            NET_COUNT(stack, tcp_rx_drop_bad_ack);
            tcp_reply_reset(stack, r, now_ns);
            return;
        }
        tcp_window_begin(c, c->snd_wnd, r->seq);
        tcp_ack_accept(stack, c, r, now_ns);
        tcp_established(stack, c, now_ns);
    } else if (!tcp_ack_accept(stack, c, r, now_ns)) {
        return;
    }
    received_note(c, r, now_ns);
    timestamp_take(c, r, now_ns);
    if (c->ecn.on && r->bytes != 0)
        tcp_ecn_mark_take(stack, c, r);
    if (fin_is_acked(c) && !fin_acked(stack, c, now_ns))
        return;

    /* Sixth: URG has no effect; the data is delivered in line (RFC 6093). Seventh and eighth: text and FIN. */
    if (r->bytes != 0 && (c->orphan || c->read_shut) && (c->state == TCP_FIN_WAIT_1 || c->state == TCP_FIN_WAIT_2)
        && seq_gt(r->seq + r->bytes, c->rcv_nxt)) {
        NET_COUNT(stack, tcp_rx_drop_after_close); /* RFC 9293 §3.6.1: nobody will ever read the data */
        tcp_reply_reset(stack, r, now_ns);         /* numbered as without a connection: the data is not acknowledged */
        tcp_connection_end(stack, c, TCP_RESET);
        return;
    }
    if (r->bytes != 0 || (r->flags & TCP_FIN) != 0)
        tcp_receive_payload(stack, c, r, now_ns);
    if (c->used)
        tcp_output(stack, c, now_ns);
}

void tcp_connection_input(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    r->scale = (r->flags & TCP_SYN) != 0 ? 0 : c->snd_scale;
    if (c->state == TCP_SYN_SENT)
        syn_sent_input(stack, c, r, now_ns);
    else
        other_input(stack, c, r, now_ns);
    if (c->used)
        tcp_connection_check(c);
}
