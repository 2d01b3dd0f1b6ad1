/* Loss detection, and the pace of repair. */
#pragma once

#include "net/tcp/connection.h"

/* The report of one ACK. */
struct tcp_delivery {
    uint32_t acked_bytes;     /* acknowledged cumulatively */
    uint32_t delivered_bytes; /* acknowledged, or newly SACKed */
    uint32_t lost_bytes;      /* newly believed lost */
    uint32_t dsack_end;
    bool dsack;
    bool sacked;
    bool advanced;
    bool duplicate; /* a duplicate ACK by the rules of RFC 5681 §2 */
    bool limited;   /* before the ACK the congestion window held us back */
};

/* Begins with nothing delivered before our SYN. */
void tcp_recovery_begin(struct tcp_connection *c);
/* Takes a segment just acknowledged or SACKed, with its marks from before. */
void tcp_rack_delivered(struct tcp_connection *c, const struct tcp_segment *s, const struct tcp_received *r,
                        uint64_t now_ns);
/* Marks the segments that the ACK newly reports by SACK. */
void tcp_sack_accept(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                     struct tcp_delivery *d, uint64_t now_ns);
/* Detects losses, enters and leaves recovery, and sets the congestion window. */
void tcp_recovery_after_ack(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r,
                            struct tcp_delivery *d, uint64_t now_ns);
/* Enters the repair of a loss that is no congestion. */
void tcp_recovery_repair(struct tcp_connection *c);
/* Marks the data lost that could have been acknowledged by the time-out. */
void tcp_recovery_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Processes the end of the reordering window; tcp_output must follow. */
void tcp_recovery_reorder_timeout(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Counts bytes sent during a recovery. */
void tcp_recovery_sent(struct tcp_connection *c, uint32_t bytes);
/* Counts a segment sent again, whose resend may prove needless. */
void tcp_recovery_resent(struct tcp_connection *c);
/* Notes that a tail probe has left, up to snd_nxt: new data, or the last segment again. */
void tcp_recovery_tail_probed(struct tcp_connection *c, bool is_resend);
/* Checks the invariant of loss detection and repair. */
void tcp_recovery_check(const struct tcp_connection *c);
