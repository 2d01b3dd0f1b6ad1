/* A network device that writes the frames of the device below it, both ways, to a file for Wireshark and tcpdump.
 * Partial checksums are written as they are: with offload, captured checksums of sent frames look wrong. */
#pragma once

#include <stdio.h>

#include "net/netdev.h"

struct netdev_pcap {
    struct netdev device; /* first: the stack gets a pointer to this */
    struct netdev *below;
    FILE *file;
    uint64_t (*clock_ns)(void);
};

/* Sets up a device over another and writes the file's header. The file is borrowed. `clock_ns` stamps each frame. */
void netdev_pcap_init(struct netdev_pcap *self, struct netdev *below, FILE *file, uint64_t (*clock_ns)(void));
