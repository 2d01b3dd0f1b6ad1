/* TCP's header and options: a segment of each length up to the longest header, and a long one; each ends where the
 * buffer ends. Beyond the header only the checksum reads, which checksum.c proves. */
#include "net/tcp/input.c"

static struct net_stack stack;
static uint8_t segment[1480];
static struct ipv4_packet packet;
static struct tcp_received received;

static void parse(uint32_t bytes)
{
    packet.payload = segment + sizeof segment - bytes;
    packet.payload_bytes = bytes;
    segment_parse(&stack, &packet, &received);
}

void main(void)
{
    prove_any(segment, sizeof segment);
    packet.checksum_good = prove_number(0, 1);
    packet.broadcast = prove_number(0, 1);
    packet.source = prove_number(0, UINT32_MAX);
    packet.destination = prove_number(0, UINT32_MAX);
    for (uint32_t bytes = 0; bytes <= TCP_HEADER_BYTES_MAX; bytes++)
        parse(bytes);
    parse(sizeof segment);
}
