/* TCP options, both ways. */
#pragma once

#include "net/tcp/connection.h"

/* Reads the options of a segment. Returns false if an option's length is impossible; the options before it count. */
bool tcp_options_parse(struct tcp_options *options, const uint8_t *field, uint32_t bytes);

/* The options of a SYN in Linux's order: MSS, SACK permitted, timestamps, NOP, window scale. */
struct tcp_syn_options {
    uint16_t mss;
    bool sack, timestamps, scaling;
    uint8_t scale;
    uint32_t timestamp, timestamp_echo;
};

/* Writes the options of a SYN. Returns their bytes. */
uint32_t tcp_options_write_syn(uint8_t *at, const struct tcp_syn_options *options);
