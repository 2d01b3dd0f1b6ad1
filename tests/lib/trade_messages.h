/* Builds what an exchange sends, for tests of app/trade/: ITCH messages, MoldUDP64 datagrams, SoupBinTCP packets and
 * OUCH responses. Each function writes to `out` and returns the bytes. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "app/nasdaq/itch.h"
#include "base/bytes.h"

static inline uint32_t itch_head(uint8_t *out, uint8_t type, uint16_t locate)
{
    memset(out, 0, itch_bytes[type]);
    out[0] = type;
    store_be16(out + ITCH_LOCATE, locate);
    return itch_bytes[type];
}

static inline uint32_t itch_event(uint8_t *out, uint8_t event)
{
    uint32_t bytes = itch_head(out, ITCH_SYSTEM_EVENT, 0);
    out[ITCH_EVENT] = event;
    return bytes;
}

static inline void itch_name(uint8_t *out, const char *name)
{
    memset(out, ' ', ITCH_STOCK_BYTES);
    memcpy(out, name, strlen(name));
}

static inline uint32_t itch_directory(uint8_t *out, uint16_t locate, const char *name)
{
    uint32_t bytes = itch_head(out, ITCH_STOCK_DIRECTORY, locate);
    itch_name(out + ITCH_STOCK, name);
    return bytes;
}

static inline uint32_t itch_action(uint8_t *out, uint16_t locate, uint8_t state)
{
    uint32_t bytes = itch_head(out, ITCH_TRADING_ACTION, locate);
    out[ITCH_STATE] = state;
    return bytes;
}

static inline uint32_t itch_halt(uint8_t *out, uint16_t locate, uint8_t market, uint8_t action)
{
    uint32_t bytes = itch_head(out, ITCH_OPERATIONAL_HALT, locate);
    out[ITCH_MARKET] = market;
    out[ITCH_HALT] = action;
    return bytes;
}

static inline uint32_t itch_add(uint8_t *out, uint16_t locate, uint64_t reference, char side, uint32_t shares,
                                uint32_t price)
{
    uint32_t bytes = itch_head(out, ITCH_ADD, locate);
    store_be64(out + ITCH_REFERENCE, reference);
    out[ITCH_ADD_SIDE] = (uint8_t)side;
    store_be32(out + ITCH_ADD_SHARES, shares);
    store_be32(out + ITCH_ADD_PRICE, price);
    return bytes;
}

/* Writes an execution, a cancellation or, without shares, a deletion. */
static inline uint32_t itch_reduce(uint8_t *out, uint8_t type, uint16_t locate, uint64_t reference, uint32_t shares)
{
    uint32_t bytes = itch_head(out, type, locate);
    store_be64(out + ITCH_REFERENCE, reference);
    if (type != ITCH_DELETE)
        store_be32(out + ITCH_SHARES, shares);
    return bytes;
}

static inline uint32_t itch_executed_at(uint8_t *out, uint16_t locate, uint64_t reference, uint32_t shares,
                                        char printable, uint32_t price)
{
    uint32_t bytes = itch_reduce(out, ITCH_EXECUTED_PRICE, locate, reference, shares);
    out[ITCH_EXECUTED_PRINTABLE] = (uint8_t)printable;
    store_be32(out + ITCH_EXECUTED_AT, price);
    return bytes;
}

static inline uint32_t itch_replace(uint8_t *out, uint16_t locate, uint64_t reference, uint64_t new_reference,
                                    uint32_t shares, uint32_t price)
{
    uint32_t bytes = itch_head(out, ITCH_REPLACE, locate);
    store_be64(out + ITCH_REFERENCE, reference);
    store_be64(out + ITCH_REPLACE_NEW, new_reference);
    store_be32(out + ITCH_REPLACE_SHARES, shares);
    store_be32(out + ITCH_REPLACE_PRICE, price);
    return bytes;
}

