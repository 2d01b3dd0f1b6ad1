# The hosted build: the same sources as a Linux program, optimised, for playing and for measuring.

$(BUILD)/host/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) $(call cflags_of,$<) -c -o $@ $<
