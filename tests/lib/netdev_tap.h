/* A TAP interface of this Linux machine as a network device. Documentation/networking/tuntap.rst */
#pragma once

#include "net/netdev.h"

struct netdev_tap_config {
    const char *name;              /* the interface's; a missing interface is made, which needs CAP_NET_ADMIN */
    uint8_t mac[NETDEV_MAC_BYTES]; /* the stack's; Linux's end has one of its own */
    bool offload;                  /* partial checksums both ways, as in virtio-net with CSUM and GUEST_CSUM */
};

/* Opens the program's only TAP device. Returns NULL, with a message on stderr, if the device does not open. */
struct netdev *netdev_tap_open(const struct netdev_tap_config *config);

/* Returns the file descriptor for poll(2): readable when a frame waits. */
int netdev_tap_fd(void);
