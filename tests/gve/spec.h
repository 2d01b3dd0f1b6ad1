/* Facts of gVNIC that the model knows and our driver does not use: commands, options and descriptors of other drivers.
 * drivers/gve/spec.h has the rest. */
#pragma once

#include "drivers/gve/spec.h"

enum { GVE_BAR_MSIX = 1 };

enum {
    GVE_ADMINQ_UNREGISTER_PAGE_LIST = 0x4, /* has the list's id */
    GVE_ADMINQ_DESTROY_TX_QUEUE = 0x7,     /* has the queue's id */
    GVE_ADMINQ_DESTROY_RX_QUEUE = 0x8,
    GVE_ADMINQ_DECONFIGURE_DEVICE_RESOURCES = 0x9,
    GVE_ADMINQ_CONFIGURE_RSS = 0xa,
    GVE_ADMINQ_SET_DRIVER_PARAMETER = 0xb,
    GVE_ADMINQ_REPORT_STATS = 0xc,
    GVE_ADMINQ_REPORT_LINK_SPEED = 0xd, /* has an address; the device writes 64 bits there, in Mbit/s */
    GVE_ADMINQ_VERIFY_DRIVER_COMPATIBILITY = 0xf,
    GVE_ADMINQ_OPCODE_END,
};

/* Errors are UINT32_C(0xfffffff0) and above. */
#define GVE_ADMINQ_STATUS_FAILED_PRECONDITION UINT32_C(0xfffffff5)
#define GVE_ADMINQ_STATUS_INVALID_ARGUMENT    UINT32_C(0xfffffff7)
#define GVE_ADMINQ_STATUS_NOT_FOUND           UINT32_C(0xfffffff8)
#define GVE_ADMINQ_STATUS_UNIMPLEMENTED       UINT32_C(0xfffffffe)

struct gve_verify_driver_compatibility {
    uint64_t info_bytes;
    uint64_t info_address; /* struct gve_driver_info */
};

struct gve_driver_info {
    uint8_t os_type; /* 1: Linux */
    uint8_t driver_major, driver_minor, driver_sub;
    uint32_t os_major, os_minor, os_sub;
    uint64_t capabilities[4]; /* bits GVE_CAPABILITY_* in the first */
    uint8_t os_text1[128], os_text2[128];
};
static_assert(sizeof(struct gve_driver_info) == 304, "driver info");
enum { GVE_CAPABILITY_GQI_QPL = 0, GVE_CAPABILITY_GQI_RDA = 1, GVE_CAPABILITY_DQO_RDA = 3 };

struct gve_set_driver_parameter {
    uint32_t type; /* GVE_PARAMETER_MTU */
    uint32_t reserved;
    uint64_t value;
};
enum { GVE_PARAMETER_MTU = 1 };

struct gve_report_stats {
    uint64_t bytes;
    uint64_t address;
    uint64_t interval_ms; /* 0: no more reports */
};

struct gve_configure_rss {
    uint16_t hash_types;
    uint8_t algorithm;
    uint8_t reserved;
    uint16_t key_bytes;
    uint16_t table_entries; /* 32 bits each */
    uint64_t key_address;
    uint64_t table_address;
};

enum { GVE_OPTION_JUMBO_FRAMES = 0x8 };
enum { GVE_OPTION_GQI_BYTES = 4, GVE_OPTION_DQO_RDA_BYTES = 8, GVE_OPTION_JUMBO_FRAMES_BYTES = 8 };
/* The contents of options: GQI's have the first word alone. */
struct gve_option_contents {
    uint32_t supported_features; /* GVE_FEATURE_JUMBO_FRAMES, in any of the formats' options */
    union {
        uint16_t max_mtu;               /* JUMBO_FRAMES */
        uint16_t tx_completion_entries; /* DQO_RDA; Linux 6.1 takes the ring's size from here */
    };
    uint16_t rx_buffer_entries; /* DQO_RDA, as before */
};
static_assert(sizeof(struct gve_option_contents) == 8, "device option");
enum { GVE_FEATURE_JUMBO_FRAMES = 0x4 };

/* GQI. A packet descriptor is GVE_TX_STD or GVE_TX_TSO. */
struct gve_tx_segment { /* GVE_TX_SEGMENT: the rest of a packet */
    uint8_t type_flags;
    uint8_t l3_offset; /* TSO, in 16-bit words */
    uint16_t reserved;
    uint16_t mss; /* TSO */
    uint16_t segment_bytes;
    uint64_t address;
};
/* A descriptor of the type GVE_TX_METADATA, second in a packet, has no data. */
union gve_tx_descriptor {
    struct gve_tx_packet packet;
    struct gve_tx_segment segment;
};
static_assert(sizeof(union gve_tx_descriptor) == 16, "tx descriptor");
enum {
    GVE_TX_TSO = 0x10,
    GVE_TX_SEGMENT = 0x20,
    GVE_TX_METADATA = 0x30,
    GVE_TX_TYPE = 0xf0, /* mask */
};
enum { GVE_RX_IPV6 = 0x0100 };

struct gve_dqo_tx_segmentation {
    uint32_t payload_bytes; /* 24 bits */
    uint16_t mss;           /* 14 bits */
    uint8_t header_bytes;
    uint8_t flex0;
    uint8_t type_flags;
    uint8_t flex[7];
};
union gve_dqo_tx_descriptor {
    struct gve_dqo_tx_packet packet;
    struct gve_dqo_tx_segmentation segmentation;
};
static_assert(sizeof(union gve_dqo_tx_descriptor) == 16, "DQO tx descriptor");
static_assert(offsetof(struct gve_dqo_tx_segmentation, type_flags) == offsetof(struct gve_dqo_tx_packet, type_flags),
              "DQO tx descriptor");
enum {
    GVE_DQO_TX_CONTEXT = 0x04,      /* metadata, before a packet */
    GVE_DQO_TX_SEGMENTATION = 0x05, /* before a large TCP segment */
    GVE_DQO_TX_TYPE = 0x1f,         /* mask */
    GVE_DQO_TX_REPORT = 0x80,       /* asks for a completion of the descriptors up to this one */
};
enum { GVE_DQO_RX_FORMAT = 1 };
