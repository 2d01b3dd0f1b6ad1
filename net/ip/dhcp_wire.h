/* DHCP messages. RFC 2131 §2, figure 1; options: RFC 2132. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DHCP_BOOTREQUEST = 1,
    DHCP_BOOTREPLY = 2,
    DHCP_HARDWARE_ETHERNET = 1,
    DHCP_COOKIE = 0x63825363, /* 99, 130, 83, 99 */

    /* RFC 2132 §9.6 */
    DHCP_DISCOVER = 1,
    DHCP_OFFER = 2,
    DHCP_REQUEST = 3,
    DHCP_ACK = 5,
    DHCP_NAK = 6,

    DHCP_OPTION_PAD = 0,
    DHCP_OPTION_MASK = 1,
    DHCP_OPTION_ROUTER = 3,
    DHCP_OPTION_MTU = 26,
    DHCP_OPTION_ADDRESS = 50,
    DHCP_OPTION_LEASE = 51,
    DHCP_OPTION_OVERLOAD = 52,
    DHCP_OPTION_TYPE = 53,
    DHCP_OPTION_SERVER = 54,
    DHCP_OPTION_PARAMETERS = 55,
    DHCP_OPTION_SIZE = 57,
    DHCP_OPTION_T1 = 58,
    DHCP_OPTION_T2 = 59,
    DHCP_OPTION_ROUTES = 121, /* RFC 3442 */
    DHCP_OPTION_END = 255,
    DHCP_OVERLOAD_FILE = 1,
    DHCP_OVERLOAD_SNAME = 2,
};

/* The options follow. */
struct dhcp_wire {
    uint8_t op;
    uint8_t htype;
    uint8_t hlen;
    uint8_t hops;
    uint32_t xid;
    uint16_t secs;
    uint16_t flags;
    uint32_t ciaddr;
    uint32_t yiaddr;
    uint32_t siaddr;
    uint32_t giaddr;
    uint8_t chaddr[16];
    uint8_t sname[64];
    uint8_t file[128];
    uint32_t cookie;
} __attribute__((packed));
static_assert(sizeof(struct dhcp_wire) == 240, "RFC 2131 §2");
static_assert(offsetof(struct dhcp_wire, chaddr) == 28, "RFC 2131 §2");
static_assert(offsetof(struct dhcp_wire, file) == 108, "RFC 2131 §2");

/* The value follows. PAD and END are one byte alone. */
struct dhcp_option_wire {
    uint8_t code;
    uint8_t bytes;
} __attribute__((packed));
static_assert(sizeof(struct dhcp_option_wire) == 2, "RFC 2132 §2");
