# lwIP and its port. LWIP_SOURCES is everything STACK=lwip links besides the shared files of net/.
LWIP := $(BUILD)/lwip
LWIP_FETCHED := $(LWIP)/.fetched
LWIP_CORE := $(addprefix $(LWIP)/src/core/,inet_chksum.c init.c ip.c mem.c memp.c netif.c pbuf.c stats.c \
	tcp.c tcp_in.c tcp_out.c timeouts.c udp.c ipv4/etharp.c ipv4/icmp.c ipv4/igmp.c ipv4/ip4.c ipv4/ip4_addr.c \
	ipv4/ip4_frag.c) \
	$(LWIP)/src/netif/ethernet.c
LWIP_PORT := $(wildcard net/lwip/*.c)
LWIP_SOURCES := $(LWIP_PORT) $(LWIP_CORE)

# `make setup` has fetched the source; after `make clean` the first lwIP object does it again.
$(LWIP_FETCHED): tools/workshop/fetch-lwip.sh
	tools/workshop/fetch-lwip.sh $(LWIP)
	@touch $@
$(LWIP_CORE): | $(LWIP_FETCHED) ;

# lwIP's headers are system headers to our files, so that our warnings hold for our files alone. lwIP's own files are
# compiled without warnings. -MMD omits the files that a system header includes: lwipopts.h is named here.
define lwip_rules
$(1)/net/lwip/%.o: CFLAGS_EXTRA = -Inet/lwip -isystem $(LWIP)/src/include
$(1)/$(LWIP)/%.o: CFLAGS_EXTRA = -Inet/lwip/libc -Inet/lwip -I$(LWIP)/src/include -w
$(addprefix $(1)/,$(LWIP_PORT:.c=.o)): net/lwip/lwipopts.h | $(LWIP_FETCHED)
endef
$(foreach tree,$(OBJECTS) $(addprefix $(BUILD)/,host test fuzz),$(eval $(call lwip_rules,$(tree))))
