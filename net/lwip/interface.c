/* lwIP's interface over a network device: frames in without a copy, frames out with one. Knows no connection.
 *
 * In: a frame becomes a pbuf in place, and goes back to the device when lwIP frees the pbuf. If lwIP holds almost all
 * frames that the device may lend (out-of-order segments), a frame is copied into lwIP's pool instead. A fragment
 * always is: lwIP keeps it for 15 s, also without a connection, and the card may be exchanged meanwhile.
 * Out: lwIP's pbufs are a chain (headers, then the message by reference); a transmit buffer is one piece. The chain is
 * copied into the buffer, and the frame then belongs to the device alone. */
#include "net/lwip/port.h"

#include "lwip/etharp.h"
#include "lwip/prot/ethernet.h"
#include "lwip/prot/ip.h"
#include "netif/ethernet.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/checksum.h"
#include "net/ip/vlan.h"

enum {
    ETHERNET_BYTES = 14,
    IPV4_BYTES_MIN = 20,
    ARP_BYTES = 28,
    UDP_BYTES = 8,
    TYPE_AT = 12,
    L4_CHECKS = NETIF_CHECKSUM_CHECK_TCP | NETIF_CHECKSUM_CHECK_UDP,
    L4_GENERATES = NETIF_CHECKSUM_GEN_TCP | NETIF_CHECKSUM_GEN_UDP,
    RX_PBUF_COUNT = NETDEV_RX_BORROWED_MAX - 1, /* one more may be in hand, being copied */
};

struct rx_pbuf {
    struct pbuf_custom custom; /* first: lwIP hands this back */
    struct frame frame;
};

_Static_assert((TCP_OOSEQ_MAX_PBUFS + IP_REASS_MAX_PBUFS) * NETDEV_FRAME_BYTES_MAX <= TCP_WND, "see lwipopts.h");

struct netif interface;

static struct netdev *device;
static struct rx_pbuf rx_pbufs[RX_PBUF_COUNT];
static struct rx_pbuf *rx_free[RX_PBUF_COUNT]; /* last in, first out: the newest is still in the cache */
static size_t rx_free_count;
static bool stalled;

/* ---- In ---- */

static void rx_pbuf_free(struct pbuf *p)
{
    struct rx_pbuf *rx = (struct rx_pbuf *)p;
    device->ops->rx_release(device, &rx->frame);
    ASSERT(rx_free_count < RX_PBUF_COUNT);
    rx_free[rx_free_count++] = rx;
}

static struct pbuf *rx_pbuf_in_place(const struct frame *frame)
{
    if (rx_free_count == 0)
        return NULL;
    ASSERT(rx_free_count <= RX_PBUF_COUNT);
    ASSERT(frame->bytes <= UINT16_MAX);
    struct rx_pbuf *rx = rx_free[--rx_free_count];
    rx->custom.custom_free_function = rx_pbuf_free;
    rx->frame = *frame;
    return pbuf_alloced_custom(PBUF_RAW, (u16_t)frame->bytes, PBUF_REF, &rx->custom, frame->data, (u16_t)frame->bytes);
}

static struct pbuf *rx_pbuf_copied(const struct frame *frame)
{
    struct pbuf *copy = pbuf_alloc(PBUF_RAW, (u16_t)frame->bytes, PBUF_POOL);
    if (copy == NULL)
        return NULL;
    err_t err = pbuf_take(copy, frame->data, (u16_t)frame->bytes);
    ASSERT(err == ERR_OK);
    port_counters.rx_copied++;
    device->ops->rx_release(device, frame);
    return copy;
}

static bool is_fragment(const uint8_t *packet) { return (load_be16(packet + 6) & 0x3fff) != 0; }

static bool frame_is_fragment(const struct frame *frame)
{
    return load_be16(frame->data + TYPE_AT) == ETHTYPE_IP && is_fragment(frame->data + ETHERNET_BYTES);
}

/* Wraps a frame in a pbuf, in place or copied. Returns NULL if there is none. */
static struct pbuf *rx_pbuf_try(const struct frame *frame)
{
    struct pbuf *p = frame_is_fragment(frame) ? NULL : rx_pbuf_in_place(frame);
    return p != NULL ? p : rx_pbuf_copied(frame);
}

/* Wraps a frame in a pbuf; NULL: dropped. If all pbufs are held, one connection's out-of-order segments are freed: the
 * peer sends them again, and segments in order must get through. */
