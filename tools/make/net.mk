# Our own stack: what its unit tests need besides the archive.
UNIT_EXTRA_tcp_pair_test := tests/unit/stack_pair.c
