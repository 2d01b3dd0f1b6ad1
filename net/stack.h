/* The TCP/IP stack as one object: bytes and time in, bytes and state out.
 *
 * A stack is made in memory that its owner gives (net_stack_init) and takes no more afterwards. Several stacks can
 * live in one program: nothing here is global. Frames come from and go to a `struct netdev`. For IP packets without
 * Ethernet, host/library/netdev_ip.h is the device. `now_ns` is monotonic nanoseconds and never runs backwards. The
 * stack reads no clock, so time may be virtual.
 *
 *     net_input(stack, now);      -- takes what the device received; no reply that may wait is sent yet
 *     ... tcp_read, tcp_write ... -- net/tcp/tcp.h; net/ip/udp.h for datagrams
 *     net_idle(stack, now);       -- acknowledgements, timers, ARP, DHCP; call when nothing else is to be done
 *     net_next_deadline_ns(stack);         -- when net_idle next has a timer to run
 *
 * The application of the kernel includes net/transport.h alone; net/own/transport.c implements that interface with
 * this stack. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/netdev.h"
#include "net/tcp/tcp.h"

struct net_stack;

/* The capacity of a stack. net_stack_bytes returns its memory. */
struct net_capacity {
    uint32_t connection_count; /* open connections, accepted or not, and closing ones; at most 1024 */
    uint32_t listener_count;   /* at most 64 */
    uint32_t half_open_count;  /* SYNs answered, not yet acknowledged: bounds a SYN flood */
    uint32_t time_wait_count;  /* the oldest is given up for the newest */
    uint32_t segment_count;    /* segments in flight, a connection; a power of two */
    uint32_t receive_bytes;    /* receive buffer, a connection; a power of two, at most 2^30 */
    uint32_t send_bytes;       /* send buffer, a connection; a power of two, at most 2^30 */
    uint32_t message_count;    /* transmit buffers for messages, prepared or out; 0: all */
};

struct net_config {
    struct net_capacity capacity;
    struct netdev *device;
    uint32_t address; /* 0: ask DHCP */
    uint32_t mask;
    uint32_t gateway;                      /* 0: none */
    uint8_t gateway_mac[NETDEV_MAC_BYTES]; /* all 0: ask ARP */
    uint32_t lease_seconds;                /* the rest of the address's lease, from now; 0: no lease */
    uint32_t lease_server;                 /* the DHCP server that renews it */
    struct bytes dhcp_identity;            /* lent for the stack's life: net/ip/dhcp.h */
    uint16_t mtu_bytes;                    /* 0: the device's (and DHCP option 26's) */
    uint8_t secret[32]; /* fresh random bytes: ISNs (RFC 6528), ports (RFC 6056), timestamp offsets, xids */
    struct tcp_policy policy;
};

/* Returns the bytes that a stack of this capacity needs: a multiple of the alignment of its memory. */
size_t net_stack_bytes(const struct net_capacity *capacity);
enum { NET_STACK_ALIGN = 64 };

/* Makes a stack in `memory`, which stays the caller's and must outlive the stack. Returns NULL if the configuration
 * cannot be used; `why`, if given, then points at a literal with the reason. */
struct net_stack *net_stack_init(void *memory, size_t memory_bytes, const struct net_config *config, uint64_t now_ns,
                                 const char **why);

/* Takes received frames from the device until there are none, at most NET_INPUT_FRAMES_MAX. Returns their count. */
enum { NET_INPUT_FRAMES_MAX = 64 };
size_t net_input(struct net_stack *stack, uint64_t now_ns);

/* Sends acknowledgements that waited and output that found no buffer. Runs timers that are due, and polls the
 * device. */
void net_idle(struct net_stack *stack, uint64_t now_ns);

/* Returns the time at which net_idle next has work: 0 if at once, UINT64_MAX if never. */
uint64_t net_next_deadline_ns(const struct net_stack *stack);
