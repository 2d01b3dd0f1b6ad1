/* The compiler and the platform, as lwIP asks for them. Included by lwIP's lwip/arch.h before everything else. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/format.h"

#define BYTE_ORDER        LITTLE_ENDIAN
#define lwip_htons(value) __builtin_bswap16(value)
#define lwip_ntohs(value) __builtin_bswap16(value)
#define lwip_htonl(value) __builtin_bswap32(value)
#define lwip_ntohl(value) __builtin_bswap32(value)

/* POSIX's. lwIP makes both itself unless SSIZE_MAX is defined, as it is by the <limits.h> that gcc finds, not by
 * clang's. */
typedef ptrdiff_t ssize_t;
#ifndef SSIZE_MAX
#define SSIZE_MAX PTRDIFF_MAX
#endif

/* Freestanding: neither of these headers, and lwIP's messages are not printed. */
#define LWIP_NO_INTTYPES_H 1
#define LWIP_NO_CTYPE_H    1
#define LWIP_NO_UNISTD_H   1
#define X8_F               "02x"
#define U16_F              "u"
#define S16_F              "d"
#define X16_F              "x"
#define U32_F              "u"
#define S32_F              "d"
#define X32_F              "x"
#define SZT_F              "lu"

#define LWIP_PLATFORM_DIAG(message)                                                                                    \
    do {                                                                                                               \
    } while (0)
#define LWIP_PLATFORM_ASSERT(message) assert_failed(__FILE__, __LINE__, message)

#define MEMCPY(to, from, bytes)       __builtin_memcpy(to, from, bytes)
#define SMEMCPY(to, from, bytes)      __builtin_memcpy(to, from, bytes)

#define lwip_itoa(out, bytes, number) format(out, bytes, "%d", number)

/* Returns a random number that a peer cannot guess, drawn from the configuration's secret (net/lwip/hooks.c). */
uint32_t lwip_port_random(void);
#define LWIP_RAND() lwip_port_random()

/* Returns the Internet checksum's sum over a buffer, folded to 16 bits, not inverted (net/ip/checksum.h). */
uint16_t lwip_port_checksum(const void *data, int bytes);
#define LWIP_CHKSUM lwip_port_checksum