static struct pbuf *rx_pbuf_around(const struct frame *frame)
{
    ASSERT(frame->data != NULL);
    struct pbuf *p = rx_pbuf_try(frame);
    if (p == NULL && pbuf_free_ooseq_pending) { /* set by the pool that was empty */
        pbuf_free_ooseq();
        p = rx_pbuf_try(frame);
    }
    if (p == NULL) {
        port_counters.rx_drop_no_pbuf++;
        device->ops->rx_release(device, frame);
    }
    return p;
}

/* Returns true if the frame holds its headers whole. lwIP 2.1.3 reads headers before it checks their lengths. A
 * fragment also holds payload. The reply to a ping has the pbufs of its pieces, and lwIP asserts that none is empty
 * while the reply waits for ARP. */
static bool headers_are_whole(const uint8_t *at, uint32_t bytes)
{
    if (bytes < ETHERNET_BYTES)
        return false;
    const uint8_t *packet = at + ETHERNET_BYTES;
    uint32_t packet_bytes = bytes - ETHERNET_BYTES;
    switch (load_be16(at + TYPE_AT)) {
    case ETHTYPE_ARP:
        return packet_bytes >= ARP_BYTES;
    case ETHTYPE_IP: {
        if (packet_bytes < IPV4_BYTES_MIN)
            return false;
        uint32_t header_bytes = 4u * (packet[0] & 0x0f);
        uint32_t total_bytes = load_be16(packet + 2);
        if (header_bytes < IPV4_BYTES_MIN || total_bytes < header_bytes || total_bytes > packet_bytes)
            return false;
        if (is_fragment(packet) && total_bytes == header_bytes)
            return false;
        /* As long as lwIP has no address, it reads the UDP port of every packet. */
        return packet[9] != IP_PROTO_UDP || packet_bytes >= header_bytes + UDP_BYTES;
    }
    default:
        return true; /* lwIP counts and drops other types */
    }
}

/* Returns true if the sender of an ARP message is worth learning: no multicast MAC, and not our own address. */
static bool arp_sender_is_sane(const uint8_t *arp)
{
    bool own = load_le32(arp + 14) == ip4_addr_get_u32(netif_ip4_addr(&interface)) && load_le32(arp + 14) != 0;
    return (arp[8] & 1) == 0 && !own;
}

/* Returns true for a reply to our own address: an announcement names its sender's. */
static bool is_arp_answer(const uint8_t *arp)
{
    return load_be16(arp + 6) == ARP_REPLY && load_le32(arp + 24) == ip4_addr_get_u32(netif_ip4_addr(&interface));
}

static bool is_for_us(const uint8_t *mac)
{
    return (mac[0] & 1) != 0 || memcmp(mac, device->mac, NETDEV_MAC_BYTES) == 0;
}

static bool frame_is_acceptable(const struct frame *frame)
{
    ASSERT(frame->data != NULL);
    if (!headers_are_whole(frame->data, frame->bytes)) {
        port_counters.rx_drop_truncated++;
        return false;
    }
    if (!is_for_us(frame->data)) {
        port_counters.rx_drop_other_mac++;
        return false;
    }
    if (load_be16(frame->data + TYPE_AT) != ETHTYPE_ARP)
        return true;
    if (!arp_sender_is_sane(frame->data + ETHERNET_BYTES)) {
        port_counters.rx_drop_bad_arp_sender++;
        return false;
    }
    port_counters.rx_arp_answers += is_arp_answer(frame->data + ETHERNET_BYTES);
    return true;
}

bool interface_input(struct icmp_error *refused)
{
    struct frame frame;
    *refused = (struct icmp_error){ .port = 0 };
    ASSERT(device != NULL);
    if (!device->ops->rx_borrow(device, &frame))
        return false;
    port_counters.rx_frames++;
    if (!vlan_strip(&frame)) { /* the device knows the frame by its cookie */
        port_counters.rx_drop_vlan++;
        device->ops->rx_release(device, &frame);
        return true;
    }
    if (!frame_is_acceptable(&frame)) {
        device->ops->rx_release(device, &frame);
        return true;
    }

    bool is_ip = load_be16(frame.data + TYPE_AT) == ETHTYPE_IP;
    if (is_ip)
        icmp_error_parse(frame.data + ETHERNET_BYTES, refused);

    /* The device vouches for one frame. A datagram that came in fragments is checked after reassembly. */
    bool vouched = frame.checksum_good && is_ip && !frame_is_fragment(&frame);
    u16_t checks = NETIF_CHECKSUM_ENABLE_ALL & (u16_t) ~(device->tx_checksum ? L4_GENERATES : 0);
    NETIF_SET_CHECKSUM_CTRL(&interface, checks & (u16_t) ~(vouched ? L4_CHECKS : 0));

    struct pbuf *p = rx_pbuf_around(&frame);
    if (p != NULL)
        interface.input(p, &interface); /* always takes the pbuf */
    return true;
}

