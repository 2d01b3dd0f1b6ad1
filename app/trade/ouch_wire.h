/* The messages of orders. Nasdaq OUCH 5.0, chapters 3 and 4. All integers are big-endian. A message of the exchange may
 * end with an appendage, which its length precedes. */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "app/nasdaq/itch.h"

enum { OUCH_CLIENT_ID_BYTES = 14 };

/* ---- from the client ---- */

struct ouch_enter_wire {
    uint8_t type; /* 'O' */
    uint32_t reference;
    uint8_t side; /* 'B': buys; 'S': sells; 'T': sells short; 'E': sells short, exempt */
    uint32_t quantity;
    uint8_t symbol[ITCH_STOCK_BYTES];
    uint64_t price;
    uint8_t time_in_force; /* '0': the day; '3': immediate or cancel */
    uint8_t display, capacity, sweep, cross;
    uint8_t client_id[OUCH_CLIENT_ID_BYTES];
    uint16_t appendage_bytes;
} __attribute__((packed));
static_assert(sizeof(struct ouch_enter_wire) == 47, "OUCH 5.0, Enter Order");
/* The fields that each order of ours has alike. */
#define OUCH_ENTER_CONSTANTS .type = 'O', .display = 'Y', .capacity = 'P', .sweep = 'N', .cross = 'N'

struct ouch_replace_wire {
    uint8_t type; /* 'U' */
    uint32_t original, reference;
    uint32_t quantity;
    uint64_t price;
    uint8_t time_in_force, display, sweep;
    uint8_t client_id[OUCH_CLIENT_ID_BYTES];
    uint16_t appendage_bytes;
} __attribute__((packed));
static_assert(sizeof(struct ouch_replace_wire) == 40, "OUCH 5.0, Replace Order");
#define OUCH_REPLACE_CONSTANTS .type = 'U', .time_in_force = '0', .display = 'Y', .sweep = 'N'

struct ouch_cancel_wire {
    uint8_t type; /* 'X' */
    uint32_t reference;
    uint32_t quantity; /* the shares that stay */
} __attribute__((packed));
static_assert(sizeof(struct ouch_cancel_wire) == 9, "OUCH 5.0, Cancel Order");
#define OUCH_CANCEL_CONSTANTS .type = 'X'

/* ---- from the exchange ---- */

/* Begins each response but the system event's. */
struct ouch_response_wire {
    uint8_t type;
    uint64_t timestamp_ns;
    uint32_t reference; /* account query: the next one */
} __attribute__((packed));
static_assert(sizeof(struct ouch_response_wire) == 13, "OUCH 5.0, chapter 4");

struct ouch_event_wire {
    uint8_t type; /* 'S' */
    uint64_t timestamp_ns;
    uint8_t event; /* 'S': start of day; 'E': end of day */
} __attribute__((packed));
static_assert(sizeof(struct ouch_event_wire) == 10, "OUCH 5.0, System Event");

struct ouch_terms_wire {
    uint8_t side;
    uint32_t quantity;
    uint8_t symbol[ITCH_STOCK_BYTES];
    uint64_t price;
    uint8_t time_in_force, display;
    uint64_t exchange_reference;
    uint8_t capacity, sweep, cross;
    uint8_t state; /* 'L': live; 'D': dead */
    uint8_t client_id[OUCH_CLIENT_ID_BYTES];
} __attribute__((packed));

struct ouch_accepted_wire {
    struct ouch_response_wire head; /* 'A' */
    struct ouch_terms_wire terms;
} __attribute__((packed));
static_assert(sizeof(struct ouch_accepted_wire) == 62, "OUCH 5.0, Order Accepted");

struct ouch_replaced_wire {
    struct ouch_response_wire head; /* 'U', and the original's reference */
    uint32_t reference;
    struct ouch_terms_wire terms;
} __attribute__((packed));
static_assert(sizeof(struct ouch_replaced_wire) == 66, "OUCH 5.0, Order Replaced");

struct ouch_canceled_wire {
    struct ouch_response_wire head; /* 'C' */
    uint32_t quantity;              /* the shares that go */
    uint8_t reason;
} __attribute__((packed));
static_assert(sizeof(struct ouch_canceled_wire) == 18, "OUCH 5.0, Order Canceled");

struct ouch_aiq_canceled_wire {         /* the order would have met another one of the account */
    struct ouch_canceled_wire canceled; /* 'D' */
    uint32_t prevented;
    uint64_t price;
    uint8_t liquidity;
} __attribute__((packed));
static_assert(sizeof(struct ouch_aiq_canceled_wire) == 31, "OUCH 5.0, AIQ Canceled");

struct ouch_executed_wire {
    struct ouch_response_wire head; /* 'E' */
    uint32_t quantity;
    uint64_t price;
    uint8_t liquidity;
    uint64_t match;
} __attribute__((packed));
static_assert(sizeof(struct ouch_executed_wire) == 34, "OUCH 5.0, Order Executed");

struct ouch_broken_wire {
    struct ouch_response_wire head; /* 'B' */
    uint64_t match;
    uint8_t reason;
    uint8_t client_id[OUCH_CLIENT_ID_BYTES];
} __attribute__((packed));
static_assert(sizeof(struct ouch_broken_wire) == 36, "OUCH 5.0, Broken Trade");

struct ouch_corrected_wire {
    struct ouch_executed_wire executed; /* 'F': the price alone is another one */
    uint8_t reason;
    uint8_t client_id[OUCH_CLIENT_ID_BYTES];
} __attribute__((packed));
static_assert(sizeof(struct ouch_corrected_wire) == 49, "OUCH 5.0, Trade Correction");

struct ouch_rejected_wire {
    struct ouch_response_wire head; /* 'J' */
    uint16_t reason;
    uint8_t client_id[OUCH_CLIENT_ID_BYTES];
} __attribute__((packed));
static_assert(sizeof(struct ouch_rejected_wire) == 29, "OUCH 5.0, Rejected");
