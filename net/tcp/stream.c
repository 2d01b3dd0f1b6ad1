/* The stream as the application sees it: read, write, shut down, close, abort. RFC 9293 §3.10.2 to §3.10.5. */
#include "net/tcp/stream.h"

#include "base/time.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/deadline.h"
#include "net/tcp/frame.h"
#include "net/tcp/output.h"
#include "net/tcp/sockets.h"
#include "net/tcp/table.h"
#include "net/tcp/window.h"

/* ---- Reading and writing ---- */

/* Returns the result of tcp_read if there is nothing (more) to read. */
static int64_t read_ended(struct tcp_connection *c)
{
    ASSERT(tcp_receive_unread(c) == 0);
    if (c->fin_received)
        return 0;
    if (c->state == TCP_CLOSED && !c->error_taken) {
        c->error_taken = true;
        return c->error != TCP_OK ? c->error : TCP_NOT_CONNECTED;
    }
    return tcp_is_over(c) ? 0 : TCP_AGAIN;
}

int64_t tcp_read_in_place(struct net_stack *stack, int connection, const uint8_t **data)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return TCP_INVALID;
    uint32_t unread = tcp_receive_unread(c);
    ASSERT(unread <= c->rcv_mask + 1);
    if (unread == 0)
        return read_ended(c);
    uint32_t begin = c->rcv_read & c->rcv_mask;
    *data = c->rcv_ring + begin;
    return (int64_t)min_size(unread, c->rcv_mask + 1 - begin);
}

void tcp_read_done(struct net_stack *stack, int connection, size_t bytes, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    ASSERT(c != NULL);
    ASSERT(bytes <= tcp_receive_unread(c));
    c->rcv_read += (uint32_t)bytes;
    bool open = c->state >= TCP_ESTABLISHED && c->state < TCP_CLOSE_WAIT;
    if (open && tcp_receive_window_worth_reporting(c))
        tcp_ack_send_now(stack, c, now_ns);
}

int64_t tcp_read(struct net_stack *stack, int connection, void *out, size_t bytes, bool peek, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return TCP_INVALID;
    uint32_t count = (uint32_t)min_size(bytes, tcp_receive_unread(c));
    if (count == 0)
        return bytes == 0 ? 0 : read_ended(c);
    uint32_t begin = c->rcv_read & c->rcv_mask;
    ASSERT(count <= c->rcv_mask + 1);
    uint32_t first = min_u32(count, c->rcv_mask + 1 - begin);
    memcpy(out, c->rcv_ring + begin, first);
    memcpy((uint8_t *)out + first, c->rcv_ring, count - first);
    if (!peek)
        tcp_read_done(stack, connection, count, now_ns);
    return count;
}

static uint32_t send_room(const struct tcp_connection *c)
{
    uint32_t kept = c->snd_end - c->snd_una; /* before the handshake's end this includes the SYN's number: 1 less */
    return kept < c->snd_buffer_bytes ? c->snd_buffer_bytes - kept : 0;
}

/* Puts as many bytes as fit into the send ring, and sends as many as may be sent. */
uint32_t tcp_ring_write(struct net_stack *stack, struct tcp_connection *c, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    uint32_t count = (uint32_t)min_size(bytes, send_room(c));
    if (count == 0)
        return 0;
    uint32_t begin = c->snd_end & c->snd_mask;
    ASSERT(count <= c->snd_mask + 1);
    uint32_t first = min_u32(count, c->snd_mask + 1 - begin);
    memcpy(c->snd_ring + begin, data, first);
    memcpy(c->snd_ring, (const uint8_t *)data + first, count - first);
    c->snd_end += count;
    tcp_busy_begin(c, now_ns);
    tcp_output(stack, c, now_ns);
    tcp_connection_check(c);
    return count;
}

/* Returns the reason why the application may not write; TCP_OK if it may. */
static enum tcp_result write_refused(struct tcp_connection *c)
{
    if (c->state == TCP_CLOSED && c->error != TCP_OK && !c->error_taken) {
        c->error_taken = true;
        return c->error;
    }
    bool open = tcp_is_opening(c) || c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
    return open && !c->fin_wanted ? TCP_OK : TCP_PIPE;
}

int64_t tcp_write(struct net_stack *stack, int connection, const void *data, size_t bytes, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return TCP_INVALID;
    enum tcp_result refused = write_refused(c);
    if (refused != TCP_OK)
        return refused;
    uint32_t count = tcp_ring_write(stack, c, data, bytes, now_ns);
    return count != 0 || bytes == 0 ? (int64_t)count : TCP_AGAIN;
}

/* ---- Closing ---- */

/* RFC 9293 §3.10.4: Queues a FIN after all data written. */
static void fin_queue(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    if (c->fin_wanted)
        return;
    c->fin_wanted = true;
    if (c->state == TCP_ESTABLISHED)
        c->state = TCP_FIN_WAIT_1;
    else if (c->state == TCP_CLOSE_WAIT)
        c->state = TCP_LAST_ACK;
    stack->tcp.changed = true;
    tcp_output(stack, c, now_ns);
    tcp_connection_check(c);
}

int tcp_shutdown(struct net_stack *stack, int connection, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return TCP_INVALID;
    if (tcp_is_over(c))
        return TCP_NOT_CONNECTED;
    if (c->fin_wanted)
        return TCP_PIPE;
    fin_queue(stack, c, now_ns);
    return TCP_OK;
}

void tcp_shutdown_read(struct net_stack *stack, int connection)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c != NULL)
        c->read_shut = true;
}

void tcp_close(struct net_stack *stack, int connection, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL)
        return;
    c->zero_copy = false;
    c->orphan = true;
    bool receiving = c->state >= TCP_SYN_RECEIVED && c->state <= TCP_LAST_ACK;
    if (tcp_is_over(c)) {
        tcp_connection_free(stack, c);
    } else if (c->state == TCP_SYN_SENT) {
        tcp_connection_end(stack, c, TCP_ABORTED); /* §3.10.4: delete the TCB */
    } else if (receiving && tcp_receive_unread(c) != 0) {
        tcp_reset_send(stack, c, now_ns); /* SHLD-3: data was lost, and the peer must know */
        tcp_connection_end(stack, c, TCP_ABORTED);
    } else {
        if (c->state == TCP_FIN_WAIT_2)
            tcp_fin_wait_2_limit(stack, c, now_ns);
        fin_queue(stack, c, now_ns);
    }
}

/* RFC 9293 §3.10.5: Sends an RST if the peer may hold state; after both FINs the connection is over anyway. */
void tcp_reset(struct net_stack *stack, int connection, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_of(stack, connection);
    if (c == NULL || tcp_is_over(c))
        return;
    if (c->state != TCP_SYN_SENT && c->state != TCP_CLOSING && c->state != TCP_LAST_ACK)
        tcp_reset_send(stack, c, now_ns);
    tcp_connection_end(stack, c, TCP_ABORTED);
}

void tcp_abort(struct net_stack *stack, int connection, uint64_t now_ns)
{
    tcp_reset(stack, connection, now_ns);
    tcp_close(stack, connection, now_ns);
}
