#include "tests/lib/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "net/stack_state.h"
#include "net/tcp/sockets.h"
#include "net/transport_path.h"
#include "tests/lib/random.h"
#include "tests/lib/stack_create.h"

uint8_t endpoint_stream_byte(uint32_t from, uint32_t connection, uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 8) * 17 + (offset >> 16) + from * 91 + connection * 57);
}

static void check_stream(const struct endpoint *endpoint, uint32_t connection, uint64_t offset, const uint8_t *data,
                         size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ASSERT(data[i] == endpoint_stream_byte(!endpoint->index, connection, offset + i));
}

static void fill_stream(const struct endpoint *endpoint, uint32_t connection, uint64_t offset, uint8_t *data,
                        size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = endpoint_stream_byte(endpoint->index, connection, offset + i);
}

static void half_end(struct half *half, bool broken, int reason, uint64_t now_ns)
{
    half->state = HALF_DONE;
    half->broken = half->broken || broken;
    half->reason = reason;
    half->done_ns = now_ns;
}

/* ---- Opening ---- */

static struct endpoint *lwip_endpoint; /* the endpoint that lwIP serves; its device must stay */

static void mac_of(uint32_t index, uint8_t mac[NETDEV_MAC_BYTES])
{
    memcpy(mac, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)(1 + index) }, NETDEV_MAC_BYTES);
}

void endpoint_open(struct endpoint *endpoint, uint32_t index, bool lwip, const struct tcp_policy *policy, uint64_t seed,
                   uint64_t now_ns)
{
    uint8_t mac[NETDEV_MAC_BYTES], secret[32];
    mac_of(index, mac);
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)random_from(&seed);
    endpoint->lwip = lwip;
    endpoint->index = index;
    if (lwip) {
        ASSERT(index == 0 || index == 1);
        bool first = lwip_endpoint == NULL;
        ASSERT(first || lwip_endpoint == endpoint);
        lwip_endpoint = endpoint;
        if (!first)
            return;
        netdev_memory_init(&endpoint->device, mac, false);
        endpoint->device.pool.rx_stays = !transport_alters_frames();
        struct transport_config config = {
            .device = &endpoint->device.device,
            .address = ENDPOINT_ADDRESS_FIRST + index,
            .mask = 0xffffff00,
        };
        memcpy(config.secret, secret, sizeof secret);
        ASSERT(transport_init(&config, now_ns));
        for (uint16_t i = 0; index == 1 && i < ENDPOINT_CONNECTION_COUNT_MAX; i++)
            ASSERT(transport_listen((uint16_t)(ENDPOINT_PORT_FIRST + i)));
        return;
    }
    netdev_memory_init(&endpoint->device, mac, false);
    struct net_config config = {
        .capacity = {
            .connection_count = 8,
            .listener_count = ENDPOINT_CONNECTION_COUNT_MAX,
            .half_open_count = 8,
            .time_wait_count = 16,
            .segment_count = 256,
            .receive_bytes = 65536,
            .send_bytes = 65536,
        },
        .device = &endpoint->device.device,
        .address = ENDPOINT_ADDRESS_FIRST + index,
        .mask = 0xffffff00,
        .policy = *policy,
    };
    memcpy(config.secret, secret, sizeof secret);
    endpoint->stack = stack_create(&config, now_ns, NULL);
    ASSERT(endpoint->stack != NULL);
}

void endpoint_neighbour_fix(struct endpoint *endpoint, uint64_t now_ns)
{
    uint8_t mac[NETDEV_MAC_BYTES];
    mac_of(!endpoint->index, mac);
    endpoint->device.device.point_to_point = true; /* the two never ask each other */
    arp_set_known(&endpoint->stack->ip, ENDPOINT_ADDRESS_FIRST + !endpoint->index, mac, now_ns);
}

