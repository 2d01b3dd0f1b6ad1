/* Virtual I/O Device (VIRTIO) Version 1.2, and its legacy interfaces: numbers and layouts, in the document's words.
 * Everything the devices share with us is little-endian (legacy: guest-endian, which on x86 is the same). */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* virtio 1.2 §2.1 Device Status Field: masks. */
enum {
    VIRTIO_STATUS_ACKNOWLEDGE = 1,
    VIRTIO_STATUS_DRIVER = 2,
    VIRTIO_STATUS_DRIVER_OK = 4,
    VIRTIO_STATUS_FEATURES_OK = 8,
    VIRTIO_STATUS_NEEDS_RESET = 64,
    VIRTIO_STATUS_FAILED = 128,
    VIRTIO_STATUS_GONE = 255, /* ours: the reading of a register that has gone */
};

/* virtio 1.2 §6 Reserved Feature Bits and §5.1.3 (network): bit numbers. */
enum {
    VIRTIO_NET_F_CSUM = 0,
    VIRTIO_NET_F_GUEST_CSUM = 1,
    VIRTIO_NET_F_MTU = 3,
    VIRTIO_NET_F_MAC = 5,
    VIRTIO_NET_F_MRG_RXBUF = 15,
    VIRTIO_NET_F_STATUS = 16,
    VIRTIO_NET_F_CTRL_VQ = 17,
    VIRTIO_NET_F_CTRL_RX = 18,
    VIRTIO_NET_F_GUEST_ANNOUNCE = 21,
    VIRTIO_F_ANY_LAYOUT = 27, /* legacy only */
    VIRTIO_F_EVENT_IDX = 29,
    VIRTIO_F_VERSION_1 = 32,
    VIRTIO_F_ACCESS_PLATFORM = 33,
    VIRTIO_F_RING_PACKED = 34,
    VIRTIO_F_ORDER_PLATFORM = 36,
};

enum { VIRTIO_DEVICE_NET = 1 }; /* virtio 1.2 §5 Device Types */

/* virtio 1.2 §2.7.5 The Virtqueue Descriptor Table */
enum {
    VIRTQ_DESC_F_NEXT = 1,
    VIRTQ_DESC_F_WRITE = 2,
};
struct virtq_desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags;
    uint16_t next;
};
static_assert(sizeof(struct virtq_desc) == 16, "virtio 1.2 §2.7.5");

/* virtio 1.2 §2.7.6 The Virtqueue Available Ring; used_event follows the ring. */
enum { VIRTQ_AVAIL_F_NO_INTERRUPT = 1 };
struct virtq_avail {
    uint16_t flags;
    uint16_t idx;
    uint16_t ring[];
};

/* virtio 1.2 §2.7.8 The Virtqueue Used Ring; avail_event follows the ring. */
enum { VIRTQ_USED_F_NO_NOTIFY = 1 };
struct virtq_used_elem {
    uint32_t id;
    uint32_t len;
};
struct virtq_used {
    uint16_t flags;
    uint16_t idx;
    struct virtq_used_elem ring[];
};
static_assert(sizeof(struct virtq_used_elem) == 8 && offsetof(struct virtq_used, ring) == 4, "virtio 1.2 §2.7.8");

enum {
    VIRTQ_SIZE_MAX = 32768,          /* virtio 1.2 §2.7: a power of 2 not above it */
    VIRTQ_LEGACY_ALIGN_BYTES = 4096, /* virtio 1.2 §2.7.2 */
};

/* virtio 1.2 §4.1.2 PCI Device Discovery */
enum {
    VIRTIO_PCI_VENDOR = 0x1af4,
    VIRTIO_PCI_DEVICE_NET_TRANSITIONAL = 0x1000,
    VIRTIO_PCI_DEVICE_NET = 0x1041,
};

