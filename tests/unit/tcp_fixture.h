/* What a test program of single segments begins with: cmocka, one peer (tests/unit/tcp_peer.h), made anew for each test.
 * Included by the program itself, once. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/base/bytes.h"
#include "net/stack_state.h"
#include "tests/unit/tcp_peer.h"

static struct peer peer;
static struct peer *const p = &peer;

static inline int begin(void **state) { (void)state; peer_begin(p, NULL); return 0; }
static inline int end(void **state) { (void)state; peer_end(p); return 0; }

static inline void begin_with(struct tcp_policy *policy)
{
    peer_end(p);
    peer_begin(p, policy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
