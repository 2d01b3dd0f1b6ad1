/* UDP. RFC 768, RFC 1122 §4.1. */
#include "net/udp.h"

#include "net/checksum.h"
#include "net/icmp_wire.h"
#include "net/stack_state.h"
#include "net/udp_wire.h"

static bool udp_is_bound(const struct net_stack *stack, uint16_t port)
{
    for (uint32_t i = 0; i < stack->udp.port_count; i++)
        if (stack->udp.ports[i] == port)
            return true;
    return false;
}

bool udp_bind(struct net_stack *stack, uint16_t port)
{
    struct udp *udp = &stack->udp;
    if (port == 0 || udp->port_count == UDP_PORT_COUNT_MAX)
        return false;
    if (!udp_is_bound(stack, port))
        udp->ports[udp->port_count++] = port;
    return true;
}

bool udp_accept(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns,
                struct udp_datagram *datagram)
{
    const struct udp_wire *wire = (const struct udp_wire *)packet->payload;
    NET_COUNT(stack, udp_rx_datagrams);
    if (packet->payload_bytes < sizeof *wire) {
        NET_COUNT(stack, udp_rx_drop_short);
        return false;
    }
    uint32_t bytes = load_be16(&wire->bytes);
    if (bytes < sizeof *wire || bytes > packet->payload_bytes) {
        NET_COUNT(stack, udp_rx_drop_length);
        return false;
    }
    if (!packet->checksum_good && !NET_SKIP_CHECKSUMS && load_be16(&wire->checksum) != 0) {    /* RFC 1122 §4.1.3.4: MUST check */
        uint32_t sum = checksum_pseudo_ipv4(packet->source, packet->destination, IPV4_PROTOCOL_UDP, (uint16_t)bytes);
        if (checksum_finish(checksum_sum(sum, packet->payload, bytes)) != 0) {
            NET_COUNT(stack, udp_rx_drop_bad_checksum);
            return false;
        }
    }
    *datagram = (struct udp_datagram){
        .source = packet->source,
        .destination = packet->destination,
        .source_port = load_be16(&wire->source_port),
        .destination_port = load_be16(&wire->destination_port),
        .data = packet->payload + sizeof *wire,
        .bytes = bytes - (uint32_t)sizeof *wire,
    };
    if (!udp_is_bound(stack, datagram->destination_port)) {
        NET_COUNT(stack, udp_rx_drop_no_port);
        if (stack->interface.up)        /* RFC 1122 §4.1.3.1 */
            icmp_error_send(stack, packet, ICMP_UNREACHABLE, ICMP_CODE_PORT_UNREACHABLE, now_ns);
        return false;
    }
    return true;
}

bool udp_send(struct net_stack *stack, uint16_t from_port, uint32_t address, uint16_t port, const void *data,
              size_t bytes, uint64_t now_ns)
{
    return udp_send_from(stack, stack->interface.address, from_port, address, port, data, bytes, now_ns);
}

bool udp_send_from(struct net_stack *stack, uint32_t source, uint16_t from_port, uint32_t address, uint16_t port,
                   const void *data, size_t bytes, uint64_t now_ns)
{
    uint32_t mtu_bytes = stack->interface.up ? stack->interface.mtu_bytes : stack->device->mtu_bytes;
    struct tx_buffer *buffer;
    if (bytes > mtu_bytes - IPV4_HEADER_BYTES_MIN - sizeof(struct udp_wire)
        || (buffer = ipv4_output_begin(stack)) == NULL) {
        NET_COUNT(stack, udp_tx_drop);
        return false;
    }
    struct udp_wire *wire = (struct udp_wire *)(buffer->data + IPV4_PAYLOAD_OFFSET);
    uint16_t udp_bytes = (uint16_t)(sizeof *wire + bytes);
    const struct ipv4_output output = {
        .source = source,
        .destination = address,
        .protocol = IPV4_PROTOCOL_UDP,
        .id = stack->ipv4_id++,
    };
    store_be16(&wire->source_port, from_port);
    store_be16(&wire->destination_port, port);
    store_be16(&wire->bytes, udp_bytes);
    wire->checksum = 0;
    memcpy(wire + 1, data, bytes);
    uint32_t sum = checksum_pseudo_ipv4(output.source, address, IPV4_PROTOCOL_UDP, udp_bytes);
    uint16_t checksum = checksum_finish(checksum_sum(sum, wire, udp_bytes));
    store_be16(&wire->checksum, checksum != 0 ? checksum : 0xffff);     /* RFC 768: 0 would mean "none" */
    if (!ipv4_output_send(stack, buffer, &output, udp_bytes, now_ns)) {
        NET_COUNT(stack, udp_tx_drop);
        return false;
    }
    NET_COUNT(stack, udp_tx_datagrams);
    return true;
}
