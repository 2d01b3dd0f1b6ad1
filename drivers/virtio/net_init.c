/* From a device in any state to one that sends and receives: the numbered steps of virtio 1.2 §3.1.1 and §5.1.5. */
#include "drivers/virtio/net.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/format.h"
#include "kernel/memory/memory.h"

enum {
    MTU_BYTES_MAX = NETDEV_FRAME_BYTES_MAX - 14,
    /* Each read is a VM exit of at least half a microsecond, mostly several: no reset takes that many. */
    RESET_READ_COUNT_MAX = 500000,
    /* The last of CONFIG_TRY_COUNT_MAX readings counts, even if all were torn: the host seldom changes the
     * configuration. */
    CONFIG_TRY_COUNT_MAX = 10,
};

/* The features that take the control queue. */
#define CONTROL_FEATURES (BIT(VIRTIO_NET_F_GUEST_ANNOUNCE) | BIT(VIRTIO_NET_F_CTRL_RX))

/* RING_PACKED, MQ and segmentation are among the features that are left out. */
static const uint64_t WANTED_FEATURES =
    BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_ANY_LAYOUT) | BIT(VIRTIO_F_EVENT_IDX) | BIT(VIRTIO_NET_F_MAC)
    | BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_MTU) | BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM)
    | BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_NET_F_CTRL_VQ) | CONTROL_FEATURES |
    /* virtio 1.2 §6.1: a device implemented in hardware asks for the platform's barriers; on x86 they are the ones
     * used here. */
    BIT(VIRTIO_F_ORDER_PLATFORM) | BIT(VIRTIO_F_ACCESS_PLATFORM);

static bool has(const struct virtio_net *net, unsigned bit) { return (net->features & BIT(bit)) != 0; }

/* virtio 1.2 §2.1.1: Adds a bit; only a reset clears bits. */
static void status_add(struct virtio_bus *bus, uint8_t bit)
{
    bus->ops->status_write(bus, bus->ops->status_read(bus) | bit);
}

/* Does steps 1 to 3. Firmware, GRUB or a Linux before this kernel may have left rings registered in memory that is
 * reused now. So the reset must be complete before anything else: virtio 1.2 §4.1.4.3.2 demands to wait until the
 * status reads 0. */
static enum virtio_net_error reset_and_acknowledge(struct virtio_bus *bus)
{
    bus->ops->status_write(bus, 0);
    for (uint32_t reads = 0; bus->ops->status_read(bus) != 0; reads++)
        if (reads == RESET_READ_COUNT_MAX)
            return VIRTIO_NET_RESET_TIMEOUT;
    status_add(bus, VIRTIO_STATUS_ACKNOWLEDGE);
    status_add(bus, VIRTIO_STATUS_DRIVER);
    return VIRTIO_NET_OK;
}

static uint32_t config_read(const struct virtio_net *net, uint16_t offset, uint8_t bytes)
{
    return net->bus->ops->config_read(net->bus, offset, bytes);
}

/* virtio 1.2 §2.5.1: Returns the features that the device offers, without those whose field lies past the end of its
 * configuration. */
static uint64_t features_offered(struct virtio_bus *bus)
{
    static const struct {
        uint8_t bit, end;
    } fields[] = {
        { VIRTIO_NET_F_MAC, VIRTIO_NET_CONFIG_MAC + NETDEV_MAC_BYTES },
        { VIRTIO_NET_F_STATUS, VIRTIO_NET_CONFIG_STATUS + 2 },
        { VIRTIO_NET_F_MTU, VIRTIO_NET_CONFIG_MTU + 2 },
    };
    uint64_t offered = bus->ops->features_read(bus);
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++)
        if (bus->config_bytes < fields[i].end)
            offered &= ~BIT(fields[i].bit);
    return offered;
}

/* virtio 1.2 §5.1.4.2: Returns true if VIRTIO_NET_F_MTU may be accepted: frames of that size must be received.
 * Buffers hold 1500 bytes, unless they can be merged; longer frames are then received, and dropped as too long. The
 * field may be read before the features are agreed (virtio 1.2 §3.1.1 step 4). */
static bool mtu_usable(struct virtio_net *net, uint64_t offered)
{
    if (!(offered & BIT(VIRTIO_NET_F_MTU)))
        return false;
    uint32_t mtu_bytes = config_read(net, VIRTIO_NET_CONFIG_MTU, 2);
    if (mtu_bytes < VIRTIO_NET_MTU_BYTES_MIN || (mtu_bytes > MTU_BYTES_MAX && !(offered & BIT(VIRTIO_NET_F_MRG_RXBUF))))
        return false;
    net->device.mtu_bytes = (uint16_t)min_size(mtu_bytes, MTU_BYTES_MAX);
    ASSERT(net->device.mtu_bytes >= VIRTIO_NET_MTU_BYTES_MIN);
    return true;
}

