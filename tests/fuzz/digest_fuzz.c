/* Fuzzes the digest service over the scripted transport of the unit tests. A script, [action][bytes][data] ..., is what
 * its clients do. No assertion fails, each response is HTTP, and every place is free when the clients have gone. */
#include "app/digest/server.h"
#include "app/digest/settings.h"
#include "app/digest/variants.h"
#include "app/service/stats.h"
#include "base/time.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fake_transport.c"

enum { PORT = 8080, CLIENTS = 4, ACTIONS_MAX = 200, TURNS_MAX = 100000 };

static void turn(uint64_t now_ns)
{
    struct transport_event event;
    while (transport_poll(now_ns, &event))
        digest_server_event(&event, now_ns);
    digest_server_work(now_ns);
    digest_server_check();
}

static void act(uint8_t action, const uint8_t *data, size_t bytes, uint64_t *now_ns)
{
    static const enum transport_reason reasons[] = { TRANSPORT_DONE, TRANSPORT_RESET, TRANSPORT_TIMED_OUT };
    int id = action >> 4 & (CLIENTS - 1);
    struct fake_connection *c = &fake.connections[id];
    switch (action & 15) {
    case 0:
        fake_accepted(PORT); /* the first free connection */
        break;
    case 1:
        if (c->used)
            fake_ended(id);
        break;
    case 2:
        if (c->used)
            fake_over(id, reasons[bytes % ARRAY_COUNT(reasons)]);
        break;
    case 3:
        c->acked_bytes += (uint32_t)min_size(bytes * 200, c->sent_bytes - c->acked_bytes);
        break;
    case 4:
        c->window_bytes = (uint32_t)bytes * 50;
        break;
    case 5:
        c->no_message = bytes & 1;
        break;
    case 6:
        fake.linger = bytes & 1;
        break;
    case 7:
        *now_ns += (uint64_t)bytes * 40 * NS_PER_MS;
        break;
    default:
        if (c->used && !c->held && !c->over)
            fake_data(id, data, bytes);
    }
}

/* Ends all connections; asserts that the service then has nothing left to do. */
static void leave(uint64_t now_ns)
{
    for (int id = 0; id < TRANSPORT_CONNECTION_COUNT_MAX; id++)
        if (fake.connections[id].used)
            fake_over(id, TRANSPORT_RESET);
    for (int i = 0; digest_server_next_deadline_ns(now_ns) != UINT64_MAX; i++) {
        ASSERT(i < TURNS_MAX);
        turn(now_ns);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool chosen; /* variants are timed, which takes longer than a script */
    uint64_t now_ns = NS_PER_S;
    fake_reset();
    stats_clear();
    if (!chosen)
        digest_variants_choose(true, 2000000);
    chosen = true;
    digest_settings = (struct digest_settings){ .rounds_max = 1000,
                                                .body_max = 3000,
                                                .client_timeout_ns = 10 * NS_PER_S };
    ASSERT(digest_server_init(PORT));
    for (int i = 0; i < ACTIONS_MAX && size >= 2; i++) {
        size_t bytes = min_size(data[1], size - 2);
        act(data[0], data + 2, bytes, &now_ns);
        data += 2 + bytes;
        size -= 2 + bytes;
        turn(now_ns += 100 * NS_PER_US);
    }
    for (int id = 0; id < CLIENTS; id++)
        if (fake.connections[id].sent_bytes >= 9)
            ASSERT(memcmp(fake.connections[id].sent, "HTTP/1.1 ", 9) == 0);
    leave(now_ns);
    return 0;
}