void endpoint_neighbour_renew(struct endpoint *endpoint, uint64_t now_ns)
{
    arp_renew(&endpoint->stack->ip, now_ns);
    arp_lookup(&endpoint->stack->ip, ENDPOINT_ADDRESS_FIRST + !endpoint->index, true, now_ns);
}

static void crossing_start(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    uint16_t ports[2] = { (uint16_t)(ENDPOINT_CROSSING_PORT_FIRST + connection),
                          (uint16_t)(ENDPOINT_PORT_FIRST + connection) };
    struct half *half = &endpoint->halves[connection];
    endpoint->listeners[connection] = -1;
    half->id = tcp_connect(endpoint->stack, ENDPOINT_ADDRESS_FIRST + !endpoint->index, ports[!endpoint->index],
                           ports[endpoint->index], NULL, now_ns);
    ASSERT(half->id >= 0);
    half->state = HALF_OPEN;
}

void endpoint_start(struct endpoint *endpoint, uint32_t connection_count, uint32_t crossing, uint64_t now_ns)
{
    endpoint->connection_count = connection_count;
    for (uint32_t i = 0; i < connection_count; i++) {
        struct half *half = &endpoint->halves[i];
        uint16_t port = (uint16_t)(ENDPOINT_PORT_FIRST + i);
        half->id = -1;
        if ((crossing >> i & 1) != 0) {
            crossing_start(endpoint, i, now_ns);
            continue;
        }
        if (endpoint->index == 1) {
            endpoint->listeners[i] = endpoint->lwip ? -1 : tcp_listen(endpoint->stack, port, 2, NULL);
            ASSERT(endpoint->lwip || endpoint->listeners[i] >= 0);
            continue;
        }
        uint32_t address = ENDPOINT_ADDRESS_FIRST + 1;
        half->id = endpoint->lwip ? transport_connect(address, port, now_ns)
                                  : tcp_connect(endpoint->stack, address, port, 0, NULL, now_ns);
        ASSERT(half->id >= 0);
        if (!endpoint->lwip)
            half->state = HALF_OPEN; /* tcp_write waits by itself */
    }
}

void endpoint_close(struct endpoint *endpoint)
{
    free(endpoint->stack);
    endpoint->stack = NULL;
}

/* ---- Our stack ---- */

static bool half_is_over(const struct half *half)
{
    return half->written + half->read >= half->plan.abort_after_bytes
           || half->written + half->read >= half->plan.close_after_bytes;
}

/* Aborts or closes the half, as its plan says. Data may be left. */
static void own_leave(struct endpoint *endpoint, struct half *half, uint64_t now_ns)
{
    if (half->written + half->read >= half->plan.abort_after_bytes)
        tcp_abort(endpoint->stack, half->id, now_ns);
    else
        tcp_close(endpoint->stack, half->id, now_ns);
    half_end(half, true, 0, now_ns);
}

/* Returns how many bytes the next call writes, at most `most`. */
static size_t write_bytes_now(const struct half *half, size_t most)
{
    uint64_t left = half->plan.send_bytes - half->written;
    if (half->plan.recording)
        left = (half->burst == 0 ? half->plan.recording->bursts[0].digits : half->burst_end) - half->written;
    return min_size(min_size(left, half->plan.write_bytes_max), most);
}

/* Notes the bytes that a call has written, and the time of the next call. */
static void note_written(struct half *half, uint64_t count, uint64_t now_ns)
{
    const struct recording *recording = half->plan.recording;
    half->written += count;
    half->write_next_ns = now_ns + half->plan.write_pause_ns;
    if (!recording)
        return;
    if (half->burst == 0)
        half->burst_end = recording->bursts[half->burst++].digits;
    if (half->written == half->burst_end && half->burst < recording->burst_count) {
        half->write_next_ns = now_ns + recording->bursts[half->burst].pause_ns;
        half->burst_end += recording->bursts[half->burst++].digits;
    }
}

