/* The policy words of pnet_open (host/library/peregrine_net.h lists them). */
#pragma once

#include <stdint.h>

#include "net/stack.h"

struct pnet_words {
    struct net_config config; /* the caller fills in capacity and device */
    uint16_t mtu_bytes;
    uint8_t prefix_bits; /* the width of our network; its broadcast addresses are refused */
    uint64_t start_us;
};

/* Reads the words. Returns NULL on success, else a message that quotes the bad word, valid until the next call. */
const char *pnet_words_read(const char *text, struct pnet_words *words);
