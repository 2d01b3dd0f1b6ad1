#include "app/player/verdict.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"

void verdict_add(struct verdict *verdict, struct bytes body)
{
    ASSERT(verdict->bytes <= VERDICT_BYTES_MAX);
    size_t bytes = min_size(body.count, VERDICT_BYTES_MAX - verdict->bytes);
    memcpy(verdict->text + verdict->bytes, body.data, bytes);
    verdict->bytes += (uint32_t)bytes;
}

enum verdict_kind verdict_read(const struct verdict *verdict, uint64_t *points)
{
    static const char *const words[VERDICT_OTHER] = { "+", "early", "dup", "late", "wrong" };
    struct bytes rest = { (const uint8_t *)verdict->text, verdict->bytes };
    enum verdict_kind kind = VERDICT_POINTS;
    while (kind < VERDICT_OTHER && !text_skip(&rest, words[kind]))
        kind++;
    size_t digits = 0;
    while (digits < rest.count && text_digit_is(rest.data[digits]))
        digits++;
    if (kind == VERDICT_POINTS && !text_number((struct bytes){ rest.data, digits }, 0, UINT32_MAX, points))
        return VERDICT_OTHER;
    return kind;
}

bool verdict_is_refusal_for_now(uint16_t status)
{
    return status == 408 || status == 425 || status == 429 || status == 503;
}

uint64_t verdict_wait_ns(const struct http_response *response)
{
    return max_size(VERDICT_WAIT_LEAST_NS,
                    response->has_retry_after ? response->retry_after_s * NS_PER_S : VERDICT_WAIT_NS);
}
