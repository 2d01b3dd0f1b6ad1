/* Challenge ACKs, and how many of them leave. RFC 5961 §7. */
#include "net/tcp/challenge.h"

#include "net/stack_state.h"
#include "net/tcp/output.h"

/* Returns true if a challenge ACK may leave. The limit is for each connection, so a stranger cannot measure one
 * connection's challenges from another (CVE-2016-5696). */
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
    ASSERT(sent->count <= TCP_CHALLENGES_MAX);
    sent->again_ns = now_ns + TCP_CHALLENGE_AGAIN_NS;
    sent->seq = r->seq;
    sent->ack = r->ack;
    sent->flags = r->flags;
    return true;
}

void tcp_challenge(struct net_stack *stack, struct tcp_connection *c, const struct tcp_received *r, uint64_t now_ns)
{
    if (r->seq + 1 == c->rcv_nxt)
        c->challenges.again_ns = 0; /* a window probe or a keepalive may repeat itself */
    if (!tcp_challenge_allowed(&c->challenges, r, now_ns)) {
        NET_COUNT(stack, tcp_tx_challenges_withheld);
        return;
    }
    NET_COUNT(stack, tcp_tx_challenges);
    tcp_ack_send_now(stack, c, now_ns);
}
