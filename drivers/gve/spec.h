/* Google Virtual NIC (gVNIC, PCI 1ae0:0042): numbers and layouts that this driver uses, in the words of the public
 * drivers; tests/gve/spec.h has others'. There is no public specification; the facts are those that the drivers of
 * Linux, FreeBSD and DPDK have in common.
 *
 * Registers, admin queue, GQI rings and their doorbells are big-endian: read a field by load_be16(&...) and the like.
 * DQO rings and their doorbells are little-endian. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GVE_PCI_VENDOR = 0x1ae0,
    GVE_PCI_DEVICE = 0x0042,
    GVE_BAR_REGISTERS = 0,
    GVE_BAR_DOORBELLS = 2, /* an array of 32-bit doorbells */
    GVE_PAGE_BYTES = 4096,
};

/* BAR0. A device of PCI revision 0 has its admin queue in the page `adminq_pfn`. Writing 0 there resets the device; the
 * register reads 0 when the reset is done. The last three registers are those of revision 1. */
struct gve_registers {
    uint32_t device_status; /* GVE_DEVICE_STATUS_* */
    uint32_t driver_status; /* GVE_DRIVER_STATUS_*, revision 1 */
    uint32_t max_tx_queues;
    uint32_t max_rx_queues;
    uint32_t adminq_pfn;
    uint32_t adminq_doorbell;      /* commands written since reset */
    uint32_t adminq_event_counter; /* commands done since reset */
    uint8_t reserved[3];
    uint8_t driver_version; /* takes a line of text, byte by byte */
    uint32_t adminq_base_hi;
    uint32_t adminq_base_lo;
    uint16_t adminq_bytes;
};
static_assert(offsetof(struct gve_registers, driver_version) == 0x1f, "BAR0");
static_assert(offsetof(struct gve_registers, adminq_bytes) == 0x28, "BAR0");

/* Masks */
enum {
    GVE_DEVICE_STATUS_RESET = 0x2, /* the device asks to be reset */
    GVE_DEVICE_STATUS_LINK_UP = 0x4,
    GVE_DEVICE_STATUS_IS_RESET = 0x10, /* revision 1: the answer to GVE_DRIVER_STATUS_RESET */
    GVE_DRIVER_STATUS_RUN = 0x1,
    GVE_DRIVER_STATUS_RESET = 0x2,
};

/* Admin queue commands */
enum {
    GVE_ADMINQ_DESCRIBE_DEVICE = 0x1,
    GVE_ADMINQ_CONFIGURE_DEVICE_RESOURCES = 0x2,
    GVE_ADMINQ_REGISTER_PAGE_LIST = 0x3,
    GVE_ADMINQ_CREATE_TX_QUEUE = 0x5,
    GVE_ADMINQ_CREATE_RX_QUEUE = 0x6,
    GVE_ADMINQ_GET_PTYPE_MAP = 0xe,
};

/* Status of a command; the driver writes 0 before. */
enum { GVE_ADMINQ_STATUS_PASSED = 1 };

#define GVE_QPL_ID_RAW_ADDRESSING UINT32_MAX /* the page list of a queue with bus addresses */

/* Queue formats */
enum { GVE_FORMAT_GQI_RDA = 1, GVE_FORMAT_GQI_QPL = 2, GVE_FORMAT_DQO_RDA = 3 };

struct gve_describe_device {
    uint64_t descriptor_address;
    uint32_t descriptor_version; /* GVE_DEVICE_DESCRIPTOR_VERSION */
    uint32_t available_bytes;
};
enum { GVE_DEVICE_DESCRIPTOR_VERSION = 1 };

struct gve_configure_device_resources {
    uint64_t counter_array; /* 32-bit event counters; the device writes them */
    uint64_t irq_doorbells; /* doorbell indices of the notification blocks; the device writes them */
    uint32_t counter_count;
    uint32_t irq_doorbell_count;
    uint32_t irq_doorbell_stride_bytes;
    uint32_t notify_base; /* the first block's vector: 0, management is last; 1, it is first */
    uint8_t queue_format;
    uint8_t padding[7];
};

struct gve_register_page_list {
    uint32_t id;
    uint32_t page_count;
    uint64_t address_list; /* 64-bit addresses */
    uint64_t page_bytes;   /* 0: GVE_PAGE_BYTES; Linux 6.1 sends that */
};

struct gve_create_tx_queue {
    uint32_t queue_id;
    uint32_t reserved;
    uint64_t resources_address; /* struct gve_queue_resources */
    uint64_t ring_address;
    uint32_t page_list_id; /* GVE_QPL_ID_RAW_ADDRESSING without lists, or 0 in DQO */
    uint32_t notify_id;
    uint64_t completion_ring_address; /* DQO */
    uint16_t ring_size;               /* GQI: 0 is the descriptor's */
    uint16_t completion_ring_size;    /* DQO */
    uint8_t padding[4];
};

