# Our own stack: what its unit tests need besides the archive.
UNIT_EXTRA_tcp_pair_test := tests/lib/stack_pair.c
$(foreach test,tcp_open tcp_close tcp_receive tcp_send tcp_recovery tcp_listen tcp_path tcp_neighbour pause \
	net_malformed,\
	$(eval UNIT_EXTRA_$(test)_test := tests/lib/tcp_peer.c))
UNIT_EXTRA_ipv4_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
UNIT_EXTRA_next_hop_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
UNIT_EXTRA_malformed_frames_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c
