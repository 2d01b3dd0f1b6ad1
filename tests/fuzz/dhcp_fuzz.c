/* Fuzzes net/ip/dhcp.c: a sequence of messages, each [flags][bytes, big endian][message]. Without the flag RAW the
 * header is made valid, so that the options are reached. */
#include "net/ip/dhcp.h"
#include "tests/fuzz/fuzz.h"

enum { RAW = 1, SKIP_A_TIMER = 2, MESSAGES_MAX = 64 };

static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };

static void header_mend(uint8_t *message, size_t bytes, uint32_t xid)
{
    if (bytes < 240)
        return;
    message[0] = 2;
    message[1] = 1;
    message[2] = 6;
    store_be32(message + 4, xid);
    memcpy(message + 28, mac, sizeof mac);
    store_be32(message + 236, 0x63825363);
}

static void lease_check(const struct dhcp *dhcp)
{
    const struct dhcp_lease *lease = dhcp_lease(dhcp);
    if (lease == NULL)
        return;
    ASSERT(lease->address >> 24 != 0 && lease->address >> 24 != 127 && lease->address >> 28 < 14);
    ASSERT(lease->mask != 0 && (~lease->mask & (~lease->mask + 1)) == 0);
    ASSERT(lease->route_count <= DHCP_ROUTE_COUNT_MAX);
    ASSERT(lease->renews_ns <= lease->rebinds_ns && lease->rebinds_ns <= lease->ends_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dhcp dhcp = { 0 };
    uint8_t out[DHCP_OUTPUT_BYTES_MAX];
    uint32_t source, destination;
    uint64_t now_ns = 0;
    static const uint8_t identity[DHCP_IDENTITY_BYTES_MAX] = { 61, DHCP_IDENTITY_BYTES_MAX - 2 };
    dhcp_start(&dhcp, mac, (struct bytes){ identity, sizeof identity }, (struct siphash_key){ 1, 2 }, now_ns);
    for (int i = 0; i < MESSAGES_MAX; i++) {
        if (dhcp_next_deadline_ns(&dhcp) <= now_ns) {
            size_t bytes = dhcp_output(&dhcp, out, &source, &destination, now_ns);
            ASSERT(bytes == 0 || (bytes >= DHCP_OUTPUT_BYTES_MIN && bytes <= DHCP_OUTPUT_BYTES_MAX));
        }
        if (size < 3)
            break;
        uint8_t flags = data[0];
        size_t bytes = min_size(load_be16(data + 1), size - 3);
        uint8_t *message = malloc(bytes + 1); /* exact, for the sanitizer */
        memcpy(message, data + 3, bytes);
        if (!(flags & RAW))
            header_mend(message, bytes, dhcp.xid);
        message = realloc(message, bytes != 0 ? bytes : 1);
        dhcp_input(&dhcp, message, bytes, (flags & RAW) ? 0 : 0x0a000202, now_ns);
        free(message);
        dhcp_check(&dhcp);
        lease_check(&dhcp);
        data += 3 + bytes;
        size -= 3 + bytes;
        if ((flags & SKIP_A_TIMER) && dhcp_next_deadline_ns(&dhcp) != UINT64_MAX
            && dhcp_next_deadline_ns(&dhcp) > now_ns)
            now_ns = dhcp_next_deadline_ns(&dhcp);
        else
            now_ns += 1000000;
    }
    return 0;
}
