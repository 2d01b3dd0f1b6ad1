/* kernel/base/bytes.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/base/bytes.h"

static void loads_and_stores_are_in_the_stated_order(void **state)
{
    (void)state;
    uint8_t b[9] = {0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};     /* from b + 1: unaligned on purpose */
    assert_int_equal(load_be16(b + 1), 0x0102);
    assert_int_equal(load_be32(b + 1), 0x01020304);
    assert_int_equal(load_be64(b + 1), 0x0102030405060708);
    assert_int_equal(load_le16(b + 1), 0x0201);
    assert_int_equal(load_le32(b + 1), 0x04030201);
    store_be32(b + 3, 0xa1b2c3d4);
    assert_int_equal(b[3], 0xa1);
    assert_int_equal(b[6], 0xd4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_and_stores_are_in_the_stated_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
