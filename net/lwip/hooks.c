/* The functions that lwIP asks of its platform: random numbers and checksums; and the port's hooks into lwIP's TCP. */
#include "net/lwip/port.h"

#include "lwip/ip_addr.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/prot/tcp.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/checksum.h"
#include "net/lwip/hooks.h"

uint64_t hooks_now_ns;

static struct siphash_key isn_key, random_key;
static uint64_t drawn;
static void *segment_owner;

void hooks_init(const uint8_t secret[32])
{
    isn_key = siphash_key_from(secret);
    random_key = siphash_key_from(secret + 16);
    drawn = 0;
}

static uint64_t random_draw(void)
{
    drawn++;
    return siphash(random_key, &drawn, sizeof drawn);
}

uint32_t lwip_port_random(void) { return (uint32_t)random_draw(); }

struct siphash_key hooks_key(void)
{
    uint64_t k0 = random_draw();
    return (struct siphash_key){ .k0 = k0, .k1 = random_draw() };
}

/* RFC 6528 §3: ISN = M + F(local address, local port, remote address, remote port, secret), M a clock of 4 us. */
u32_t lwip_port_isn(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port)
{
    uint8_t tuple[12];
    store_be32(tuple, lwip_ntohl(ip_addr_get_ip4_u32(local)));
    store_be32(tuple + 4, lwip_ntohl(ip_addr_get_ip4_u32(remote)));
    store_be16(tuple + 8, local_port);
    store_be16(tuple + 10, remote_port);
    return (uint32_t)(hooks_now_ns / 4000) + (uint32_t)siphash(isn_key, tuple, sizeof tuple);
}

/* Returns the sum in the byte order of memory, in which lwIP stores and compares sums. */
uint16_t lwip_port_checksum(const void *data, int bytes)
{
    return __builtin_bswap16(checksum_fold(checksum_sum(0, data, (size_t)bytes)));
}

/* Ends the list of options where lwIP 2.1.3 would misread it, both found by tests/fuzz/frames_stack_fuzz.c. A kind in
 * the last byte has no length, which lwIP would read from past the segment. Without SYN there is no option for this
 * port; lwIP would take an MSS at any time, and assert when it splits a segment that is longer now. */
static void options_close(struct tcp_hdr *header, u16_t option_bytes, u16_t option1_bytes, u8_t *option2)
{
    enum { END = 0, NOP = 1 };
    u8_t *option1 = (u8_t *)(header + 1);
    ASSERT(option_bytes <= 40);
    ASSERT(option2 == NULL || option1_bytes <= option_bytes);
    for (u32_t i = 0; i < option_bytes;) {
        u8_t *at = option2 == NULL || i < option1_bytes ? option1 + i : option2 + (i - option1_bytes);
        if ((TCPH_FLAGS(header) & TCP_SYN) == 0)
            *at = END;
        if (*at == END)
            return;
        if (*at == NOP) {
            i++;
            continue;
        }
        if (i + 1 == option_bytes) {
            *at = END;
            return;
        }
        const u8_t *length = option2 == NULL || i + 1 < option1_bytes ? option1 + i + 1
                                                                      : option2 + (i + 1 - option1_bytes);
        if (*length < 2)
            return; /* lwIP stops here too */
        i += *length;
    }
}

err_t lwip_port_segment_seen(struct tcp_pcb *pcb, struct tcp_hdr *header, u16_t option_bytes, u16_t option1_bytes,
                             u8_t *option2)
{
    options_close(header, option_bytes, option1_bytes, option2);
    segment_owner = pcb->callback_arg;
    return ERR_OK;
}

void *hooks_take_segment_owner(void)
{
    void *owner = segment_owner;
    segment_owner = NULL;
    return owner;
}

/* Takes a false FIN from a segment. lwIP 2.1.3 splits a segment that does not fit the window. The FIN then belongs to
 * the second part, and tcp_split_unsent_seg leaves FIN on the first part too: the peer would see an early end of the
 * stream. Nothing follows a true FIN, so a FIN is false if another segment follows. Found by tests/sim. */
u32_t *lwip_port_segment_leaves(const struct tcp_pcb *pcb, struct tcp_hdr *header, u32_t *options)
{
    const struct tcp_seg *first = pcb != NULL && pcb->state != LISTEN ? pcb->unsent : NULL;
    if (first != NULL && first->tcphdr == header && first->next != NULL)
        TCPH_UNSET_FLAG(header, TCP_FIN);
    return options;
}
