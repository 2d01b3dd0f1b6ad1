# Our own stack: what its unit tests need besides the archive.
$(foreach test,$(shell grep -lE "tests/lib/tcp_(fixture|peer).h" tests/unit/*_test.c),\
	$(eval UNIT_EXTRA_$(basename $(notdir $(test))) := tests/lib/tcp_peer.c))
UNIT_EXTRA_ipv4_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
UNIT_EXTRA_igmp_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c tests/lib/igmp_packet.c
UNIT_EXTRA_capture_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
UNIT_EXTRA_next_hop_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
UNIT_EXTRA_malformed_frames_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
