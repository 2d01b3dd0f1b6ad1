/* IPv4: what arrives is checked, what leaves gets its headers. RFC 791, RFC 1122 §3. */
#include "net/ipv4.h"

#include "net/checksum.h"
#include "net/stack_state.h"

/* ---- Addresses and routes ---- */

void ipv4_interface_set(struct net_stack *stack, uint32_t address, uint32_t mask, uint16_t mtu_bytes)
{
    stack->interface = (struct ipv4_interface){
        .up = address != 0,
        .address = address,
        .mask = mask,
        .mtu_bytes = mtu_bytes,
    };
    if (address != 0)
        ipv4_route_add(stack, address & mask, mask, 0);
}

bool ipv4_route_add(struct net_stack *stack, uint32_t destination, uint32_t mask, uint32_t gateway)
{
    struct ipv4_interface *interface = &stack->interface;
    if (interface->route_count == IPV4_ROUTE_COUNT_MAX)
        return false;
    interface->routes[interface->route_count++] = (struct ipv4_route){ destination & mask, mask, gateway };
    return true;
}

bool ipv4_next_hop(const struct net_stack *stack, uint32_t destination, uint32_t *next_hop)
{
    const struct ipv4_interface *interface = &stack->interface;
    const struct ipv4_route *best = NULL;
    if (!interface->up)
        return false;
    for (uint32_t i = 0; i < interface->route_count; i++) {
        const struct ipv4_route *route = &interface->routes[i];
        if ((destination & route->mask) == route->destination && (best == NULL || route->mask > best->mask))
            best = route;               /* the longest prefix: masks are contiguous */
    }
    if (best == NULL)
        return false;
    *next_hop = best->gateway != 0 ? best->gateway : destination;
    return true;
}

/* RFC 1122 §3.2.1.3; RFC 3021: a /31 has no broadcast address, and a /32 no neighbours. */
bool ipv4_is_broadcast(const struct net_stack *stack, uint32_t address)
{
    const struct ipv4_interface *interface = &stack->interface;
    if (address == IPV4_ADDRESS_BROADCAST)
        return true;
    if (!interface->up || ~interface->mask <= 1)
        return false;
    uint32_t host = address & ~interface->mask;
    return (address & interface->mask) == (interface->address & interface->mask)
        && (host == ~interface->mask || host == 0);     /* all ones, and the old form, all zeros */
}

/* ---- Receive ---- */

/* Options are skipped, but they must be well formed, and a source route is refused: RFC 1122 §3.2.1.8 lets a host do
 * so, Linux does by default, and those that processed them have regretted it (CVE-2019-12256). */
static bool ipv4_options_acceptable(struct net_stack *stack, const uint8_t *options, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes;) {
        uint8_t kind = options[at];
        if (kind == IPV4_OPTION_END)
            return true;
        if (kind == IPV4_OPTION_NOP) {
            at++;
            continue;
        }
        if (bytes - at < 2 || options[at + 1] < 2 || options[at + 1] > bytes - at) {
            NET_COUNT(stack, ipv4_rx_drop_bad_option);
            return false;
        }
        if (kind == IPV4_OPTION_LOOSE_ROUTE || kind == IPV4_OPTION_STRICT_ROUTE) {
            NET_COUNT(stack, ipv4_rx_drop_source_route);
            return false;
        }
        at += options[at + 1];
    }
    return true;
}

/* While there is no address, DHCP's answers come to one we do not have yet: RFC 2131 §4.1. */
static bool ipv4_destination_is_ours(const struct net_stack *stack, uint32_t destination, uint8_t protocol)
{
    if (stack->interface.up)
        return destination == stack->interface.address || ipv4_is_broadcast(stack, destination);
    return protocol == IPV4_PROTOCOL_UDP;
}

/* RFC 1122 §3.2.1.3: no source may be a broadcast, a multicast, ourselves, or off this link by definition. */
static bool ipv4_source_is_possible(const struct net_stack *stack, uint32_t source, uint8_t protocol)
{
    if (source == 0)
        return protocol == IPV4_PROTOCOL_UDP;           /* a DHCP client's */
    return ipv4_address_is_unicast(source) && !ipv4_is_broadcast(stack, source)
        && !(stack->interface.up && source == stack->interface.address);
}

