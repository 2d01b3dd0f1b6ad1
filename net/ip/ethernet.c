/* Ethernet. */
#include "net/ip/ethernet.h"

#include "net/ip/ip.h"

bool ethernet_accept(struct net_ip *ip, const struct frame *frame, struct ethernet_frame *out)
{
    const struct ethernet_wire *wire = (const struct ethernet_wire *)frame->data;
    IP_COUNT(ip, ethernet_rx_frames);
    if (frame->bytes < sizeof *wire) {
        IP_COUNT(ip, ethernet_rx_drop_short);
        return false;
    }
    bool broadcast = (wire->destination[0] & ETHERNET_GROUP_BIT_MASK) != 0;
    if (!broadcast && memcmp(wire->destination, ip->device->mac, NETDEV_MAC_BYTES) != 0) {
        IP_COUNT(ip, ethernet_rx_drop_not_ours);
        return false;
    }
    const struct ethernet_group_wire *group = (const struct ethernet_group_wire *)wire->destination;
    if (load_be16(&group->high) == ETHERNET_GROUPS_HIGH
        && (load_be32(&group->low) & ~ETHERNET_IPV4_GROUP_MASK) == ETHERNET_GROUPS_LOW
        && !ipv4_receives_group(ip, load_be32(&group->low), ETHERNET_IPV4_GROUP_MASK)) {
        IP_COUNT(ip, ethernet_rx_drop_group);
        return false;
    }
    *out = (struct ethernet_frame){
        .type = load_be16(&wire->type),
        .broadcast = broadcast,
        .source = wire->source,
        .payload = frame->data + sizeof *wire,
        .payload_bytes = frame->bytes - (uint32_t)sizeof *wire,
    };
    return true;
}

struct tx_buffer *ethernet_send_begin(struct net_ip *ip)
{
    struct tx_buffer *buffer = ip->device->ops->tx_acquire(ip->device);
    if (buffer == NULL)
        IP_COUNT(ip, ethernet_tx_no_buffer);
    return buffer;
}

bool ethernet_send(struct net_ip *ip, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                   uint16_t csum_offset)
{
    struct netdev *device = ip->device;
    ASSERT(bytes >= sizeof(struct ethernet_wire));
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);
    bool published = device->ops->tx_publish(device, buffer, bytes, csum_start, csum_offset);
    if (published)
        IP_COUNT(ip, ethernet_tx_frames);
    else
        IP_COUNT(ip, ethernet_tx_ring_full);
    device->ops->tx_release(device, buffer);
    return published;
}
