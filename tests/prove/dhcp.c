/* DHCP: any datagram in any state, then the work that is due.
 *
 * A datagram ends where the buffer ends, so that a read past it is an error. One length stands for all: a message
 * whose first options are PAD leaves the parser as a shorter message does. Lengths below a header are tried one by
 * one. */
#include "net/ip/dhcp.c"

enum { DATAGRAM_BYTES_MAX = 65507 };
static struct dhcp dhcp;
static uint8_t datagram[DATAGRAM_BYTES_MAX], out[DHCP_OUTPUT_BYTES_MAX], identity[DHCP_IDENTITY_BYTES_MAX];

static void dhcp_any(void)
{
    prove_any(&dhcp, sizeof dhcp);
    dhcp.identity = (struct bytes){ identity, (size_t)prove_number(0, sizeof identity) };
    dhcp.state = (enum dhcp_state)prove_number(DHCP_INIT, DHCP_REBINDING);
}

void main(void)
{
    uint32_t source, destination;
    prove_any(datagram, sizeof datagram);
    for (size_t bytes = 0; bytes <= sizeof(struct dhcp_wire); bytes++) {
        dhcp_any();
        dhcp_input(&dhcp, datagram + sizeof datagram - bytes, bytes, (uint32_t)prove_number(0, UINT32_MAX),
                   prove_number(0, INT64_MAX));
    }
    dhcp_any();
    dhcp_input(&dhcp, datagram, sizeof datagram, (uint32_t)prove_number(0, UINT32_MAX), prove_number(0, INT64_MAX));
    dhcp_any();
    dhcp_output(&dhcp, out, &source, &destination, prove_number(0, INT64_MAX));
}
