/* ICMP and UDP: a payload of each length up to the longest that is quoted, and a full frame's. UDP's fast path: a frame
 * of each length up to a few bytes of data, and a full one. Each ends where the buffer ends. The proof does not cover
 * sending, except that each byte to be sent is readable. */
#include "net/ip/ip.h"

static struct netdev device;
static struct net_ip ip;
static uint8_t payload[1480], header[IPV4_HEADER_BYTES_MAX], frame[NETDEV_FRAME_BYTES_MAX];
static uint8_t bytes_of_frame[NETDEV_FRAME_BYTES_MAX];
static struct tx_buffer buffer = { .data = frame };
static uint8_t read;

uint32_t ipv4_payload_room(const struct net_ip *of)
{
    (void)of;
    return (uint32_t)prove_number(IPV4_MTU_BYTES_MIN - IPV4_HEADER_BYTES_MIN, 1480);
}

struct tx_buffer *ethernet_send_begin(struct net_ip *of) { return of->interface.up ? &buffer : NULL; }

bool ipv4_output_send(struct net_ip *of, struct tx_buffer *full, const struct ipv4_output *output, uint32_t bytes,
                      uint64_t now_ns)
{
    (void)of, (void)output, (void)now_ns;
    prove_holds(bytes <= NETDEV_FRAME_BYTES_MAX - IPV4_PAYLOAD_OFFSET);
    return full->data[0] == 0;
}

bool ipv4_output_copy(struct net_ip *of, const struct ipv4_output *output, const uint8_t *data, uint32_t bytes,
                      uint64_t now_ns)
{
    (void)of, (void)output, (void)now_ns;
    for (uint32_t i = 0; i < bytes; i++)
        read = data[i];
    return read == 0;
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
        .link_source = header,
        .protocol = prove_number(0, UINT8_MAX),
        .broadcast = prove_number(0, 1),
        .checksum_good = prove_number(0, 1),
    };
    struct icmp_error error;
    struct udp_datagram datagram;
    udp_accept(&ip, &packet, prove_number(0, INT64_MAX), &datagram);
    icmp_accept(&ip, &packet, prove_number(0, INT64_MAX), &error);
}

static void fast(uint32_t bytes)
{
    struct frame received = {
        .data = bytes_of_frame + sizeof bytes_of_frame - bytes,
        .bytes = bytes,
        .checksum_good = prove_number(0, 1),
    };
    struct udp_datagram datagram;
    if (!udp_fast_receive(&ip, &received, prove_number(0, INT64_MAX), &datagram))
        return;
    prove_holds(datagram.payload.count <= bytes - 42);
    if (datagram.payload.count != 0)
        read = datagram.payload.data[datagram.payload.count - 1];
}

void main(void)
{
    prove_any(bytes_of_frame, sizeof bytes_of_frame);
    prove_any(&device.mac, sizeof device.mac);
    ip.device = &device;
    ip.interface.mask = prove_number(0, UINT32_MAX);
    prove_any(payload, sizeof payload);
    prove_any(header, sizeof header);
    prove_any(&ip.icmp, sizeof ip.icmp);
    prove_any(ip.udp.ports, sizeof ip.udp.ports);
    ip.udp.port_count = prove_number(0, UDP_PORT_COUNT_MAX);
    ip.interface.up = prove_number(0, 1);
    ip.interface.address = prove_number(0, UINT32_MAX);
    for (uint32_t bytes = 0; bytes <= sizeof(struct icmp_wire) + IPV4_HEADER_BYTES_MAX + 8; bytes++)
        accept(bytes);
    accept(sizeof payload);
    for (uint32_t bytes = 0; bytes <= 64; bytes++)
        fast(bytes);
    fast(NETDEV_FRAME_BYTES_MAX);
}
