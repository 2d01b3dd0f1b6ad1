/* Units of time. Times are nanoseconds everywhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

/* Returns the earlier of two times. */
static inline uint64_t min_ns(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Returns true if the machine or its loop stood still: a deadline is overdue by more than a second. Nobody's silence
 * meanwhile means anything. */
static inline bool time_stood_still(uint64_t due_ns, uint64_t now_ns)
{
    return now_ns > due_ns && now_ns - due_ns > NS_PER_S;
}
