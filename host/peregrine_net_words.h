/* The policy words of pnet_open (host/peregrine_net.h lists them). */
#pragma once

#include <stdint.h>

#include "net/stack.h"

struct pnet_words {
    struct net_config config;       /* capacity and device are the caller's to fill in */
    uint16_t mtu_bytes;
    uint8_t prefix_bits;            /* of the network whose broadcast addresses are known as such */
    uint64_t start_us;
};

/* NULL on success, else a message that quotes the offending word, valid until the next call. */
const char *pnet_words_read(const char *text, struct pnet_words *words);
