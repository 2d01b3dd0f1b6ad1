// boost::lockfree::spsc_queue with its size fixed at compile time, the quickest that it offers.
#include "tests/bench/bench_base_boost.h"

#include <boost/lockfree/spsc_queue.hpp>

static boost::lockfree::spsc_queue<uint64_t, boost::lockfree::capacity<512>> queues[2];

void boost_put(bool is_back, uint64_t number) { queues[is_back].push(number); }

uint64_t boost_take(bool is_back)
{
    uint64_t number = 0;
    while (!queues[is_back].pop(number)) {
    }
    return number;
}
