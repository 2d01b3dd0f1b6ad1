/* A TAP interface of this Linux machine as a network device. Documentation/networking/tuntap.rst */
#pragma once

#include "net/netdev.h"

struct netdev_tap_config {
    const char *name;           /* of the interface: made if it does not exist, which needs CAP_NET_ADMIN */
    uint8_t mac[NETDEV_MAC_BYTES];      /* ours; Linux's end has one of its own */
    bool offload;               /* partial checksums both ways, as virtio-net with CSUM and GUEST_CSUM has them */
};

/* The one TAP device of the program; NULL with a message on stderr if it cannot be had. */
struct netdev *netdev_tap_open(const struct netdev_tap_config *config);

/* Readable when a frame waits, for poll(2). */
int netdev_tap_fd(void);