static bool own_write(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &endpoint->halves[connection];
    uint8_t data[16384];
    uint64_t left = half->plan.send_bytes - half->written;
    if (left == 0) {
        int result = half->shut ? TCP_AGAIN : tcp_shutdown(endpoint->stack, half->id, now_ns);
        if (result == TCP_OK)
            half->shut = true;
        return result == TCP_OK;
    }
    if (now_ns < half->write_next_ns)
        return false;
    size_t bytes = write_bytes_now(half, sizeof data);
    fill_stream(endpoint, connection, half->written, data, bytes);
    int64_t count = tcp_write(endpoint->stack, half->id, data, bytes, now_ns);
    if (count <= TCP_REFUSED) { /* reported once, to the first call that asks */
        tcp_close(endpoint->stack, half->id, now_ns);
        half_end(half, true, (int)count, now_ns);
        return true;
    }
    if (count <= 0)
        return false;
    note_written(half, (uint64_t)count, now_ns);
    return true;
}

static bool own_read(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &endpoint->halves[connection];
    uint8_t data[16384];
    if (now_ns < half->read_next_ns || half->peer_shut)
        return false;
    size_t room = min_size(half->plan.read_bytes_max, sizeof data);
    int64_t count = tcp_read(endpoint->stack, half->id, data, room, false, now_ns);
    if (count == TCP_AGAIN || count == TCP_NOT_CONNECTED)
        return false;
    if (count < 0) {
        tcp_close(endpoint->stack, half->id, now_ns);
        half_end(half, true, (int)count, now_ns);
        return true;
    }
    check_stream(endpoint, connection, half->read, data, (size_t)count);
    half->read += (uint64_t)count;
    half->peer_shut = count == 0;
    half->read_next_ns = now_ns + half->plan.read_pause_ns;
    return true;
}

/* Aborts a connection that a late SYN opened after the true connection was over. */
static void own_refuse_late_syn(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    int id = endpoint->index == 1 ? tcp_accept(endpoint->stack, endpoint->listeners[connection]) : -1;
    if (id >= 0)
        tcp_abort(endpoint->stack, id, now_ns);
}

static bool own_half_turn(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &endpoint->halves[connection];
    if (half->state == HALF_WAITING) {
        half->id = tcp_accept(endpoint->stack, endpoint->listeners[connection]);
        if (half->id < 0)
            return false;
        half->state = HALF_OPEN;
        return true;
    }
    own_refuse_late_syn(endpoint, connection, now_ns);
    if (half->state == HALF_DONE)
        return false;
    if (half_is_over(half)) {
        own_leave(endpoint, half, now_ns);
        return true;
    }
    bool moved = own_write(endpoint, connection, now_ns);
    if (half->state == HALF_OPEN)
        moved |= own_read(endpoint, connection, now_ns);
    if (half->state == HALF_OPEN && half->shut && half->peer_shut) {
        tcp_close(endpoint->stack, half->id, now_ns);
        half_end(half, false, 0, now_ns);
        moved = true;
    }
    return moved;
}

static bool own_turn(struct endpoint *endpoint, uint64_t now_ns)
{
    bool moved = net_input(endpoint->stack, now_ns) != 0;
    for (uint32_t i = 0; i < endpoint->connection_count; i++)
        moved |= own_half_turn(endpoint, i, now_ns);
    net_idle(endpoint->stack, now_ns);
    net_stack_check(endpoint->stack);
    return moved;
}

/* ---- lwIP ---- */

static struct half *lwip_half_of(struct endpoint *endpoint, int id, uint32_t *connection)
{
    for (*connection = 0; *connection < endpoint->connection_count; (*connection)++)
        if (endpoint->halves[*connection].id == id && endpoint->halves[*connection].state != HALF_DONE)
            return &endpoint->halves[*connection];
    return NULL;
}

