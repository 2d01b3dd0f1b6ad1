/* Two queues of boost::lockfree, for tests/bench/bench_base.c: one there, one back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Puts a number into a queue that has room. */
void boost_put(bool is_back, uint64_t number);
/* Waits for the next number, and takes it. */
uint64_t boost_take(bool is_back);
#ifdef __cplusplus
}
#endif
