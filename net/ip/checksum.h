/* The Internet checksum: RFC 1071, updated in place by RFC 1624.
 *
 * A partial sum goes from call to call, and is opaque. Parts of one message are summed in order, each but the last of
 * an even number of bytes, at any alignment. Finished checksums are host order, as everything that store_be16 takes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*@ requires \valid_read((const uint8_t *)data + (0 .. bytes - 1));
    assigns \result \from sum, ((const uint8_t *)data)[0 .. bytes - 1]; */
/* Adds `bytes` of data to a sum, which begins with 0. */
uint32_t checksum_sum(uint32_t sum, const void *data, size_t bytes);

/*@ requires \valid_read((const uint8_t *)data + (0 .. bytes - 1));
    assigns \result \from sum, ((const uint8_t *)data)[0 .. bytes - 1]; */
/* Does the same without folding in between: the sum has 64 bits, and carries have come back in below. */
uint64_t checksum_sum_wide(uint64_t sum, const void *data, size_t bytes);

/* Adds up the pseudo-header of TCP and UDP over IPv4: RFC 9293 §3.1, RFC 768. All in host order. */
uint32_t checksum_pseudo_ipv4(uint32_t source, uint32_t destination, uint8_t protocol, uint16_t l4_bytes);

/* Folds a partial sum to 16 bits, host order. A device that completes the checksum wants this in its field (virtio 1.2
 * §5.1.6.2). */
static inline uint16_t checksum_fold(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16); /* < 2^17 */
    return __builtin_bswap16((uint16_t)((sum & 0xffff) + (sum >> 16)));
}

/* Returns the checksum, the complement of the folded sum. It is 0 over data that contains a right checksum. */
static inline uint16_t checksum_finish(uint32_t sum) { return (uint16_t)~checksum_fold(sum); }