/* virtio 1.2 §4.1.4 Virtio Structure PCI Capabilities: cfg_type, and the capability's layout as offsets. */
enum {
    VIRTIO_PCI_CAP_COMMON_CFG = 1,
    VIRTIO_PCI_CAP_NOTIFY_CFG = 2,
    VIRTIO_PCI_CAP_ISR_CFG = 3,
    VIRTIO_PCI_CAP_DEVICE_CFG = 4,
    VIRTIO_PCI_CAP_TYPE_COUNT = 5,
};
enum {
    VIRTIO_PCI_CAP_CFG_TYPE = 3,
    VIRTIO_PCI_CAP_BAR = 4,
    VIRTIO_PCI_CAP_OFFSET = 8,
    VIRTIO_PCI_CAP_LENGTH = 12,
    VIRTIO_PCI_NOTIFY_CAP_MULT = 16,
};

/* virtio 1.2 §4.1.4.3 Common configuration structure layout: offsets. */
enum {
    VIRTIO_PCI_COMMON_DEVICE_FEATURE_SELECT = 0,
    VIRTIO_PCI_COMMON_DEVICE_FEATURE = 4,
    VIRTIO_PCI_COMMON_DRIVER_FEATURE_SELECT = 8,
    VIRTIO_PCI_COMMON_DRIVER_FEATURE = 12,
    VIRTIO_PCI_COMMON_CONFIG_MSIX_VECTOR = 16,
    VIRTIO_PCI_COMMON_NUM_QUEUES = 18,
    VIRTIO_PCI_COMMON_DEVICE_STATUS = 20,
    VIRTIO_PCI_COMMON_CONFIG_GENERATION = 21,
    VIRTIO_PCI_COMMON_QUEUE_SELECT = 22,
    VIRTIO_PCI_COMMON_QUEUE_SIZE = 24,
    VIRTIO_PCI_COMMON_QUEUE_MSIX_VECTOR = 26,
    VIRTIO_PCI_COMMON_QUEUE_ENABLE = 28,
    VIRTIO_PCI_COMMON_QUEUE_NOTIFY_OFF = 30,
    VIRTIO_PCI_COMMON_QUEUE_DESC = 32,
    VIRTIO_PCI_COMMON_QUEUE_DRIVER = 40,
    VIRTIO_PCI_COMMON_QUEUE_DEVICE = 48,
    VIRTIO_PCI_COMMON_BYTES = 56,
};

/* virtio 1.2 §4.1.4.10 Legacy Interfaces: A Note on PCI Device Layout: offsets into the I/O space of BAR 0. */
enum {
    VIRTIO_PCI_LEGACY_DEVICE_FEATURES = 0,
    VIRTIO_PCI_LEGACY_DRIVER_FEATURES = 4,
    VIRTIO_PCI_LEGACY_QUEUE_ADDRESS = 8,
    VIRTIO_PCI_LEGACY_QUEUE_SIZE = 12,
    VIRTIO_PCI_LEGACY_QUEUE_SELECT = 14,
    VIRTIO_PCI_LEGACY_QUEUE_NOTIFY = 16,
    VIRTIO_PCI_LEGACY_DEVICE_STATUS = 18,
    VIRTIO_PCI_LEGACY_ISR_STATUS = 19,
    VIRTIO_PCI_LEGACY_CONFIG = 20, /* without MSI-X; with it: */
    VIRTIO_PCI_LEGACY_CONFIG_MSIX_VECTOR = 20,
    VIRTIO_PCI_LEGACY_QUEUE_MSIX_VECTOR = 22,
    VIRTIO_PCI_LEGACY_CONFIG_WITH_MSIX = 24,
};

enum { VIRTIO_MSI_NO_VECTOR = 0xffff }; /* virtio 1.2 §4.1.5.1.2 */

