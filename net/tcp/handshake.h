/* The handshake of active and passive opens. */
#pragma once

#include "base/bytes.h"
#include "net/tcp/recovery.h"

/* Sets the numbers of a connection that begins with our SYN, not acknowledged yet. */
static inline void tcp_iss_set(struct tcp_connection *c, uint32_t iss)
{
    c->iss = c->snd_una = iss;
    c->snd_nxt = c->snd_end = c->snd_small_end = iss + 1;
    tcp_recovery_begin(c);
}

/* Sets the numbers after the peer's SYN. Our SYN offered `window` bytes, as far as its unscaled field can. */
static inline void tcp_irs_set(struct tcp_connection *c, uint32_t irs, uint32_t window)
{
    c->irs = irs;
    c->rcv_nxt = c->rcv_read = irs + 1;
    c->rcv_adv = c->rcv_nxt + min_u32(window, UINT16_MAX);
}

/* Applies the options that both ends have offered. */
void tcp_options_agree(struct net_stack *stack, struct tcp_connection *c, const struct tcp_options *o, uint64_t now_ns);
/* Enters ESTABLISHED. */
void tcp_established(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
/* Sends our SYN, or our SYN,ACK if both ends open at once. */
void tcp_syn_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
