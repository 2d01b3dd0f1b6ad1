/* Fuzzes the trading program over the scripted transport of the unit tests: datagrams of the feed's lines and of the
 * rerequest server, bytes of both sessions, broken connections, pauses. No assertion fails. Each order that leaves
 * keeps the limits, whatever the exchange says.
 *
 * Input: for each event a byte that chooses it, its length, its bytes. Some events give the bytes the head that makes
 * them the next message of the feed or of a session. */
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "app/trade/book.h"
#include "app/trade/ouch.h"
#include "app/trade/settings.h"
#include "app/trade/trade.h"
#include "base/time.h"
#include "tests/fuzz/datagrams.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fake_transport.c"
#include "tests/lib/random.h"
#include "tests/lib/trade_messages.h"

enum { EXCHANGE = 0x0a000202, SNAPSHOT = 5004, ORDERS = 5005, REREQUEST_PORT = 26410, LOCATE = 7, EVENTS_MAX = 300 };
static const char words[] = "feed.a=0.0.0.0:5001 feed.b=0.0.0.0:5002 rerequest=10.0.2.2:5003 "
                            "orders=10.0.2.2:5005 user=USER passwd=PW symbols=AAAA,BB orders.max=1024 strategy=join "
                            "risk.short=on risk.collar=20 risk.position=300 risk.rate=1000 ";
static const char *const hosts[] = { "snapshot=10.0.2.2:5004", "orders.b=10.0.2.3:5005" }; /* by the input's length */

static uint64_t now_ns, sequence;
static int orders; /* the connection whose bytes are watched */
static uint32_t seen_bytes;

static uint64_t clock_now(void) { return now_ns; }

/* Checks the orders that have left since the last call. */
static void check_orders(void)
{
    if (fake_to(ORDERS) != orders) {
        orders = fake_to(ORDERS);
        seen_bytes = 0;
    }
    if (orders < 0)
        return;
    const struct fake_connection *c = &fake.connections[orders];
    while (seen_bytes < c->sent_bytes) {
        const uint8_t *p = (const uint8_t *)c->sent + seen_bytes;
        uint32_t bytes = 2 + load_be16(p);
        ASSERT(seen_bytes + bytes <= c->sent_bytes);
        if (p[2] == 'U' && (p[3] == 'O' || p[3] == 'U')) {
            bool enters = p[3] == 'O';
            uint32_t shares = load_be32(p + (enters ? 9 : 12));
            uint64_t price = load_be64(p + (enters ? 21 : 16));
            ASSERT(bytes == 3 + (enters ? OUCH_ENTER_BYTES : OUCH_REPLACE_BYTES));
            ASSERT(shares > 0 && shares <= trade_settings.risk.shares_max);
            ASSERT(price > 0 && price <= RISK_PRICE_MAX);
            ASSERT(ouch_is_sure() && book_doubts() != 3 && book_market_is_open());
        }
        seen_bytes += bytes;
    }
}

static void turn(uint64_t ns)
{
    now_ns += ns;
    trade_turn(now_ns);
    trade_check();
    check_orders();
}

static void feed(const uint8_t *message, uint32_t bytes)
{
    static uint8_t packet[2048];
    uint32_t head = mold_head(packet, MOLD_TEST_SESSION, sequence++, 1);
    head += mold_block(packet + head, message, bytes);
    fake_datagram(EXCHANGE, 9, 5001, packet, head);
    turn(1000);
}

static void packet_to(int id, char type, const void *body, uint32_t bytes)
{
    static uint8_t packet[2048];
    if (id >= 0 && fake.connections[id].connected)
        fake_data(id, packet, soup_packet(packet, type, body, bytes));
    turn(1000);
}

/* Brings the session of the orders up, and the market to where orders leave. */
static void begin(const char *host)
{
    static struct settings settings;
    struct program_machine machine = { .tsc_khz = 1000000, .now_ns = clock_now };
    uint8_t m[128];
    random_secret(1, machine.secret, sizeof machine.secret);
    service_settings_begin(&settings, "trade", &trade_settings_table, NULL);
    settings_add(&settings, "fuzz", words, sizeof words - 1);
    settings_add(&settings, "host", host, strlen(host));
    ASSERT(settings_finish(&settings));
    fake_reset();
    fake.rehearses = true;
    stats_clear();
    now_ns = NS_PER_S;
    sequence = 1;
    orders = -1;
    ASSERT(service_init(machine.secret, false, now_ns) == NULL);
    ASSERT(trade_init(&machine, now_ns) == NULL);
    turn(2 * NS_PER_MS);
    fake_connected(fake_to(ORDERS));
    turn(2 * NS_PER_MS);
    packet_to(fake_to(ORDERS), 'A', "S1                           1", 30);
    turn(2 * NS_PER_MS);
    packet_to(fake_to(ORDERS), 'S', m, ouch_response(m, 'Q', 1, 13));
    packet_to(fake_to(ORDERS), 'H', NULL, 0);
    turn(OUCH_QUIET_NS + NS_PER_MS);
    feed(m, itch_directory(m, LOCATE, "AAAA"));
    feed(m, itch_action(m, LOCATE, 'T'));
    feed(m, itch_event(m, ITCH_MARKET_OPENS));
    feed(m, itch_trade(m, LOCATE, 1000000));
    turn(NS_PER_MS);
}

static void act(uint8_t action, const uint8_t *data, size_t bytes)
{
    static const uint16_t ports[] = { 5001, 5002, REREQUEST_PORT };
    static uint8_t message[512];
    int id = fake_to(action & 128 ? SNAPSHOT : ORDERS);
    switch (action & 15) {
    case 0:
    case 1:
    case 2:
        fake_datagram(EXCHANGE, 5003, ports[action & 15], data, bytes);
        break;
    case 3: /* the next message of the feed, with our locate */
    case 4:
        memcpy(message, data, bytes);
        if (bytes >= 3 && !(action & 16))
            store_be16(message + 1, LOCATE);
        feed(message, (uint32_t)bytes);
        break;
    case 5: /* a sequenced message */
    case 6:
        packet_to(id, 'S', data, (uint32_t)bytes);
        break;
    case 7:
        if (id >= 0 && fake.connections[id].connected && bytes > 0)
            fake_data(id, data, bytes);
        break;
    case 8:
        if (id >= 0)
            fake_closed(id, action & 16 ? TRANSPORT_RESET : TRANSPORT_DONE);
        break;
    case 9:
        if (id >= 0 && !fake.connections[id].connected)
            fake_connected(id);
        break;
    case 10:
        packet_to(id, 'A', "S1                           1", 30);
        break;
    case 11:
        turn((uint64_t)bytes * 40 * NS_PER_MS);
        break;
    case 12:
        sequence += bytes;
        break;
    case 13:
        trade_set(text_of(action & 16 ? "stop" : "start"));
        break;
    case 14:
        if (id >= 0)
            fake.connections[id].no_message = bytes & 1;
        break;
    default: /* an order of our locate */
        feed(message, itch_add(message, LOCATE, action, action & 16 ? 'B' : 'S', 1 + (uint32_t)bytes,
                               1000000 + (uint32_t)bytes * 100));
        break;
    }
    turn(NS_PER_MS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_datagram event;
    begin(hosts[size % ARRAY_COUNT(hosts)]);
    for (int i = 0; i < EVENTS_MAX && fuzz_datagram_take(&event, &data, &size); i++) {
        act(event.flags, event.data, event.bytes);
        free(event.data);
    }
    book_check();
    return 0;
}