/* virtio 1.2 §5.1.3.1, §5.1.4: GUEST_ANNOUNCE takes the control queue and the status field, CTRL_RX the control queue.
 * Its command has data, which a legacy device without ANY_LAYOUT may want in a descriptor of their own. */
static void control_features_agree(struct virtio_net *net)
{
    uint64_t possible = has(net, VIRTIO_NET_F_CTRL_VQ) ? CONTROL_FEATURES : 0;
    if (!has(net, VIRTIO_NET_F_STATUS))
        possible &= ~BIT(VIRTIO_NET_F_GUEST_ANNOUNCE);
    if (net->bus->legacy && !has(net, VIRTIO_F_ANY_LAYOUT))
        possible &= ~BIT(VIRTIO_NET_F_CTRL_RX);
    net->features &= ~CONTROL_FEATURES | possible;
    if (!(net->features & CONTROL_FEATURES))
        net->features &= ~BIT(VIRTIO_NET_F_CTRL_VQ);
}

/* Does steps 4 to 6. */
static enum virtio_net_error features_agree(struct virtio_net *net)
{
    struct virtio_bus *bus = net->bus;
    uint64_t offered = features_offered(bus);
    net->features = offered & WANTED_FEATURES;
    /* virtio 1.2 §6.1: who accepts ACCESS_PLATFORM programs the IOMMU, or has none. A device that can do without the
     * feature is driven all the same. */
    if (bus->behind != NULL)
        net->features &= ~BIT(VIRTIO_F_ACCESS_PLATFORM);
    control_features_agree(net);
    if (!mtu_usable(net, offered))
        net->features &= ~BIT(VIRTIO_NET_F_MTU);
    if (bus->legacy)
        net->features &= UINT32_MAX;
    else if (!has(net, VIRTIO_F_VERSION_1))
        return VIRTIO_NET_NOT_VERSION_1;

    ASSERT((net->features & ~(offered & WANTED_FEATURES)) == 0);
    bus->ops->features_write(bus, net->features);
    if (bus->legacy)
        return VIRTIO_NET_OK; /* virtio 1.2 §3.1.2: steps 5 and 6 are unknown to legacy devices */
    status_add(bus, VIRTIO_STATUS_FEATURES_OK);
    if (bus->ops->status_read(bus) & VIRTIO_STATUS_FEATURES_OK)
        return VIRTIO_NET_OK;
    return offered & ~net->features & BIT(VIRTIO_F_ACCESS_PLATFORM) ? VIRTIO_NET_NEEDS_PLATFORM
                                                                    : VIRTIO_NET_FEATURES_REFUSED;
}

static void mac_read(struct virtio_bus *bus, uint8_t mac[NETDEV_MAC_BYTES])
{
    ASSERT(bus->config_bytes >= VIRTIO_NET_CONFIG_MAC + NETDEV_MAC_BYTES);
    for (uint16_t i = 0; i < NETDEV_MAC_BYTES; i++)
        mac[i] = (uint8_t)bus->ops->config_read(bus, VIRTIO_NET_CONFIG_MAC + i, 1);
}

/* virtio 1.2 §3.1.1 step 4 allows to read the configuration before the features are agreed. */
bool virtio_net_peek_mac(struct virtio_bus *bus, uint8_t mac[NETDEV_MAC_BYTES])
{
    bool known = reset_and_acknowledge(bus) == VIRTIO_NET_OK && features_offered(bus) & BIT(VIRTIO_NET_F_MAC);
    for (int tries = 0; known && tries < CONFIG_TRY_COUNT_MAX; tries++) {
        uint32_t generation = bus->ops->config_generation(bus);
        mac_read(bus, mac);
        if (bus->ops->config_generation(bus) == generation)
            break;
    }
    bus->ops->status_write(bus, 0);
    return known;
}

