#include "tests/sim/side.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "net/stack_state.h"
#include "net/transport.h"
#include "tests/sim/random.h"

uint8_t side_stream_byte(uint32_t from, uint32_t connection, uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 8) * 17 + (offset >> 16) + from * 91 + connection * 57);
}

static void check_stream(const struct side *side, uint32_t connection, uint64_t offset, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ASSERT(data[i] == side_stream_byte(!side->index, connection, offset + i));
}

static void fill_stream(const struct side *side, uint32_t connection, uint64_t offset, uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = side_stream_byte(side->index, connection, offset + i);
}

static void half_end(struct half *half, bool broken, int reason, uint64_t now_ns)
{
    half->state = HALF_DONE;
    half->broken = half->broken || broken;
    half->reason = reason;
    half->done_ns = now_ns;
}

/* ---- Opening ---- */

static struct side *lwip_side;          /* whose game lwIP is in; its device must stay for ever */

void side_open(struct side *side, uint32_t index, bool lwip, const struct tcp_policy *policy, uint64_t seed,
               uint64_t now_ns)
{
    const uint8_t mac[NETDEV_MAC_BYTES] = { 2, 0, 0, 0, 0, (uint8_t)(1 + index) };
    uint8_t secret[32];
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)random_next(&seed);
    side->lwip = lwip;
    side->index = index;
    if (lwip) {
        ASSERT(index == 0 || index == 1);
        bool first = lwip_side == NULL;
        ASSERT(first || lwip_side == side);
        lwip_side = side;
        if (!first)
            return;
        netdev_memory_init(&side->device, mac, false);
        struct transport_config config = {
            .device = &side->device.device,
            .address = SIDE_ADDRESS_FIRST + index,
            .mask = 0xffffff00,
        };
        memcpy(config.secret, secret, sizeof secret);
        ASSERT(transport_init(&config, now_ns));
        for (uint16_t i = 0; index == 1 && i < SIDE_CONNECTION_COUNT_MAX; i++)
            ASSERT(transport_listen((uint16_t)(SIDE_PORT_FIRST + i)));
        return;
    }
    netdev_memory_init(&side->device, mac, false);
    struct net_config config = {
        .capacity = {
            .connection_count = 8,
            .listener_count = SIDE_CONNECTION_COUNT_MAX,
            .half_open_count = 8,
            .time_wait_count = 16,
            .segment_count = 256,
            .receive_bytes = 65536,
            .send_bytes = 65536,
        },
        .device = &side->device.device,
        .address = SIDE_ADDRESS_FIRST + index,
        .mask = 0xffffff00,
        .policy = *policy,
    };
    memcpy(config.secret, secret, sizeof secret);
    size_t bytes = (net_stack_bytes(&config.capacity) + NET_STACK_ALIGN - 1) & -(size_t)NET_STACK_ALIGN;
    side->memory = aligned_alloc(NET_STACK_ALIGN, bytes);
    memset(side->memory, 0xa5, bytes);          /* nothing may rely on zeroes */
    side->stack = net_stack_init(side->memory, bytes, &config, now_ns, NULL);
    ASSERT(side->stack != NULL);
}

void side_start(struct side *side, uint32_t connection_count, uint64_t now_ns)
{
    side->connection_count = connection_count;
    for (uint32_t i = 0; i < connection_count; i++) {
        struct half *half = &side->halves[i];
        uint16_t port = (uint16_t)(SIDE_PORT_FIRST + i);
        half->id = -1;
        if (side->index == 1) {
            side->listeners[i] = side->lwip ? -1 : tcp_listen(side->stack, port, 2, NULL);
            ASSERT(side->lwip || side->listeners[i] >= 0);
            continue;
        }
        uint32_t address = SIDE_ADDRESS_FIRST + 1;
        half->id = side->lwip ? transport_connect(address, port, now_ns)
                              : tcp_connect(side->stack, address, port, 0, NULL, now_ns);
        ASSERT(half->id >= 0);
        if (!side->lwip)
            half->state = HALF_OPEN;            /* tcp_write waits by itself */
    }
}

void side_close(struct side *side)
{
    free(side->memory);
    side->memory = NULL;
    side->stack = NULL;
}

/* ---- Ours ---- */

static bool half_is_over(const struct half *half)
{
    return half->written + half->read >= half->plan.abort_after_bytes
           || half->written + half->read >= half->plan.close_after_bytes;
}