struct gve_create_rx_queue {
    uint32_t queue_id;
    uint32_t index;
    uint32_t reserved;
    uint32_t notify_id;
    uint64_t resources_address;
    uint64_t descriptor_ring_address; /* DQO: completion ring */
    uint64_t data_ring_address;       /* DQO: buffer ring */
    uint32_t page_list_id;
    uint16_t ring_size; /* GQI: 0 is the descriptor's */
    uint16_t packet_buffer_bytes;
    uint16_t buffer_ring_size; /* DQO */
    uint8_t enable_rsc;
    uint8_t padding1;
    uint16_t header_buffer_bytes;
    uint8_t padding2[2];
};

struct gve_get_ptype_map {
    uint64_t bytes;
    uint64_t address;
};

struct gve_command {
    uint32_t opcode;
    uint32_t status;
    union {
        struct gve_describe_device describe_device;
        struct gve_configure_device_resources configure_device_resources;
        struct gve_register_page_list register_page_list;
        struct gve_create_tx_queue create_tx_queue;
        struct gve_create_rx_queue create_rx_queue;
        struct gve_get_ptype_map get_ptype_map;
        uint8_t bytes[56];
    };
};
static_assert(sizeof(struct gve_command) == 64 && offsetof(struct gve_command, bytes) == 8, "admin queue command");
static_assert(sizeof(struct gve_configure_device_resources) == 40, "configure device resources");
static_assert(sizeof(struct gve_register_page_list) == 24, "register page list");
static_assert(sizeof(struct gve_create_tx_queue) == 48, "create tx queue");
static_assert(sizeof(struct gve_create_rx_queue) == 56, "create rx queue");

/* The answer to DESCRIBE_DEVICE; options follow. */
struct gve_device_descriptor {
    uint64_t max_registered_pages;
    uint16_t reserved1;
    uint16_t tx_queue_entries;
    uint16_t rx_queue_entries;
    uint16_t default_num_queues;
    uint16_t mtu;
    uint16_t counters;
    uint16_t tx_pages_per_qpl;
    uint16_t rx_pages_per_qpl; /* GQI: entries of the data ring */
    uint8_t mac[6];
    uint16_t option_count;
    uint16_t total_bytes; /* with the options */
    uint8_t reserved2[6];
};
static_assert(sizeof(struct gve_device_descriptor) == 40, "device descriptor");

struct gve_device_option {
    uint16_t id; /* GVE_OPTION_* */
    uint16_t bytes;
    uint32_t required_features; /* a driver that does not know one of them ignores the option */
};
static_assert(sizeof(struct gve_device_option) == 8, "device option");
enum {
    GVE_OPTION_GQI_RAW_ADDRESSING = 0x1, /* the older form of GQI_RDA, without contents */
    GVE_OPTION_GQI_RDA = 0x2,
    GVE_OPTION_GQI_QPL = 0x3,
    GVE_OPTION_DQO_RDA = 0x4,
    GVE_OPTION_DQO_QPL = 0x7,
};

/* The device's answer to the creation of a queue. */
struct gve_queue_resources {
    uint32_t doorbell_index;
    uint32_t counter_index; /* GQI tx: descriptors done since the creation */
    uint8_t reserved[56];
};
static_assert(sizeof(struct gve_queue_resources) == 64, "queue resources");

/* Interrupt doorbells of GQI, masks */
#define GVE_IRQ_ACK   UINT32_C(0x80000000)
#define GVE_IRQ_MASK  UINT32_C(0x40000000)
#define GVE_IRQ_EVENT UINT32_C(0x20000000)

/* GQI tx descriptors. `address` is a bus address, or an offset into the queue's page list. The doorbell takes the count
 * of descriptors published since the creation. */
struct gve_tx_packet {      /* the first of a packet, and the only one of ours */
    uint8_t type_flags;     /* type in the upper four bits */
    uint8_t l4_csum_offset; /* offset of the checksum in the L4 header, in 16-bit words */
    uint8_t l4_hdr_offset;  /* offset of the L4 header in the packet, in 16-bit words */
    uint8_t descriptor_count;
    uint16_t bytes;         /* the packet's */
    uint16_t segment_bytes; /* this descriptor's */
    uint64_t address;
};
static_assert(sizeof(struct gve_tx_packet) == 16, "tx descriptor");
enum { GVE_TX_STD = 0x00, GVE_TX_L4_CHECKSUM = 0x01 };

/* GQI rx: entry n of the data ring holds the address of the buffer that entry n of the descriptor ring will describe.
 * The frame begins GVE_RX_PAD_BYTES into the buffer. The doorbell takes the count of buffers posted since the creation.
 * Sequence numbers run from 1 to 7 and round again; a descriptor is new if it has the next one. */
