/* Fuzzes the time program's server and client, app/time/server.c and client.c: datagrams of any bytes from a few
 * addresses, after any pauses. No reply is longer than its request, only requests are answered, and only genuine
 * replies move the clock.
 *
 * Input: for each datagram a byte of flags, its length, its bytes. */
#include "app/time/client.h"
#include "app/time/rate_limit.h"
#include "app/time/server.h"
#include "tests/fuzz/datagrams.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fake_transport.c"

enum { TO_CLIENT = 1, FROM_PEER = 2, GENUINE = 4, LATER = 8, MUCH_LATER = 16, PEER = 1, DATAGRAMS_MAX = 200 };

static uint64_t now_ns;
static uint64_t clock_now(void) { return now_ns; }
static struct ntp_clock ntp_clock;
static struct ntp_reference reference;

static void begin(void)
{
    const struct ntp_server_config server = { .refuse_private = true, .precision = -24 };
    const struct ntp_client_config client = {
        .address = PEER, .port = NTP_PORT, .poll_ns = NS_PER_S, .key = { 1, 2 }, .now_ns = clock_now
    };
    fake_reset();
    now_ns = NS_PER_S;
    ntp_server_init(&server);
    rate_limit_init(client.key, 10, 3);
    ntp_clock_init(&ntp_clock, 0, now_ns);
    reference = ntp_reference_none();
    ASSERT(ntp_client_init(&client, now_ns));
}

/* Gives a datagram the origin that the client waits for. */
static void make_genuine(uint8_t *datagram, size_t bytes)
{
    if (bytes < NTP_PACKET_BYTES || fake.datagram_count == 0)
        return;
    datagram[0] = (uint8_t)((datagram[0] & 0xc0) | NTP_VERSION << 3 | NTP_MODE_SERVER);
    memcpy(datagram + 24, fake.datagrams[0].data + 40, 8);
}

static void deliver(const struct transport_event *event)
{
    uint8_t reply[NTP_PACKET_BYTES];
    if (event->port != NTP_PORT) {
        struct ntp_clock before = ntp_clock;
        uint64_t replies = ntp_client_counters.replies;
        ntp_client_datagram(event, now_ns, &ntp_clock, &reference);
        if (ntp_client_counters.replies == replies)
            ASSERT(memcmp(&before, &ntp_clock, sizeof before) == 0);
    } else if (ntp_server_reply(event, now_ns, &ntp_clock, &reference, reply)) {
        ASSERT(event->payload.count >= sizeof reply);
        ASSERT((event->payload.data[0] & 7) == NTP_MODE_CLIENT || (event->payload.data[0] & 0x3f) == 1 << 3);
        ASSERT((reply[0] & 7) == NTP_MODE_SERVER && memcmp(reply + 24, event->payload.data + 40, 8) == 0);
        ASSERT((reply[1] == 0) == (reply[0] >> 6 == NTP_LEAP_UNKNOWN) || reference.leap == NTP_LEAP_UNKNOWN);
    }
    ntp_clock_check(&ntp_clock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    struct fuzz_datagram datagram;
    for (int i = 0; i < DATAGRAMS_MAX && fuzz_datagram_take(&datagram, &data, &size); i++) {
        now_ns += datagram.flags & MUCH_LATER ? 100 * NS_PER_S : datagram.flags & LATER ? NS_PER_S : 1000;
        fake.datagram_count = 0;
        ntp_client_poll(now_ns);
        if (datagram.flags & GENUINE)
            make_genuine(datagram.data, datagram.bytes);
        deliver(&(struct transport_event){
            .kind = TRANSPORT_DATAGRAM,
            .payload = { datagram.data, datagram.bytes },
            .address = datagram.flags & FROM_PEER ? PEER : 0x01000000 + (datagram.flags >> 5),
            .peer_port = datagram.flags & FROM_PEER ? NTP_PORT : 40000,
            .port = datagram.flags & TO_CLIENT ? ntp_client_port() : NTP_PORT,
        });
        free(datagram.data);
    }
    return 0;
}