static inline uint32_t itch_trade(uint8_t *out, uint16_t locate, uint32_t price)
{
    uint32_t bytes = itch_head(out, ITCH_TRADE, locate);
    store_be32(out + ITCH_TRADE_PRICE, price);
    store_be64(out + ITCH_TRADE_MATCH, price); /* a number to break it by */
    return bytes;
}

static inline uint32_t itch_broken(uint8_t *out, uint16_t locate, uint64_t match)
{
    uint32_t bytes = itch_head(out, ITCH_BROKEN, locate);
    store_be64(out + ITCH_BROKEN_MATCH, match);
    return bytes;
}

#define MOLD_TEST_SESSION "TODAY     "

/* Writes the head of a datagram; `count` 0xffff: the session's end. */
static inline uint32_t mold_head(uint8_t *out, const char *session, uint64_t sequence, uint16_t count)
{
    memcpy(out, session, 10);
    store_be64(out + 10, sequence);
    store_be16(out + 18, count);
    return 20;
}

/* Appends a message's block. */
static inline uint32_t mold_block(uint8_t *out, const void *message, uint32_t bytes)
{
    store_be16(out, (uint16_t)bytes);
    memcpy(out + 2, message, bytes);
    return bytes + 2;
}

static inline uint32_t soup_packet(uint8_t *out, char type, const void *body, uint32_t bytes)
{
    store_be16(out, (uint16_t)(bytes + 1));
    out[2] = (uint8_t)type;
    if (bytes > 0)
        memcpy(out + 3, body, bytes);
    return bytes + 3;
}

static inline uint32_t soup_accepted(uint8_t *out, const char *session, uint64_t sequence)
{
    char body[31];
    snprintf(body, sizeof body, "%-10.10s%20llu", session, (unsigned long long)sequence);
    return soup_packet(out, 'A', body, 30);
}

/* Writes an OUCH response of `bytes`, without fields but its type and reference. */
static inline uint32_t ouch_response(uint8_t *out, char type, uint32_t reference, uint32_t bytes)
{
    memset(out, 0, bytes);
    out[0] = (uint8_t)type;
    store_be32(out + 9, reference);
    return bytes;
}

/* The time in force of accepted orders: '0', the day; '3', immediate. */
static char ouch_time_in_force = '0';

/* Writes the terms of an accepted or replaced order, from the side on. */
static inline void ouch_terms(uint8_t *side, char letter, uint32_t shares, const char *name, uint64_t price, char state)
{
    side[0] = (uint8_t)letter;
    store_be32(side + 1, shares);
    itch_name(side + 5, name);
    store_be64(side + 13, price);
    side[21] = (uint8_t)ouch_time_in_force;
    side[34] = (uint8_t)state;
}

static inline uint32_t ouch_accepted(uint8_t *out, uint32_t reference, char letter, uint32_t shares, const char *name,
                                     uint64_t price, char state)
{
    uint32_t bytes = ouch_response(out, 'A', reference, 64);
    ouch_terms(out + 13, letter, shares, name, price, state);
    return bytes;
}

static inline uint32_t ouch_replaced_by(uint8_t *out, uint32_t original, uint32_t reference, char letter,
                                        uint32_t shares, const char *name, uint64_t price)
{
    uint32_t bytes = ouch_response(out, 'U', original, 68);
    store_be32(out + 13, reference);
    ouch_terms(out + 17, letter, shares, name, price, 'L');
    return bytes;
}

static inline uint32_t ouch_decrement(uint8_t *out, uint32_t reference, uint32_t shares)
{
    uint32_t bytes = ouch_response(out, 'C', reference, 18);
    store_be32(out + 13, shares);
    return bytes;
}

static inline uint32_t ouch_executed(uint8_t *out, uint32_t reference, uint32_t shares, uint64_t price, uint64_t match)
{
    uint32_t bytes = ouch_response(out, 'E', reference, 36);
    store_be32(out + 13, shares);
    store_be64(out + 17, price);
    store_be64(out + 26, match);
    return bytes;
}
