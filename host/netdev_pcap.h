/* A network device that writes the frames of the one below it, both ways, to a file that Wireshark and tcpdump read.
 * Partial checksums are written as they are: with offload, captured checksums of sent frames look wrong. */
#pragma once

#include <stdio.h>

#include "net/netdev.h"

struct netdev_pcap {
    struct netdev device;       /* first: the stack gets a pointer to this */
    struct netdev *below;
    FILE *file;
    uint64_t (*clock_ns)(void);
};

/* The file is borrowed and gets its header now. Stamps are what `clock_ns` says when a frame passes. */
void netdev_pcap_init(struct netdev_pcap *self, struct netdev *below, FILE *file, uint64_t (*clock_ns)(void));