bool ipv4_accept(struct net_stack *stack, uint8_t *data, uint32_t bytes, bool link_broadcast, bool checksum_good,
                 uint64_t now_ns, struct ipv4_packet *packet)
{
    const struct ipv4_wire *wire = (const struct ipv4_wire *)data;

    /* The header holds together. */
    if (bytes < IPV4_HEADER_BYTES_MIN) {
        NET_COUNT(stack, ipv4_rx_drop_short);
        return false;
    }
    if (wire->version_ihl >> 4 != IPV4_VERSION) {
        NET_COUNT(stack, ipv4_rx_drop_version);
        return false;
    }
    uint32_t header_bytes = (wire->version_ihl & 0xfu) * 4;
    if (header_bytes < IPV4_HEADER_BYTES_MIN || header_bytes > bytes) {
        NET_COUNT(stack, ipv4_rx_drop_header_bytes);
        return false;
    }
    uint32_t total_bytes = load_be16(&wire->total_bytes);
    if (total_bytes < header_bytes || total_bytes > bytes) {
        NET_COUNT(stack, ipv4_rx_drop_total_bytes);
        return false;
    }
    if (!NET_SKIP_CHECKSUMS && checksum_finish(checksum_sum(0, data, header_bytes)) != 0) {
        NET_COUNT(stack, ipv4_rx_drop_bad_checksum);
        return false;
    }

    /* It is for us, and from someone. */
    *packet = (struct ipv4_packet){
        .header = data,
        .header_bytes = header_bytes,
        .payload = data + header_bytes,
        .payload_bytes = total_bytes - header_bytes,
        .source = load_be32(&wire->source),
        .destination = load_be32(&wire->destination),
        .protocol = wire->protocol,
        .checksum_good = checksum_good,
    };
    packet->broadcast = link_broadcast || ipv4_is_broadcast(stack, packet->destination);
    if (!ipv4_destination_is_ours(stack, packet->destination, packet->protocol)) {
        NET_COUNT(stack, ipv4_rx_drop_not_ours);
        return false;
    }
    if (!ipv4_source_is_possible(stack, packet->source, packet->protocol)) {
        NET_COUNT(stack, ipv4_rx_drop_source);
        return false;
    }
    if (header_bytes > IPV4_HEADER_BYTES_MIN
        && !ipv4_options_acceptable(stack, data + IPV4_HEADER_BYTES_MIN, header_bytes - IPV4_HEADER_BYTES_MIN))
        return false;

    NET_COUNT(stack, ipv4_rx_datagrams);
    uint16_t flags_offset = load_be16(&wire->flags_offset);
    if ((flags_offset & (IPV4_MORE_FRAGMENTS | IPV4_OFFSET_MASK)) != 0)
        return ipv4_reassembly_accept(stack, packet, load_be16(&wire->id), flags_offset, now_ns);
    return true;
}

/* ---- Send ---- */

void ipv4_header_write(struct ipv4_wire *header, const struct ipv4_output *output, uint32_t payload_bytes)
{
    header->version_ihl = IPV4_VERSION << 4 | IPV4_HEADER_BYTES_MIN / 4;
    header->tos = output->tos;
    store_be16(&header->total_bytes, (uint16_t)(IPV4_HEADER_BYTES_MIN + payload_bytes));
    store_be16(&header->id, output->id);
    store_be16(&header->flags_offset, output->flags_offset);
    header->ttl = output->ttl != 0 ? output->ttl : IPV4_TTL_DEFAULT;
    header->protocol = output->protocol;
    header->checksum = 0;
    store_be32(&header->source, output->source);
    store_be32(&header->destination, output->destination);
    store_be16(&header->checksum, checksum_finish(checksum_sum(0, header, sizeof *header)));
}

struct tx_buffer *ipv4_output_begin(struct net_stack *stack)
{
    struct tx_buffer *buffer = stack->device->ops->tx_acquire(stack->device);
    if (buffer == NULL)
        NET_COUNT(stack, ethernet_tx_no_buffer);
    return buffer;
}

bool ipv4_output_send(struct net_stack *stack, struct tx_buffer *buffer, const struct ipv4_output *output,
                      uint32_t payload_bytes, uint64_t now_ns)
{
    static const uint8_t everyone[NETDEV_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    struct ethernet_wire *ethernet = (struct ethernet_wire *)buffer->data;
    uint32_t frame_bytes = IPV4_PAYLOAD_OFFSET + payload_bytes;

    ipv4_header_write((struct ipv4_wire *)(buffer->data + sizeof *ethernet), output, payload_bytes);
    memcpy(ethernet->source, stack->device->mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_IPV4);
    NET_COUNT(stack, ipv4_tx_datagrams);

    if (ipv4_is_broadcast(stack, output->destination)) {
        memcpy(ethernet->destination, everyone, NETDEV_MAC_BYTES);
        return net_frame_publish(stack, buffer, frame_bytes, 0, 0);
    }
    uint32_t next_hop;
    if (!ipv4_next_hop(stack, output->destination, &next_hop)) {
        NET_COUNT(stack, ipv4_tx_drop_no_route);
        stack->device->ops->tx_release(stack->device, buffer);
        return false;
    }
    return arp_send(stack, buffer, frame_bytes, next_hop, now_ns);
}

static bool ipv4_output_piece(struct net_stack *stack, const struct ipv4_output *output, const uint8_t *payload,
                              uint32_t bytes, uint64_t now_ns)
{
    struct tx_buffer *buffer = ipv4_output_begin(stack);
    if (buffer == NULL)
        return false;
    memcpy(buffer->data + IPV4_PAYLOAD_OFFSET, payload, bytes);
    return ipv4_output_send(stack, buffer, output, bytes, now_ns);
}

bool ipv4_output_copy(struct net_stack *stack, const struct ipv4_output *output, const uint8_t *payload,
                      uint32_t payload_bytes, uint64_t now_ns)
{
    uint32_t room = (stack->interface.up ? stack->interface.mtu_bytes : stack->device->mtu_bytes) - IPV4_HEADER_BYTES_MIN;
    if (payload_bytes <= room)
        return ipv4_output_piece(stack, output, payload, payload_bytes, now_ns);

    room &= ~(uint32_t)(IPV4_FRAGMENT_UNIT_BYTES - 1);
    for (uint32_t at = 0; at < payload_bytes; at += room) {
        bool last = payload_bytes - at <= room;
        struct ipv4_output fragment = *output;
        fragment.flags_offset = (uint16_t)(at / IPV4_FRAGMENT_UNIT_BYTES | (last ? 0 : IPV4_MORE_FRAGMENTS));
        if (!ipv4_output_piece(stack, &fragment, payload + at, last ? payload_bytes - at : room, now_ns))
            return false;
    }
    return true;
}
