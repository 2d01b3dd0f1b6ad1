/* Datagrams of our own: headers, fragments, the way to the neighbour. RFC 791, RFC 1122 §3. */
#include "net/ip/ipv4_output.h"

#include "net/ip/arp.h"
#include "net/ip/checksum.h"
#include "net/ip/ip.h"
#include "net/ip/ipv4_route.h"

void ipv4_header_write(struct ipv4_wire *header, const struct ipv4_output *output, uint32_t payload_bytes)
{
    ASSERT(payload_bytes <= IPV4_DATAGRAM_BYTES_MAX - IPV4_HEADER_BYTES_MIN);
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

bool ipv4_output_send(struct net_ip *ip, struct tx_buffer *buffer, const struct ipv4_output *output,
                      uint32_t payload_bytes, uint64_t now_ns)
{
    static const uint8_t everyone[NETDEV_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    struct ethernet_wire *ethernet = (struct ethernet_wire *)buffer->data;
    uint32_t frame_bytes = IPV4_PAYLOAD_OFFSET + payload_bytes;
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);

    ipv4_header_write((struct ipv4_wire *)(buffer->data + sizeof *ethernet), output, payload_bytes);
    memcpy(ethernet->source, ip->device->mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_IPV4);
    IP_COUNT(ip, ipv4_tx_datagrams);

    if (ipv4_is_broadcast(ip, output->destination)) {
        memcpy(ethernet->destination, everyone, NETDEV_MAC_BYTES);
        return ethernet_send(ip, buffer, frame_bytes, 0, 0);
    }
    uint32_t next_hop;
    if (!ipv4_next_hop(ip, output->destination, &next_hop)) {
        IP_COUNT(ip, ipv4_tx_drop_no_route);
        ip->device->ops->tx_release(ip->device, buffer);
        return false;
    }
    /* Whoever we answer has spoken from another hardware address than the next hop's: it may have moved. */
    const uint8_t *known = output->link_destination != NULL ? arp_known(ip, next_hop) : NULL;
    if (known != NULL && memcmp(known, output->link_destination, NETDEV_MAC_BYTES) != 0)
        arp_doubt(ip, next_hop, now_ns);
    bool answers_on_link = output->link_destination != NULL && next_hop == output->destination
                           && (output->link_destination[0] & ETHERNET_GROUP_BIT_MASK) == 0;
    if (answers_on_link && known == NULL && !arp_is_chosen(ip, next_hop, now_ns)) {
        memcpy(ethernet->destination, output->link_destination, NETDEV_MAC_BYTES);
        return ethernet_send(ip, buffer, frame_bytes, 0, 0);
    }
    return arp_send(ip, buffer, frame_bytes, next_hop, output->initiated, now_ns);
}

uint32_t ipv4_payload_room(const struct net_ip *ip)
{
    uint32_t mtu_bytes = ip->interface.up ? ip->interface.mtu_bytes : ip->device->mtu_bytes;
    ASSERT(mtu_bytes >= IPV4_MTU_BYTES_MIN);
    return mtu_bytes - IPV4_HEADER_BYTES_MIN;
}

static bool ipv4_output_piece(struct net_ip *ip, const struct ipv4_output *output, const uint8_t *payload,
                              uint32_t bytes, uint64_t now_ns)
{
    struct tx_buffer *buffer = ethernet_send_begin(ip);
    if (buffer == NULL)
        return false;
    memcpy(buffer->data + IPV4_PAYLOAD_OFFSET, payload, bytes);
    if (output->head.count != 0 && (output->flags_offset & IPV4_OFFSET_MASK) == 0)
        memcpy(buffer->data + IPV4_PAYLOAD_OFFSET, output->head.data, output->head.count);
    return ipv4_output_send(ip, buffer, output, bytes, now_ns);
}

bool ipv4_output_copy(struct net_ip *ip, const struct ipv4_output *output, const uint8_t *payload,
                      uint32_t payload_bytes, uint64_t now_ns)
{
    uint32_t room = ipv4_payload_room(ip);
    if (payload_bytes <= room)
        return ipv4_output_piece(ip, output, payload, payload_bytes, now_ns);

    room &= ~(uint32_t)(IPV4_FRAGMENT_UNIT_BYTES - 1);
    ASSERT(room != 0);
    ASSERT(output->head.count <= IPV4_FRAGMENT_UNIT_BYTES);
    for (uint32_t at = 0; at < payload_bytes; at += room) {
        bool last = payload_bytes - at <= room;
        struct ipv4_output fragment = *output;
        fragment.flags_offset = (uint16_t)(at / IPV4_FRAGMENT_UNIT_BYTES | (last ? 0 : IPV4_MORE_FRAGMENTS));
        if (!ipv4_output_piece(ip, &fragment, payload + at, last ? payload_bytes - at : room, now_ns))
            return false;
    }
    return true;
}
