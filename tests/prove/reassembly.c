/* Reassembly: a fragment of each length up to 72 bytes and a full one, in any state. The joined packet is not part of
 * this proof. */
#include "net/ip/reassembly.c"

static struct net_ip ip;
static uint8_t payload[1480], header[IPV4_HEADER_BYTES_MAX];

static void slots_any(void)
{
    for (size_t i = 0; i < IPV4_REASSEMBLY_COUNT; i++) {
        struct ipv4_reassembly *slot = &ip.reassembly[i];
        prove_any(slot, sizeof *slot);
        slot->used = prove_number(0, 1);
    }
    ip.fragments_full_ns = prove_number(0, INT64_MAX);
}

static void accept(uint32_t bytes)
{
    struct ipv4_packet packet = {
        .header = header,
        .header_bytes = (uint32_t)prove_number(5, 15) * 4,
        .payload = payload + sizeof payload - bytes,
        .payload_bytes = bytes,
        .source = prove_number(0, UINT32_MAX),
        .destination = prove_number(0, UINT32_MAX),
        .protocol = prove_number(0, UINT8_MAX),
    };
    slots_any();
    ipv4_reassembly_accept(&ip, &packet, prove_number(0, UINT16_MAX), prove_number(0, UINT16_MAX),
                           prove_number(0, INT64_MAX));
}

void main(void)
{
    prove_any(payload, sizeof payload);
    prove_any(header, sizeof header);
    for (uint32_t bytes = 0; bytes <= 72; bytes++)
        accept(bytes);
    accept(sizeof payload);
}
