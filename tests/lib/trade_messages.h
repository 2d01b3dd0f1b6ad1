/* Builds what an exchange sends, for tests of app/trade/: ITCH messages, MoldUDP64 datagrams, SoupBinTCP packets and
 * OUCH responses. Each function writes to `out` and returns the bytes. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "app/nasdaq/itch.h"
#include "app/nasdaq/mold.h"
#include "app/trade/ouch_wire.h"
#include "base/bytes.h"

static inline uint32_t itch_head(void *out, uint8_t type, uint16_t locate)
{
    struct itch_head_wire *m = out;
    memset(out, 0, itch_bytes[type]);
    m->type = type;
    store_be16(&m->locate, locate);
    return itch_bytes[type];
}

static inline uint32_t itch_event(void *out, uint8_t event)
{
    struct itch_event_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_SYSTEM_EVENT, 0);
    m->event = event;
    return bytes;
}

static inline void itch_name(uint8_t *out, const char *name)
{
    memset(out, ' ', ITCH_STOCK_BYTES);
    memcpy(out, name, strlen(name));
}

static inline uint32_t itch_directory(void *out, uint16_t locate, const char *name)
{
    struct itch_directory_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_STOCK_DIRECTORY, locate);
    itch_name(m->stock, name);
    return bytes;
}

static inline uint32_t itch_action(void *out, uint16_t locate, uint8_t state)
{
    struct itch_trading_action_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_TRADING_ACTION, locate);
    m->state = state;
    return bytes;
}

static inline uint32_t itch_halt(void *out, uint16_t locate, uint8_t market, uint8_t action)
{
    struct itch_halt_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_OPERATIONAL_HALT, locate);
    m->market = market;
    m->action = action;
    return bytes;
}

static inline uint32_t itch_add(void *out, uint16_t locate, uint64_t reference, char side, uint32_t shares,
                                uint32_t price)
{
    struct itch_add_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_ADD, locate);
    store_be64(&m->order.reference, reference);
    m->side = (uint8_t)side;
    store_be32(&m->shares, shares);
    store_be32(&m->price, price);
    return bytes;
}

/* Writes an execution, a cancellation or, without shares, a deletion. */
static inline uint32_t itch_reduce(void *out, uint8_t type, uint16_t locate, uint64_t reference, uint32_t shares)
{
    struct itch_cancel_wire *m = out;
    uint32_t bytes = itch_head(out, type, locate);
    store_be64(&m->order.reference, reference);
    if (type != ITCH_DELETE)
        store_be32(&m->shares, shares);
    return bytes;
}

static inline uint32_t itch_executed_at(void *out, uint16_t locate, uint64_t reference, uint32_t shares, char printable,
                                        uint32_t price)
{
    struct itch_executed_price_wire *m = out;
    uint32_t bytes = itch_reduce(out, ITCH_EXECUTED_PRICE, locate, reference, shares);
    m->printable = (uint8_t)printable;
    store_be32(&m->price, price);
    return bytes;
}

static inline uint32_t itch_replace(void *out, uint16_t locate, uint64_t reference, uint64_t new_reference,
                                    uint32_t shares, uint32_t price)
{
    struct itch_replace_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_REPLACE, locate);
    store_be64(&m->order.reference, reference);
    store_be64(&m->new_reference, new_reference);
    store_be32(&m->shares, shares);
    store_be32(&m->price, price);
    return bytes;
}

static inline uint32_t itch_trade(void *out, uint16_t locate, uint32_t price)
{
    struct itch_trade_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_TRADE, locate);
    store_be32(&m->add.price, price);
    store_be64(&m->match, price); /* a number to break it by */
    return bytes;
}

static inline uint32_t itch_broken(void *out, uint16_t locate, uint64_t match)
{
    struct itch_broken_wire *m = out;
    uint32_t bytes = itch_head(out, ITCH_BROKEN, locate);
    store_be64(&m->match, match);
    return bytes;
}

#define MOLD_TEST_SESSION "TODAY     "

/* Writes the head of a datagram; `count` 0xffff: the session's end. */
static inline uint32_t mold_head(uint8_t *out, const char *session, uint64_t sequence, uint16_t count)
{
    struct mold_header_wire *header = (void *)out;
    memcpy(header->session, session, sizeof header->session);
    store_be64(&header->sequence, sequence);
    store_be16(&header->count, count);
    return sizeof *header;
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
static inline uint32_t ouch_response(void *out, char type, uint32_t reference, uint32_t bytes)
{
    struct ouch_response_wire *m = out;
    memset(out, 0, bytes);
    m->type = (uint8_t)type;
    store_be32(&m->reference, reference);
    return bytes;
}

/* The time in force of accepted orders: '0', the day; '3', immediate. */
static char ouch_time_in_force = '0';
enum { OUCH_EMPTY_APPENDAGE_BYTES = 2 };

static inline void ouch_terms(struct ouch_terms_wire *terms, char letter, uint32_t shares, const char *name,
                              uint64_t price, char state)
{
    terms->side = (uint8_t)letter;
    store_be32(&terms->quantity, shares);
    itch_name(terms->symbol, name);
    store_be64(&terms->price, price);
    terms->time_in_force = (uint8_t)ouch_time_in_force;
    terms->state = (uint8_t)state;
}

static inline uint32_t ouch_accepted(void *out, uint32_t reference, char letter, uint32_t shares, const char *name,
                                     uint64_t price, char state)
{
    struct ouch_accepted_wire *m = out;
    uint32_t bytes = ouch_response(out, 'A', reference, sizeof *m + OUCH_EMPTY_APPENDAGE_BYTES);
    ouch_terms(&m->terms, letter, shares, name, price, state);
    return bytes;
}

static inline uint32_t ouch_replaced_by(void *out, uint32_t original, uint32_t reference, char letter, uint32_t shares,
                                        const char *name, uint64_t price)
{
    struct ouch_replaced_wire *m = out;
    uint32_t bytes = ouch_response(out, 'U', original, sizeof *m + OUCH_EMPTY_APPENDAGE_BYTES);
    store_be32(&m->reference, reference);
    ouch_terms(&m->terms, letter, shares, name, price, 'L');
    return bytes;
}

static inline uint32_t ouch_decrement(void *out, uint32_t reference, uint32_t shares)
{
    struct ouch_canceled_wire *m = out;
    uint32_t bytes = ouch_response(out, 'C', reference, sizeof *m);
    store_be32(&m->quantity, shares);
    return bytes;
}

static inline uint32_t ouch_executed(void *out, uint32_t reference, uint32_t shares, uint64_t price, uint64_t match)
{
    struct ouch_executed_wire *m = out;
    uint32_t bytes = ouch_response(out, 'E', reference, sizeof *m + OUCH_EMPTY_APPENDAGE_BYTES);
    store_be32(&m->quantity, shares);
    store_be64(&m->price, price);
    store_be64(&m->match, match);
    return bytes;
}
