/* The datagrams of net/transport.h over lwIP's UDP. */
#include "net/lwip/port.h"

#include "lwip/udp.h"

#include "base/assert.h"
#include "net/lwip/hooks.h"

static struct udp_pcb *udp_bound[TRANSPORT_UDP_PORT_COUNT_MAX];
static size_t udp_bound_count;

static void on_datagram(void *arg, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *from, u16_t port)
{
    (void)arg;
    ASSERT(pcb->local_port != 0);
    if (p->tot_len > TRANSPORT_DATAGRAM_BYTES_MAX) {
        port_counters.udp_drop_oversize++;
        pbuf_free(p);
        return;
    }
    if (p->next != NULL) { /* a reassembled datagram becomes one piece, if the pool has one */
        struct pbuf *whole = pbuf_coalesce(p, PBUF_RAW);
        if (whole == p) {
            port_counters.rx_drop_no_pbuf++;
            pbuf_free(p);
            return;
        }
        p = whole;
    }
    struct queued_event *queued = events_add(TRANSPORT_DATAGRAM);
    ASSERT(p->len == p->tot_len);
    queued->chain = p;
    queued->event.address = lwip_ntohl(ip_addr_get_ip4_u32(from));
    queued->event.peer_port = port;
    queued->event.port = pcb->local_port;
    queued->event.to_address = lwip_ntohl(ip4_addr_get_u32(ip4_current_dest_addr()));
}

bool transport_udp_bind(uint16_t port)
{
    ASSERT(port != 0);
    ASSERT(udp_bound_count <= TRANSPORT_UDP_PORT_COUNT_MAX);
    if (udp_bound_count == TRANSPORT_UDP_PORT_COUNT_MAX)
        return false;
    struct udp_pcb *pcb = udp_new();
    if (pcb == NULL || udp_bind(pcb, IP4_ADDR_ANY, port) != ERR_OK) {
        if (pcb != NULL)
            udp_remove(pcb);
        return false;
    }
    udp_recv(pcb, on_datagram, NULL);
    udp_bound[udp_bound_count++] = pcb;
    return true;
}

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    static struct udp_pcb sender; /* never bound: lwIP reads only its port and its TTL */
    hooks_now_ns = now_ns;
    ASSERT(from_port != 0);
    const struct transport_network *network = transport_network();
    if (bytes > TRANSPORT_DATAGRAM_BYTES_MAX || bytes + 28 > network->mtu_bytes || !network_has_route(to_address))
        return false;
    struct pbuf *p = pbuf_alloc(PBUF_TRANSPORT, (u16_t)bytes, PBUF_RAM);
    if (p == NULL)
        return false;
    pbuf_take(p, data, (u16_t)bytes);
    ip_addr_t to = IPADDR4_INIT(lwip_htonl(to_address));
    sender.local_port = from_port;
    sender.ttl = UDP_TTL;
    sender.mcast_ttl = 1; /* RFC 1112 §6.1 */
    err_t err = udp_sendto(&sender, p, &to, to_port);
    pbuf_free(p);
    return err == ERR_OK;
}