struct gve_rx_descriptor {
    uint8_t padding[48];
    uint32_t rss_hash;
    uint16_t mss;
    uint16_t reserved;
    uint8_t header_bytes;  /* L2 to L4, with the pad */
    uint8_t header_offset; /* in units of 64 bytes */
    uint16_t checksum;     /* one's complement sum from the L3 header on; 0: none */
    uint16_t bytes;        /* with the pad */
    uint16_t flags_seq;    /* GVE_RX_* */
};
static_assert(sizeof(struct gve_rx_descriptor) == 64, "rx descriptor");
enum {
    GVE_RX_PAD_BYTES = 2,
    GVE_RX_SEQ = 0x0007, /* mask */
    GVE_RX_SEQ_LAST = 7,
    GVE_RX_FRAGMENT = 0x0040, /* IP's */
    GVE_RX_IPV4 = 0x0080,
    GVE_RX_TCP = 0x0200,
    GVE_RX_UDP = 0x0400,
    GVE_RX_ERROR = 0x0800,
    GVE_RX_CONTINUES = 0x2000, /* the packet goes on in the next buffer */
};

/* DQO rings are little-endian. The doorbells of the tx ring and of the rx buffer ring take the index that follows the
 * last published entry. A completion is new if its generation bit is that of this round: 1, 0, 1, ... */
enum { GVE_DQO_IRQ_ENABLE = 0x01 };

struct gve_dqo_tx_packet {
    uint64_t address;
    uint8_t type_flags; /* GVE_DQO_TX_* */
    uint8_t reserved0;
    uint16_t reserved1;
    uint16_t tag;   /* comes back in the packet's completion */
    uint16_t bytes; /* this descriptor's, 14 bits */
};
static_assert(sizeof(struct gve_dqo_tx_packet) == 16, "DQO tx descriptor");
enum {
    GVE_DQO_TX_PACKET = 0x0c, /* the type, lower five bits */
    GVE_DQO_TX_END = 0x20,    /* the packet's last descriptor */
    GVE_DQO_TX_CHECKSUM = 0x40,
};

struct gve_dqo_tx_completion {
    uint16_t id_type; /* queue in bits 10..0, GVE_DQO_COMPLETION_* in bits 13..11, generation in bit 15 */
    uint16_t value;   /* a tag, or the index after the last descriptor that was taken */
    uint32_t reserved;
};
static_assert(sizeof(struct gve_dqo_tx_completion) == 8, "DQO tx completion");
enum {
    GVE_DQO_COMPLETION_MISS = 1,
    GVE_DQO_COMPLETION_PACKET = 2,
    GVE_DQO_COMPLETION_REINJECTION = 3,
    GVE_DQO_COMPLETION_DESCRIPTORS = 4,
    GVE_DQO_COMPLETION_TYPE_SHIFT = 11,
    GVE_DQO_COMPLETION_GENERATION = 0x8000, /* mask */
};

struct gve_dqo_rx_buffer {
    uint16_t id; /* comes back in the completion */
    uint16_t reserved0;
    uint32_t reserved1;
    uint64_t address;
    uint64_t header_address; /* for split headers */
    uint64_t reserved2;
};
static_assert(sizeof(struct gve_dqo_rx_buffer) == 32, "DQO rx buffer");

struct gve_dqo_rx_completion {
    uint8_t format;
    uint8_t flags; /* GVE_DQO_RX_ERROR */
    uint16_t packet_type;
    uint16_t bytes; /* 14 bits, without a pad, and GVE_DQO_RX_GENERATION */
    uint16_t header_bytes;
    uint8_t status; /* GVE_DQO_RX_* */
    uint8_t status1;
    uint16_t reserved0;
    uint16_t buffer_id;
    uint16_t checksum;
    uint32_t hash;
    uint32_t reserved1[2];
    uint32_t timestamp;
};
static_assert(sizeof(struct gve_dqo_rx_completion) == 32, "DQO rx completion");
static_assert(offsetof(struct gve_dqo_rx_completion, buffer_id) == 12, "DQO rx completion");
enum {
    GVE_DQO_RX_ERROR = 0x04,
    GVE_DQO_RX_PACKET_TYPE = 0x03ff, /* mask */
    GVE_DQO_RX_BYTES = 0x3fff,       /* mask */
    GVE_DQO_RX_GENERATION = 0x4000,  /* mask */
    GVE_DQO_RX_DONE = 0x01,
    GVE_DQO_RX_END = 0x02,             /* the packet's last buffer */
    GVE_DQO_RX_HEADERS_CHECKED = 0x08, /* the device has looked at L3 and L4 */
    GVE_DQO_RX_BAD_IP_CHECKSUM = 0x10,
    GVE_DQO_RX_BAD_L4_CHECKSUM = 0x20,
};

/* The answer to GET_PTYPE_MAP: the headers of each packet type. */
struct gve_packet_type {
    uint8_t l3, l4; /* GVE_L3_*, GVE_L4_*; 0: unknown */
};
enum { GVE_PACKET_TYPES = 1024 };
enum { GVE_L3_IPV4 = 2, GVE_L3_IPV6 = 3, GVE_L4_TCP = 2, GVE_L4_UDP = 3 };
