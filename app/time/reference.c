#include "app/time/reference.h"

#include "base/assert.h"
#include "base/time.h"

struct ntp_reference ntp_reference_none(void)
{
    return (
        struct ntp_reference){ .leap = NTP_LEAP_UNKNOWN, .stratum = NTP_STRATUM_UNSYNCHRONISED, .id = NTP_KISS_INIT };
}

uint64_t ntp_reference_dispersion_ns(const struct ntp_reference *reference, uint64_t now_ns)
{
    ASSERT(now_ns >= reference->updated_ns);
    return reference->root_dispersion_ns + (now_ns - reference->updated_ns) / NS_PER_MS * NTP_PHI_PPM;
}

void ntp_reference_fill(const struct ntp_reference *reference, struct ntp_packet *packet, uint64_t now_ns)
{
    uint64_t dispersion_ns = ntp_reference_dispersion_ns(reference, now_ns);
    ASSERT(reference->stratum > 0 && reference->stratum <= NTP_STRATUM_UNSYNCHRONISED);
    packet->reference_id = reference->id;
    packet->reference = reference->stamp;
    packet->root_delay_ns = reference->root_delay_ns;
    packet->leap = reference->leap;
    packet->stratum = reference->stratum;
    packet->root_dispersion_ns = dispersion_ns;
    if (reference->stratum < NTP_STRATUM_UNSYNCHRONISED && dispersion_ns < NTP_DISPERSION_MAX_NS)
        return;
    packet->leap = NTP_LEAP_UNKNOWN;
    packet->stratum = 0;
    packet->reference_id = NTP_KISS_INIT; /* RFC 5905 §7.3: at stratum 0 four letters, never an address */
    packet->root_dispersion_ns = NTP_DISPERSION_MAX_NS;
}