/* virtio 1.2 §5.1.5: Does steps 5 and 6. */
static void address_and_link_read(struct virtio_net *net)
{
    struct netdev *device = &net->device;
    ASSERT(device->ops == &virtio_net_ops);
    if (!has(net, VIRTIO_NET_F_MAC)) {
        /* A random local address; the low bits of the first byte say "locally administered" and "unicast". */
        uint64_t random = cycles_now() * UINT64_C(0x9e3779b97f4a7c15);
        device->mac[0] = 0x02;
        device->mac[1] = (uint8_t)(random >> 24);
        store_be32(device->mac + 2, (uint32_t)(random >> 32));
    }
    for (int tries = 0; tries < CONFIG_TRY_COUNT_MAX; tries++) {
        uint32_t generation = net->bus->ops->config_generation(net->bus);
        if (has(net, VIRTIO_NET_F_MAC))
            mac_read(net->bus, device->mac);
        device->link_up = !has(net, VIRTIO_NET_F_STATUS)
                          || (config_read(net, VIRTIO_NET_CONFIG_STATUS, 2) & VIRTIO_NET_S_LINK_UP);
        if (net->bus->ops->config_generation(net->bus) == generation)
            return;
    }
}

static enum virtio_net_error queue_init(struct virtio_net *net, struct virtqueue *queue, uint16_t number,
                                        uint16_t slot_count_max)
{
    struct virtio_bus *bus = net->bus;
    bool control = number == VIRTIO_NET_CONTROLQ;
    uint16_t size = bus->ops->queue_size_max(bus, number);
    if (size == 0)
        return VIRTIO_NET_NO_QUEUE;
    /* virtio 1.2 §5.1.6.6: towards a legacy device without ANY_LAYOUT the header stands in a descriptor of its own. */
    uint8_t chain_count = !control && (has(net, VIRTIO_F_VERSION_1) || has(net, VIRTIO_F_ANY_LAYOUT)) ? 1 : 2;
    if (!bus->queue_size_fixed) {
        size = (uint16_t)min_size(size, (size_t)slot_count_max * chain_count);
        while (size & (size - 1))
            size &= (uint16_t)(size - 1); /* virtio 1.2 §2.7: the largest power of two in it */
    }
    if (size > VIRTQ_SIZE_MAX || (size & (size - 1)) != 0 || size < chain_count)
        return VIRTIO_NET_QUEUE_SIZE;

    ASSERT(net->header_bytes != 0);
    const struct virtqueue_config config = {
        .size = size,
        .used_align_bytes = bus->legacy ? VIRTQ_LEGACY_ALIGN_BYTES : 64,
        .chain_count = chain_count,
        .head_bytes = control ? VIRTIO_NET_CTRL_HEAD_BYTES : net->header_bytes,
        .device_writes = number == VIRTIO_NET_RECEIVEQ,
        .device_answers = control,
        .event_index = has(net, VIRTIO_F_EVENT_IDX),
    };
    void *memory = memory_take(virtqueue_bytes(&config), VIRTQ_LEGACY_ALIGN_BYTES, "virtio rings");
    uint16_t *tokens = memory_take(size * sizeof *tokens, 64, "virtio tokens");
    virtqueue_init(queue, &config, memory, tokens);
    return bus->ops->queue_enable(bus, number, queue) ? VIRTIO_NET_OK : VIRTIO_NET_QUEUE_UNREACHABLE;
}

static enum virtio_net_error bring_up(struct virtio_net *net)
{
    struct virtio_bus *bus = net->bus;
    enum virtio_net_error error;

    /* Steps 1 to 6 */
    if ((error = reset_and_acknowledge(bus)) != VIRTIO_NET_OK || (error = features_agree(net)) != VIRTIO_NET_OK)
        return error;

    /* Step 7, which is virtio 1.2 §5.1.5 */
    address_and_link_read(net);
    net->merges = has(net, VIRTIO_NET_F_MRG_RXBUF);
    net->reads_status = has(net, VIRTIO_NET_F_STATUS);
    net->header_bytes = has(net, VIRTIO_F_VERSION_1) || net->merges ? 12 : 10; /* virtio 1.2 §5.1.6.1 */
    /* A frame of the host itself may lack its checksum, and says so. kvmtool sends such frames without GUEST_CSUM too,
     * against virtio 1.2 §5.1.6.4.1. Linux heeds the flag always. */
    net->checksum_flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    if (has(net, VIRTIO_NET_F_GUEST_CSUM))
        net->checksum_flags |= VIRTIO_NET_HDR_F_DATA_VALID;
    net->device.tx_checksum = has(net, VIRTIO_NET_F_CSUM);
    if ((error = queue_init(net, &net->rx, VIRTIO_NET_RECEIVEQ, VIRTIO_NET_RX_SLOT_COUNT_MAX)) != VIRTIO_NET_OK
        || (error = queue_init(net, &net->tx, VIRTIO_NET_TRANSMITQ, VIRTIO_NET_TX_SLOT_COUNT_MAX)) != VIRTIO_NET_OK)
        return error;
    /* The machine plays without announcements and filter if the third queue cannot be had. */
    bool control = has(net, VIRTIO_NET_F_CTRL_VQ)
                   && queue_init(net, &net->control, VIRTIO_NET_CONTROLQ, 1) == VIRTIO_NET_OK;
    net->announces = net->reads_always = control && has(net, VIRTIO_NET_F_GUEST_ANNOUNCE);
    net->filters = control && has(net, VIRTIO_NET_F_CTRL_RX);
    virtio_net_buffers_init(net);
    virtio_net_twin_init(net);
    ASSERT(net->rx_posted_max != 0);
    bool kick = virtio_net_rx_post(net);

