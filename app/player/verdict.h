/* The verdict of a server on a POST: its status, the time to wait, and the first word of its body. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/time.h"
#include "net/http/response.h"

#define VERDICT_WAIT_NS       NS_PER_S          /* after a refusal without Retry-After in seconds */
#define VERDICT_WAIT_LEAST_NS (100 * NS_PER_MS) /* after one with 0 seconds */

enum { VERDICT_BYTES_MAX = 16 /* the part of a response's body that holds the word */ };

/* The body's first bytes. Zeros: none yet. */
struct verdict {
    char text[VERDICT_BYTES_MAX];
    uint32_t bytes;
};

/* By the first word of a 2xx body; a server that says something else. */
enum verdict_kind { VERDICT_POINTS, VERDICT_EARLY, VERDICT_DUP, VERDICT_LATE, VERDICT_WRONG, VERDICT_OTHER };

/* Takes a part of the body. */
void verdict_add(struct verdict *verdict, struct bytes body);

/* Reads the word. `points` is the number after the plus of VERDICT_POINTS. */
enum verdict_kind verdict_read(const struct verdict *verdict, uint64_t *points);

/* Returns true if the status says that the server has not acted on the request, and may later. RFC 9110 §15.5.9 (408)
 * and §15.6.4 (503), RFC 8470 §5.2 (425), RFC 6585 §4 (429). */
bool verdict_is_refusal_for_now(uint16_t status);

/* Returns for how long no POST may follow such a response. */
uint64_t verdict_wait_ns(const struct http_response *response);
