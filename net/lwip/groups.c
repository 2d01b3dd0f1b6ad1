/* The multicast groups of net/transport.h over lwIP's IGMP, which speaks version 2. */
#include "net/lwip/port.h"

#include "lwip/igmp.h"

#include "base/assert.h"
#include "base/bytes.h"

#define ALL_SYSTEMS UINT32_C(0xe0000001) /* 224.0.0.1: lwIP is always in this group */

bool groups_joined(void)
{
    const struct igmp_group *all_systems = netif_igmp_data(&interface);
    return all_systems != NULL && all_systems->next != NULL;
}

void groups_filter_set(void)
{
    uint8_t macs[NETDEV_GROUP_COUNT_MAX][NETDEV_MAC_BYTES];
    struct netdev *device = interface.state;
    uint32_t count = 0;
    if (device->ops->groups_set == NULL)
        return;
    for (const struct igmp_group *group = netif_igmp_data(&interface); group != NULL; group = group->next) {
        ASSERT(count < NETDEV_GROUP_COUNT_MAX);
        uint32_t address = lwip_ntohl(ip4_addr_get_u32(&group->group_address));
        store_be16(macs[count], 0x0100); /* RFC 1112 §6.4 */
        store_be32(macs[count++] + 2, 0x5e000000 | (address & 0x7fffff));
    }
    device->ops->groups_set(device, (const uint8_t(*)[NETDEV_MAC_BYTES])macs, count);
}

bool transport_udp_join(uint32_t group)
{
    const ip4_addr_t address = { lwip_htonl(group) };
    if (!ip4_addr_ismulticast(&address) || group == ALL_SYSTEMS)
        return false;
    if (igmp_lookfor_group(&interface, &address) != NULL)
        return true;
    if (igmp_joingroup_netif(&interface, &address) != ERR_OK)
        return false;
    groups_filter_set();
    return true;
}

void transport_udp_leave(uint32_t group)
{
    const ip4_addr_t address = { lwip_htonl(group) };
    if (group == ALL_SYSTEMS || igmp_lookfor_group(&interface, &address) == NULL)
        return;
    igmp_leavegroup_netif(&interface, &address);
    groups_filter_set();
}