    /* Step 8; only now may the device be notified. */
    status_add(bus, VIRTIO_STATUS_DRIVER_OK);
    if (kick) {
        bus->ops->kick(bus, VIRTIO_NET_RECEIVEQ);
        virtio_net_counters.rx_kicks++;
    }
    return VIRTIO_NET_OK;
}

enum virtio_net_error virtio_net_init(struct virtio_net *net, struct virtio_bus *bus)
{
    ASSERT(bus->ops != NULL);
    memset(net, 0, sizeof *net);
    net->bus = bus;
    net->device.ops = &virtio_net_ops;
    net->device.mtu_bytes = MTU_BYTES_MAX;
    enum virtio_net_error error = bring_up(net);
    if (error != VIRTIO_NET_OK)
        status_add(bus, VIRTIO_STATUS_FAILED);
    return error;
}

const char *virtio_net_error_text(enum virtio_net_error error)
{
    switch (error) {
    case VIRTIO_NET_OK:
        return "no error";
    case VIRTIO_NET_RESET_TIMEOUT:
        return "the network device does not come out of its reset";
    case VIRTIO_NET_NOT_VERSION_1:
        return "the network device offers modern registers but not VERSION_1";
    case VIRTIO_NET_NEEDS_PLATFORM:
        return "the network device insists on ACCESS_PLATFORM, and this machine has an IOMMU or encrypted memory";
    case VIRTIO_NET_FEATURES_REFUSED:
        return "the network device refuses the features it offered";
    case VIRTIO_NET_NO_QUEUE:
        return "the network device lacks a receive or a transmit queue";
    case VIRTIO_NET_QUEUE_SIZE:
        return "the network device's queues have an impossible size";
    case VIRTIO_NET_QUEUE_UNREACHABLE:
        return "the rings or the doorbells lie beyond what the network device can address";
    }
    return "unknown error";
}

static const struct {
    uint8_t bit;
    const char *name;
} feature_names[] = {
    { VIRTIO_F_VERSION_1, "VERSION_1" },
    { VIRTIO_F_ANY_LAYOUT, "ANY_LAYOUT" },
    { VIRTIO_F_EVENT_IDX, "EVENT_IDX" },
    { VIRTIO_F_ACCESS_PLATFORM, "ACCESS_PLATFORM" },
    { VIRTIO_F_ORDER_PLATFORM, "ORDER_PLATFORM" },
    { VIRTIO_NET_F_MAC, "MAC" },
    { VIRTIO_NET_F_STATUS, "STATUS" },
    { VIRTIO_NET_F_MTU, "MTU" },
    { VIRTIO_NET_F_CSUM, "CSUM" },
    { VIRTIO_NET_F_GUEST_CSUM, "GUEST_CSUM" },
    { VIRTIO_NET_F_MRG_RXBUF, "MRG_RXBUF" },
    { VIRTIO_NET_F_CTRL_VQ, "CTRL_VQ" },
    { VIRTIO_NET_F_GUEST_ANNOUNCE, "GUEST_ANNOUNCE" },
    { VIRTIO_NET_F_CTRL_RX, "CTRL_RX" },
};

size_t virtio_net_describe(const struct virtio_net *net, char *out, size_t out_bytes)
{
    const uint8_t *mac = net->device.mac;
    size_t at = format(out, out_bytes, "%s, %s, features", net->bus->place, net->bus->name);
    for (size_t i = 0; i < ARRAY_COUNT(feature_names); i++)
        if (has(net, feature_names[i].bit))
            at += format(out + at, out_bytes - at, " %s", feature_names[i].name);
    at += format(out + at, out_bytes - at, ", queues rx %u tx %u, mac %02x:%02x:%02x:%02x:%02x:%02x, mtu %u, link %s",
                 net->rx.size, net->tx.size, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], net->device.mtu_bytes,
                 net->device.link_up ? "up" : "down");
    ASSERT(at < out_bytes);
    return at;
}