/* The plan says: go, whatever is left. */
static void own_leave(struct side *side, struct half *half, uint64_t now_ns)
{
    if (half->written + half->read >= half->plan.abort_after_bytes)
        tcp_abort(side->stack, half->id, now_ns);
    else
        tcp_close(side->stack, half->id, now_ns);
    half_end(half, true, 0, now_ns);
}

static bool own_write(struct side *side, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &side->halves[connection];
    uint8_t data[16384];
    uint64_t left = half->plan.send_bytes - half->written;
    if (left == 0) {
        int result = half->shut ? TCP_AGAIN : tcp_shutdown(side->stack, half->id, now_ns);
        if (result == TCP_OK)
            half->shut = true;
        return result == TCP_OK;
    }
    if (now_ns < half->write_next_ns)
        return false;
    size_t bytes = min_size(min_size(left, half->plan.write_bytes_max), sizeof data);
    fill_stream(side, connection, half->written, data, bytes);
    int64_t count = tcp_write(side->stack, half->id, data, bytes, now_ns);
    if (count <= TCP_REFUSED) {                 /* told once, to whoever asks first */
        tcp_close(side->stack, half->id, now_ns);
        half_end(half, true, (int)count, now_ns);
        return true;
    }
    if (count <= 0)
        return false;
    half->written += (uint64_t)count;
    half->write_next_ns = now_ns + half->plan.write_pause_ns;
    return true;
}

static bool own_read(struct side *side, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &side->halves[connection];
    uint8_t data[16384];
    if (now_ns < half->read_next_ns || half->peer_shut)
        return false;
    size_t room = min_size(half->plan.read_bytes_max, sizeof data);
    int64_t count = tcp_read(side->stack, half->id, data, room, false, now_ns);
    if (count == TCP_AGAIN || count == TCP_NOT_CONNECTED)
        return false;
    if (count < 0) {
        tcp_close(side->stack, half->id, now_ns);
        half_end(half, true, (int)count, now_ns);
        return true;
    }
    check_stream(side, connection, half->read, data, (size_t)count);
    half->read += (uint64_t)count;
    half->peer_shut = count == 0;
    half->read_next_ns = now_ns + half->plan.read_pause_ns;
    return true;
}

/* A SYN that was long on its way opens another connection where the true one is over already. */
static void own_turn_away(struct side *side, uint32_t connection, uint64_t now_ns)
{
    int id = side->index == 1 ? tcp_accept(side->stack, side->listeners[connection]) : -1;
    if (id >= 0)
        tcp_abort(side->stack, id, now_ns);
}

static bool own_half_turn(struct side *side, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &side->halves[connection];
    if (half->state == HALF_WAITING) {
        half->id = tcp_accept(side->stack, side->listeners[connection]);
        if (half->id < 0)
            return false;
        half->state = HALF_OPEN;
        return true;
    }
    own_turn_away(side, connection, now_ns);
    if (half->state == HALF_DONE)
        return false;
    if (half_is_over(half)) {
        own_leave(side, half, now_ns);
        return true;
    }
    bool moved = own_write(side, connection, now_ns);
    if (half->state == HALF_OPEN)
        moved |= own_read(side, connection, now_ns);
    if (half->state == HALF_OPEN && half->shut && half->peer_shut) {
        tcp_close(side->stack, half->id, now_ns);
        half_end(half, false, 0, now_ns);
        moved = true;
    }
    return moved;
}

static bool own_turn(struct side *side, uint64_t now_ns)
{
    bool moved = net_input(side->stack, now_ns) != 0;
    for (uint32_t i = 0; i < side->connection_count; i++)
        moved |= own_half_turn(side, i, now_ns);
    net_idle(side->stack, now_ns);
    return moved;
}

/* ---- lwIP ---- */

static struct half *lwip_half_of(struct side *side, int id, uint32_t *connection)
{
    for (*connection = 0; *connection < side->connection_count; (*connection)++)
        if (side->halves[*connection].id == id && side->halves[*connection].state != HALF_DONE)
            return &side->halves[*connection];
    return NULL;
}

