/* Units of time. Times are nanoseconds everywhere. */
#pragma once

#include <stdint.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)