/* virtio 1.2 §4.2.2 MMIO Device Register Layout and §4.2.4 Legacy interface: offsets. */
enum {
    VIRTIO_MMIO_MAGIC_VALUE = 0x000,
    VIRTIO_MMIO_VERSION = 0x004,
    VIRTIO_MMIO_DEVICE_ID = 0x008,
    VIRTIO_MMIO_DEVICE_FEATURES = 0x010,
    VIRTIO_MMIO_DEVICE_FEATURES_SEL = 0x014,
    VIRTIO_MMIO_DRIVER_FEATURES = 0x020,
    VIRTIO_MMIO_DRIVER_FEATURES_SEL = 0x024,
    VIRTIO_MMIO_GUEST_PAGE_SIZE = 0x028, /* legacy */
    VIRTIO_MMIO_QUEUE_SEL = 0x030,
    VIRTIO_MMIO_QUEUE_NUM_MAX = 0x034,
    VIRTIO_MMIO_QUEUE_NUM = 0x038,
    VIRTIO_MMIO_QUEUE_ALIGN = 0x03c, /* legacy */
    VIRTIO_MMIO_QUEUE_PFN = 0x040,   /* legacy */
    VIRTIO_MMIO_QUEUE_READY = 0x044,
    VIRTIO_MMIO_QUEUE_NOTIFY = 0x050,
    VIRTIO_MMIO_STATUS = 0x070,
    VIRTIO_MMIO_QUEUE_DESC_LOW = 0x080,
    VIRTIO_MMIO_QUEUE_DRIVER_LOW = 0x090,
    VIRTIO_MMIO_QUEUE_DEVICE_LOW = 0x0a0,
    VIRTIO_MMIO_CONFIG_GENERATION = 0x0fc,
    VIRTIO_MMIO_CONFIG = 0x100,
};
#define VIRTIO_MMIO_MAGIC UINT32_C(0x74726976) /* "virt" */

/* virtio 1.2 §5.1.2 Virtqueues, without VIRTIO_NET_F_MQ */
enum {
    VIRTIO_NET_RECEIVEQ = 0,
    VIRTIO_NET_TRANSMITQ = 1,
    VIRTIO_NET_CONTROLQ = 2,
    VIRTIO_NET_QUEUE_COUNT = 3,
};

/* virtio 1.2 §5.1.4 Device configuration layout: offsets. */
enum {
    VIRTIO_NET_CONFIG_MAC = 0,
    VIRTIO_NET_CONFIG_STATUS = 6,
    VIRTIO_NET_CONFIG_MTU = 10,
};
enum {
    VIRTIO_NET_S_LINK_UP = 1, /* masks of the status field */
    VIRTIO_NET_S_ANNOUNCE = 2,
    VIRTIO_NET_MTU_BYTES_MIN = 68, /* virtio 1.2 §5.1.4.1 */
};

/* virtio 1.2 §5.1.6.5 Control Virtqueue: a class, a command of it, the command's data, then the ack, which the device
 * writes. §5.1.6.5.2 Setting MAC Address Filtering: two lists of addresses, unicast first, each after its le32 length.
 * §5.1.6.5.4 Gratuitous Packet Sending: no data. */
enum {
    VIRTIO_NET_CTRL_MAC = 1,
    VIRTIO_NET_CTRL_MAC_TABLE_SET = 0,
    VIRTIO_NET_CTRL_ANNOUNCE = 3,
    VIRTIO_NET_CTRL_ANNOUNCE_ACK = 0,
    VIRTIO_NET_ERR = 1,
};
enum {
    VIRTIO_NET_CTRL_HEAD_BYTES = 2,
    VIRTIO_NET_CTRL_ACK_BYTES = 1,
};

/* virtio 1.2 §5.1.6 Device Operation: the header in front of each packet. */
enum {
    VIRTIO_NET_HDR_F_NEEDS_CSUM = 1,
    VIRTIO_NET_HDR_F_DATA_VALID = 2,
};
struct virtio_net_hdr {
    uint8_t flags;
    uint8_t gso_type;
    uint16_t hdr_len;
    uint16_t gso_size;
    uint16_t csum_start;
    uint16_t csum_offset;
    uint16_t num_buffers; /* virtio 1.2 §5.1.6.1: absent from legacy headers without VIRTIO_NET_F_MRG_RXBUF */
};
static_assert(sizeof(struct virtio_net_hdr) == 12, "virtio 1.2 §5.1.6");