/* ---- Out ---- */

/* A checksum that the device completes: the first byte summed, and the field's offset from there. 0: no checksum to
 * complete. virtio 1.2 §5.1.6.2: the field holds the pseudo-header's sum. */
struct partial {
    uint16_t start, offset;
};

static struct partial partial_prepare(uint8_t *frame, uint32_t bytes)
{
    const uint8_t *packet = frame + ETHERNET_BYTES;
    ASSERT(bytes >= ETHERNET_BYTES);
    if (!device->tx_checksum || load_be16(frame + TYPE_AT) != ETHTYPE_IP || is_fragment(packet))
        return (struct partial){ 0, 0 };
    uint16_t offset = packet[9] == IP_PROTO_TCP ? 16 : packet[9] == IP_PROTO_UDP ? 6 : 0;
    if (offset == 0)
        return (struct partial){ 0, 0 };
    uint16_t start = (uint16_t)(ETHERNET_BYTES + 4 * (packet[0] & 0x0f));
    ASSERT(start + offset + 2u <= bytes);
    uint32_t pseudo = checksum_pseudo_ipv4(load_be32(packet + 12), load_be32(packet + 16), packet[9],
                                           (uint16_t)(bytes - start));
    store_be16(frame + start + offset, checksum_fold(pseudo));
    return (struct partial){ start, offset };
}

static err_t interface_output(struct netif *netif, struct pbuf *p)
{
    ASSERT(netif == &interface);
    if (p->tot_len > NETDEV_FRAME_BYTES_MAX || p->tot_len < ETHERNET_BYTES) {
        port_counters.tx_drop_oversize++;
        return ERR_BUF;
    }
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    if (buffer == NULL) {
        port_counters.tx_drop_no_buffer++;
        stalled = true;
        return ERR_MEM; /* lwIP keeps a TCP segment, and drops anything else */
    }
    u16_t copied = pbuf_copy_partial(p, buffer->data, p->tot_len, 0);
    ASSERT(copied == p->tot_len);
    if (load_be16(buffer->data + TYPE_AT) == ETHTYPE_IP
        && !icmp_error_may_leave(netif, buffer->data + ETHERNET_BYTES)) {
        device->ops->tx_release(device, buffer);
        return ERR_OK;
    }
    struct partial partial = partial_prepare(buffer->data, p->tot_len);
    bool sent = device->ops->tx_publish(device, buffer, p->tot_len, partial.start, partial.offset);
    device->ops->tx_release(device, buffer);
    if (!sent) {
        port_counters.tx_drop_no_buffer++;
        stalled = true;
        return ERR_MEM;
    }
    port_counters.tx_frames++;
    return ERR_OK;
}

bool interface_take_stalled(void)
{
    bool was = stalled;
    stalled = false;
    return was;
}

/* ---- Setting up ---- */

/* Copies what lwIP keeps of the device, which may be another card after the link was down. */
static void interface_take_device(struct netif *netif)
{
    ASSERT(device->mtu_bytes > 0);
    netif->hwaddr_len = NETDEV_MAC_BYTES;
    memcpy(netif->hwaddr, device->mac, NETDEV_MAC_BYTES);
    netif->mtu = device->mtu_bytes;
    NETIF_SET_CHECKSUM_CTRL(netif, NETIF_CHECKSUM_ENABLE_ALL & (u16_t) ~(device->tx_checksum ? L4_GENERATES : 0));
}

static err_t interface_set_up(struct netif *netif)
{
    ASSERT(netif == &interface);
    netif->name[0] = 'e';
    netif->name[1] = 'n';
    interface_take_device(netif);
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_IGMP;
    netif->output = etharp_output;
    netif->linkoutput = interface_output;
    return ERR_OK;
}

void interface_init(struct netdev *given)
{
    ASSERT(given != NULL);
    device = given;
    for (rx_free_count = 0; rx_free_count < RX_PBUF_COUNT; rx_free_count++)
        rx_free[rx_free_count] = &rx_pbufs[RX_PBUF_COUNT - 1 - rx_free_count];
    netif_add(&interface, NULL, NULL, NULL, device, interface_set_up, ethernet_input);
    netif_set_default(&interface);
    netif_set_up(&interface);
}

void interface_set_link(bool up)
{
    if (!up) {
        netif_set_link_down(&interface);
        return;
    }
    interface_take_device(&interface);
    netif_set_link_up(&interface);
}

void interface_set_mtu(uint16_t mtu_bytes) { interface.mtu = (u16_t)min_size(mtu_bytes, device->mtu_bytes); }