static void lwip_event(struct endpoint *endpoint, const struct transport_event *event, uint64_t now_ns)
{
    uint32_t connection;
    if (event->kind == TRANSPORT_ACCEPTED) {
        struct half *half = &endpoint->halves[event->port - ENDPOINT_PORT_FIRST];
        if (half->state == HALF_WAITING) {
            half->id = event->connection;
            half->state = HALF_OPEN;
        } else {
            transport_abort(event->connection, now_ns); /* opened by a late SYN */
        }
        return;
    }
    struct half *half = lwip_half_of(endpoint, event->connection, &connection);
    if (half == NULL)
        return;
    switch (event->kind) {
    case TRANSPORT_CONNECTED:
        half->state = HALF_OPEN;
        break;
    case TRANSPORT_DATA:
        check_stream(endpoint, connection, half->read, event->payload.data, event->payload.count);
        half->read += event->payload.count;
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

static bool lwip_write(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &endpoint->halves[connection];
    if (half->state != HALF_OPEN || half->broken)
        return false;
    if (half->written + half->read >= half->plan.abort_after_bytes) {
        half->broken = true; /* TRANSPORT_CLOSED follows and ends it */
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
    uint32_t bytes = (uint32_t)write_bytes_now(half, TRANSPORT_MESSAGE_BYTES_MAX);
    fill_stream(endpoint, connection, half->written, message, bytes);
    if (!transport_send(half->id, 0, bytes, now_ns))
        return false;
    note_written(half, bytes, now_ns);
    return true;
}

static bool lwip_turn(struct endpoint *endpoint, uint64_t now_ns)
{
    struct transport_event event;
    bool moved = false;
    while (transport_poll(now_ns, &event)) {
        lwip_event(endpoint, &event, now_ns);
        moved = true;
    }
    for (uint32_t i = 0; i < endpoint->connection_count; i++)
        moved |= lwip_write(endpoint, i, now_ns);
    transport_idle(now_ns);
    return moved;
}

/* ---- Both ---- */

bool endpoint_turn(struct endpoint *endpoint, uint64_t now_ns)
{
    return endpoint->lwip ? lwip_turn(endpoint, now_ns) : own_turn(endpoint, now_ns);
}

uint64_t endpoint_next_deadline_ns(const struct endpoint *endpoint, uint64_t now_ns)
{
    uint64_t deadline_ns = endpoint->lwip ? transport_next_deadline_ns() : net_next_deadline_ns(endpoint->stack);
    for (uint32_t i = 0; i < endpoint->connection_count; i++) {
        const struct half *half = &endpoint->halves[i];
        if (half->state != HALF_OPEN)
            continue;
        if (half->write_next_ns > now_ns && half->write_next_ns < deadline_ns)
            deadline_ns = half->write_next_ns;
        if (half->read_next_ns > now_ns && half->read_next_ns < deadline_ns)
            deadline_ns = half->read_next_ns;
    }
    return deadline_ns;
}

void endpoint_abort(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns)
{
    struct half *half = &endpoint->halves[connection];
    if (half->state == HALF_DONE)
        return;
    if (half->id >= 0 && endpoint->lwip) {
        if (!half->broken)
            transport_abort(half->id, now_ns);
        half->broken = true;
        return;
    }
    if (half->id >= 0)
        tcp_abort(endpoint->stack, half->id, now_ns);
    half_end(half, true, 0, now_ns);
}

const char *endpoint_leftover(const struct endpoint *endpoint)
{
    if (endpoint->device.pool.rx_out_count != 0)
        return "received frames are still held";
    if (frame_pool_tx_held_count(&endpoint->device.pool) != 0)
        return "transmit buffers are still held";
    if (endpoint->lwip)
        return NULL;
    if (endpoint->stack->tcp.half_open_used != 0)
        return "half-open connections are left";
    if (endpoint->stack->tcp.time_wait_used != 0)
        return "connections are left in TIME-WAIT";
    for (uint32_t i = 0; i < endpoint->stack->tcp.capacity.connection_count; i++)
        if (endpoint->stack->tcp.connections[i].used)
            return "connections are left";
    return NULL;
}
