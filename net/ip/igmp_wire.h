/* IGMP messages. RFC 9776 §4 (version 3), RFC 2236 §2 (version 2), RFC 1112 appendix I (version 1). */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IGMP_QUERY = 0x11,
    IGMP_REPORT_V1 = 0x12,
    IGMP_REPORT_V2 = 0x16,
    IGMP_LEAVE_V2 = 0x17,
    IGMP_REPORT_V3 = 0x22,

    IGMP_MODE_IS_INCLUDE = 1, /* types of a group record: RFC 9776 §4.2.12 */
    IGMP_MODE_IS_EXCLUDE = 2,
    IGMP_CHANGE_TO_INCLUDE_MODE = 3,
    IGMP_CHANGE_TO_EXCLUDE_MODE = 4,
};

/* Groups of the link itself. */
#define IGMP_ALL_SYSTEMS    UINT32_C(0xe0000001) /* 224.0.0.1: general queries go there */
#define IGMP_ALL_ROUTERS    UINT32_C(0xe0000002) /* 224.0.0.2: version 2 leaves there */
#define IGMP_ALL_ROUTERS_V3 UINT32_C(0xe0000016) /* 224.0.0.22: version 3 reports there */

/* Versions 1 and 2, and the beginning of a query of version 3. */
struct igmp_wire {
    uint8_t type;
    uint8_t max_response; /* tenths of a second; version 3: RFC 9776 §4.1.1 */
    uint16_t checksum;
    uint32_t group;
} __attribute__((packed));
static_assert(sizeof(struct igmp_wire) == 8, "IGMP message");

/* The sources follow, 4 bytes each. */
struct igmp_query_v3_wire {
    struct igmp_wire head;
    uint8_t flags;
    uint8_t query_interval;
    uint16_t source_count;
} __attribute__((packed));
static_assert(sizeof(struct igmp_query_v3_wire) == 12, "RFC 9776 §4.1");

/* The records follow. */
struct igmp_report_v3_wire {
    uint8_t type;
    uint8_t reserved;
    uint16_t checksum;
    uint16_t flags;
    uint16_t record_count;
} __attribute__((packed));
static_assert(sizeof(struct igmp_report_v3_wire) == 8, "RFC 9776 §4.2");
static_assert(offsetof(struct igmp_report_v3_wire, checksum) == offsetof(struct igmp_wire, checksum), "IGMP message");

/* The sources follow, 4 bytes each. */
struct igmp_record_wire {
    uint8_t type;
    uint8_t auxiliary_words;
    uint16_t source_count;
    uint32_t group;
} __attribute__((packed));
static_assert(sizeof(struct igmp_record_wire) == 8, "RFC 9776 §4.2");
