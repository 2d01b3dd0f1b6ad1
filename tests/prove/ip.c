/* VLAN tags, Ethernet and IPv4 headers: a frame of each length up to the longest header, and a full one; each ends
 * where the buffer ends. The stack's addresses and routes are any. Fragments go to reassembly, which has a proof of its
 * own. */
#include "net/ip/ip.h"
#include "net/ip/vlan.h"

static struct netdev device;
static struct net_ip ip;
static uint8_t bytes_of_frame[NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX];

bool ipv4_reassembly_accept(struct net_ip *of, struct ipv4_packet *packet, uint16_t id, uint16_t flags_offset,
                            uint64_t now_ns)
{
    (void)of, (void)packet, (void)id, (void)flags_offset, (void)now_ns;
    return false;
}

static void accept(uint32_t bytes)
{
    struct frame frame = { .data = bytes_of_frame + sizeof bytes_of_frame - bytes, .bytes = bytes };
    struct ethernet_frame ethernet;
    struct ipv4_packet packet;
    if (ethernet_accept(&ip, &frame, &ethernet))
        ipv4_accept(&ip, &ethernet, prove_number(0, 1), prove_number(0, INT64_MAX), &packet);
}

/* Takes the tags off. The frame that is left is one of those that accept takes: it ends where the buffer ends. */
static void strip(uint32_t bytes)
{
    struct frame frame = { .data = bytes_of_frame + sizeof bytes_of_frame - bytes, .bytes = bytes };
    vlan_strip(&frame);
}

void main(void)
{
    prove_any(bytes_of_frame, sizeof bytes_of_frame);
    prove_any(&device.mac, sizeof device.mac);
    ip.device = &device;
    ip.interface.up = prove_number(0, 1);
    ip.interface.address = prove_number(0, UINT32_MAX);
    ip.interface.mask = prove_number(0, UINT32_MAX);
    for (uint32_t bytes = 0; bytes <= NETDEV_TAGS_BYTES_MAX + sizeof(struct ethernet_wire); bytes++)
        strip(bytes);
    strip(sizeof bytes_of_frame);
    for (uint32_t bytes = 0; bytes <= sizeof(struct ethernet_wire) + IPV4_HEADER_BYTES_MAX + 1; bytes++)
        accept(bytes);
    accept(NETDEV_FRAME_BYTES_MAX);
}