static void lwip_event(struct side *side, const struct transport_event *event, uint64_t now_ns)
{
    uint32_t connection;
    if (event->kind == TRANSPORT_ACCEPTED) {
        struct half *half = &side->halves[event->port - SIDE_PORT_FIRST];
        if (half->state == HALF_WAITING) {
            half->id = event->connection;
            half->state = HALF_OPEN;
        } else {
            transport_abort(event->connection, now_ns);     /* a SYN of an earlier life */
        }
        return;
    }
    struct half *half = lwip_half_of(side, event->connection, &connection);
    if (half == NULL)
        return;
    switch (event->kind) {
    case TRANSPORT_CONNECTED:
        half->state = HALF_OPEN;
        break;
    case TRANSPORT_DATA:
        check_stream(side, connection, half->read, event->data, event->bytes);
        half->read += event->bytes;
        break;
    case TRANSPORT_ENDED:
        half->peer_shut = true;
        break;
    case TRANSPORT_CLOSED:
        half_end(half, event->reason != TRANSPORT_DONE, event->reason, now_ns);
        break;
    default:
        break;
    }
}

static bool lwip_write(struct side *side, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &side->halves[connection];
    if (half->state != HALF_OPEN || half->broken)
        return false;
    if (half->written + half->read >= half->plan.abort_after_bytes) {
        half->broken = true;                    /* TRANSPORT_CLOSED follows and ends it */
        transport_abort(half->id, now_ns);
        return true;
    }
    uint64_t left = half->plan.send_bytes - half->written;
    if (left == 0 && !half->shut) {
        transport_close(half->id, now_ns);
        half->shut = true;
        return true;
    }
    uint8_t *message;
    if (left == 0 || now_ns < half->write_next_ns || (message = transport_message(half->id)) == NULL)
        return false;
    uint32_t bytes = (uint32_t)min_size(min_size(left, half->plan.write_bytes_max), TRANSPORT_MESSAGE_BYTES_MAX);
    fill_stream(side, connection, half->written, message, bytes);
    if (!transport_send(half->id, 0, bytes, now_ns))
        return false;
    half->written += bytes;
    half->write_next_ns = now_ns + half->plan.write_pause_ns;
    return true;
}

static bool lwip_turn(struct side *side, uint64_t now_ns)
{
    struct transport_event event;
    bool moved = false;
    while (transport_poll(now_ns, &event)) {
        lwip_event(side, &event, now_ns);
        moved = true;
    }
    for (uint32_t i = 0; i < side->connection_count; i++)
        moved |= lwip_write(side, i, now_ns);
    transport_idle(now_ns);
    return moved;
}

/* ---- Both ---- */

bool side_turn(struct side *side, uint64_t now_ns)
{
    return side->lwip ? lwip_turn(side, now_ns) : own_turn(side, now_ns);
}

uint64_t side_wake_ns(const struct side *side, uint64_t now_ns)
{
    uint64_t wake_ns = side->lwip ? transport_wake_ns() : net_wake_ns(side->stack);
    for (uint32_t i = 0; i < side->connection_count; i++) {
        const struct half *half = &side->halves[i];
        if (half->state != HALF_OPEN)
            continue;
        if (half->write_next_ns > now_ns && half->write_next_ns < wake_ns)
            wake_ns = half->write_next_ns;
        if (half->read_next_ns > now_ns && half->read_next_ns < wake_ns)
            wake_ns = half->read_next_ns;
    }
    return wake_ns;
}

void side_abort(struct side *side, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &side->halves[connection];
    if (half->state == HALF_DONE)
        return;
    if (half->id >= 0 && side->lwip) {
        if (!half->broken)
            transport_abort(half->id, now_ns);
        half->broken = true;
        return;
    }
    if (half->id >= 0)
        tcp_abort(side->stack, half->id, now_ns);
    half_end(half, true, 0, now_ns);
}

const char *side_leftover(const struct side *side)
{
    if (side->device.pool.rx_out_count != 0)
        return "received frames are still held";
    if (frame_pool_tx_held_count(&side->device.pool) != 0)
        return "transmit buffers are still held";
    if (side->lwip)
        return NULL;
    if (side->stack->tcp.half_open_used != 0)
        return "half-open connections are left";
    if (side->stack->tcp.time_wait_used != 0)
        return "connections are left in TIME-WAIT";
    for (uint32_t i = 0; i < side->stack->tcp.capacity.connection_count; i++)
        if (side->stack->tcp.connections[i].used)
            return "connections are left";
    return NULL;
}
