/* Fuzzes the whole player over the fake transport of the unit tests. A script, [action][bytes][data] ..., lists the
 * actions of two servers, an operator and readers of the status page. No assertion fails, and every answer is accounted
 * for. */
#include "app/player/answer_set.h"
#include "app/player/input_stream.h"
#include "app/player/player.h"
#include "app/player/send_queue.h"
#include "app/player/submit.h"
#include "app/service/status_page.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fake_transport.c"
#include "tests/lib/player_setup.h"

enum { FEED = 10001, SUBMIT = 10002, PAGE = 8080, ACTIONS_MAX = 300 };

static void act(uint8_t action, const uint8_t *data, size_t bytes, uint64_t *now_ns)
{
    static const enum transport_reason reasons[] = { TRANSPORT_DONE, TRANSPORT_REFUSED, TRANSPORT_RESET,
                                                     TRANSPORT_TIMED_OUT, TRANSPORT_UNREACHABLE };
    int id = fake_to(action & 1 ? SUBMIT : FEED);
    struct fake_connection *c = id >= 0 ? &fake.connections[id] : NULL;
    int reader = fake_to(0); /* accepted connections have port 0 */
    switch (action >> 1 & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (c && c->connected)
            fake_data(id, data, bytes);
        break;
    case 4:
    case 5:
        if (c && !c->connected)
            fake_connected(id);
        break;
    case 6:
        if (c && c->connected)
            fake_ended(id);
        break;
    case 7:
        fake_closed(id, reasons[bytes % ARRAY_COUNT(reasons)]);
        break;
    case 8:
        if (c)
            c->acked_bytes += (uint32_t)min_size(bytes * 20, c->sent_bytes - c->acked_bytes);
        break;
    case 9:
        if (c)
            c->window_bytes = (uint32_t)bytes * 50;
        break;
    case 10:
        if (c)
            c->no_message = bytes & 1;
        break;
    case 11:
        fake.network.up = bytes & 1;
        break;
    case 12:
        fake.refuse_connect = bytes & 1;
        fake.linger = bytes & 2;
        break;
    case 13:
        fake_datagram(1, 2, 18247, data, bytes);
        break;
    case 14:
        if (bytes == 0)
            fake_accepted(PAGE);
        else if (reader >= 0)
            fake_data(reader, data, bytes);
        break;
    default:
        *now_ns += (uint64_t)bytes * 40000000;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char words[] =
        "feed=10.0.2.2:10001 submit=10.0.2.2:10002 user=u passwd=p simd=scalar n=7 m=7,108 key=fuzzfuzz "
        "net.timeout=30 server.timeout=60 feed.timeout=9 wait=sleep "
        "http.port=8080";
    static bool has_tables; /* the matcher's tables take longer to compute than a script takes */
    uint64_t now_ns = 1000000000;
    fake_reset();
    player_setup(words, has_tables, 2000000, now_ns);
    has_tables = true;

    for (int i = 0; i < ACTIONS_MAX && size >= 2; i++) {
        size_t bytes = min_size(data[1], size - 2);
        act(data[0], data + 2, bytes, &now_ns);
        data += 2 + bytes;
        size -= 2 + bytes;
        player_turn(now_ns += 100000);
        player_check();
        status_page_check();
        if (i % 32 == 31) /* takes as long as many turns */
            player_check_matcher();
        ASSERT(player_next_deadline_ns(now_ns) <= now_ns + 100000000);
        ASSERT(answer_set_counters.entered
               == submit_counters.unanswered + submit_counters.dropped_expired + submit_counters.dropped_no_room
                      + submit_response_ns.count + send_queue_waiting_count() + send_queue_unanswered_count());
    }
    player_settle(now_ns);
    player_check_matcher();
    return 0;
}
