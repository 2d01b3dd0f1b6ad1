/* app/nasdaq/soup.c: the client of a SoupBinTCP session, bytes in any pieces. */
#include "app/nasdaq/soup.h"

#include "base/secrets.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"
#include "tests/lib/trade_messages.h"

static struct soup soup;
static uint64_t now_ns;
static uint8_t stream[8192];

BEFORE_EACH()
{
    memset(&soup_counters, 0, sizeof soup_counters);
    now_ns = NS_PER_S;
    soup_init(&soup, "USER", "PASSWORD");
    soup_connected(&soup, now_ns);
}

static void connect_again(void)
{
    soup_closed(&soup);
    soup_connected(&soup, now_ns);
}

/* Returns the first event of some bytes, which end where their memory ends. */
static enum soup_event take(uint32_t bytes, uint8_t *message, size_t *message_bytes)
{
    struct bytes got = { NULL, 0 };
    uint8_t *exact = test_malloc(bytes);
    memcpy(exact, stream, bytes);
    soup_data(&soup, (struct bytes){ exact, bytes }, now_ns);
    enum soup_event event = soup_next(&soup, &got);
    if (event == SOUP_MESSAGE && message != NULL) {
        memcpy(message, got.data, got.count);
        *message_bytes = got.count;
    }
    if (event <= SOUP_NEW_SESSION && event != SOUP_NOTHING)
        assert_int_equal(soup_next(&soup, &got), SOUP_NOTHING);
    soup.input = (struct bytes){ NULL, 0 };
    soup_check(&soup);
    test_free(exact);
    return event;
}

static void log_in(uint64_t sequence)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    assert_int_equal(soup_due(&soup, now_ns, packet), SOUP_LOGIN_BYTES);
    soup_sent(&soup, now_ns);
    assert_int_equal(take(soup_accepted(stream, "S1", sequence), NULL, NULL), SOUP_LOGGED_IN);
}

TEST(login_asks_for_the_first_message_of_any_session)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    assert_true(soup_due(&soup, now_ns, packet) == SOUP_LOGIN_BYTES && load_be16(packet) == 47);
    assert_memory_equal(packet + 2, "LUSER  PASSWORD                               1", 47);
    secrets_wipe(packet, packet + SOUP_LOGIN_BYTES, packet + SOUP_LOGIN_BYTES);
    assert_memory_equal(packet + 3, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 ", 17); /* name and password are noted */
    soup_sent(&soup, now_ns);
    assert_int_equal(soup_due(&soup, now_ns, packet), 0);
}

TEST(login_may_fill_each_field)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    soup.user = "SIX456", soup.password = "TEN4567890", soup.next_sequence = UINT64_MAX;
    memcpy(soup.session, "SESSION890", SOUP_SESSION_BYTES);
    assert_int_equal(soup_due(&soup, now_ns, packet), SOUP_LOGIN_BYTES);
    assert_memory_equal(packet + 2, "LSIX456TEN4567890SESSION89018446744073709551615", 47);
}

TEST(next_login_goes_on_where_the_session_was)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    log_in(1);
    assert_int_equal(soup.state, SOUP_UP);
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(soup_packet(stream, 'S', "x", 1), NULL, NULL), SOUP_MESSAGE);
    assert_int_equal(soup_counters.messages, 3);
    assert_int_equal(take(soup_packet(stream, '+', "debug", 5), NULL, NULL), SOUP_NOTHING);
    connect_again();
    soup_due(&soup, now_ns, packet);
    assert_memory_equal(packet + 2 + 1 + 16, "S1                           4", 30);
    soup_sent(&soup, now_ns);
    assert_int_equal(take(soup_accepted(stream, "S1", 4), NULL, NULL), SOUP_LOGGED_IN);
}

TEST(other_session_or_number_is_said)
{
    log_in(1);
    take(soup_packet(stream, 'S', "x", 1), NULL, NULL);
    connect_again();
    assert_int_equal(take(soup_accepted(stream, "S2", 2), NULL, NULL), SOUP_NEW_SESSION);
    connect_again();
    assert_int_equal(take(soup_accepted(stream, "S2", 1), NULL, NULL), SOUP_NEW_SESSION);
    assert_int_equal(soup_counters.new_sessions, 2);
    connect_again();
    assert_int_equal(take(soup_packet(stream, 'J', "S", 1), NULL, NULL), SOUP_REFUSED);
    connect_again();
    uint8_t packet[SOUP_LOGIN_BYTES];
    soup_due(&soup, now_ns, packet);
    assert_memory_equal(packet + 2 + 1 + 16, "                             1",
                        30); /* any session, from its beginning */
    soup_sent(&soup, now_ns);
    assert_int_equal(take(soup_accepted(stream, "S3", 1), NULL, NULL), SOUP_NEW_SESSION);
}

TEST(refusal_and_end_are_events)
{
    assert_int_equal(take(soup_packet(stream, 'J', "A", 1), NULL, NULL), SOUP_REFUSED);
    assert_int_equal(soup_counters.refused_user, 1);
    connect_again();
    log_in(1);
    assert_int_equal(take(soup_packet(stream, 'Z', NULL, 0), NULL, NULL), SOUP_ENDED);
    assert_true(soup_counters.ended == 1 && soup_counters.logins == 1);
}

TEST(malformed_packets_end_the_connection)
{
    assert_int_equal(take(soup_packet(stream, 'S', "x", 1), NULL, NULL), SOUP_MALFORMED); /* before the login */
    connect_again();
    assert_int_equal(take(soup_packet(stream, 'A', "short", 5), NULL, NULL), SOUP_MALFORMED);
    assert_int_equal(take(soup_accepted(stream, "S1", 0), NULL, NULL), SOUP_MALFORMED); /* numbers begin at 1 */
    log_in(1);
    assert_int_equal(take(soup_accepted(stream, "S1", 1), NULL, NULL), SOUP_MALFORMED); /* a second login */
    connect_again();
    log_in(1);
    static const uint8_t longest[SOUP_PACKET_BYTES_MAX - 1];
    assert_int_equal(take(soup_packet(stream, 'S', longest, sizeof longest), NULL, NULL), SOUP_MESSAGE);
    store_be16(stream, 0);
    assert_int_equal(take(3, NULL, NULL), SOUP_MALFORMED);
    connect_again();
    store_be16(stream, SOUP_PACKET_BYTES_MAX + 1);
    assert_true(take(3, NULL, NULL) == SOUP_MALFORMED && soup_counters.drop_length == 2);
    connect_again();
    assert_int_equal(take(soup_packet(stream, 'Q', NULL, 0), NULL, NULL), SOUP_MALFORMED);
    assert_int_equal(soup_counters.drop_type, 1);
}

TEST(heartbeat_is_due_after_a_second_and_silence_ends_it)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    log_in(1);
    now_ns += SOUP_HEARTBEAT_NS - 1;
    assert_int_equal(soup_due(&soup, now_ns, packet), 0);
    now_ns += 1;
    assert_int_equal(soup_due(&soup, now_ns, packet), 3);
    assert_memory_equal(packet, "\0\1R", 3);
    soup_sent(&soup, now_ns);
    assert_int_equal(soup_due(&soup, now_ns, packet), 0);
    now_ns += SOUP_SILENCE_NS - SOUP_HEARTBEAT_NS - 1;
    assert_false(soup_is_silent(&soup, now_ns));
    now_ns += 1;
    assert_true(soup_is_silent(&soup, now_ns));
    take(soup_packet(stream, 'H', NULL, 0), NULL, NULL);
    assert_false(soup_is_silent(&soup, now_ns));
}

TEST(server_is_idle_from_its_heartbeat_to_the_next_message)
{
    log_in(1);
    assert_false(soup.idle);
    take(soup_packet(stream, 'H', NULL, 0), NULL, NULL);
    assert_true(soup.idle);
    take(soup_packet(stream, 'S', "x", 1), NULL, NULL);
    assert_false(soup.idle);
    take(soup_packet(stream, 'H', NULL, 0), NULL, NULL);
    connect_again();
    take(soup_accepted(stream, "S1", 2), NULL, NULL);
    assert_false(soup.idle);
}

TEST(messages_come_whole_from_pieces_of_any_size)
{
    enum { COUNT = 400 };
    random_seed(11);
    log_in(1);
    for (int round = 0; round < 20; round++) {
        uint32_t bytes = 0, at = 0, got = 0;
        uint8_t body[SOUP_PACKET_BYTES_MAX];
        uint32_t lengths[COUNT], count = 0;
        while (bytes < sizeof stream - SOUP_PACKET_BYTES_MAX - 3 && count < COUNT) {
            lengths[count] = (uint32_t)random_below(random_below(8) == 0 ? SOUP_PACKET_BYTES_MAX : 60);
            memset(body, (int)count, sizeof body);
            bytes += soup_packet(stream + bytes, 'S', body, lengths[count++]);
        }
        while (at < bytes) {
            uint32_t piece = min_u32(1 + (uint32_t)random_below(1 + random_below(700)), bytes - at);
            uint8_t *exact = test_malloc(piece);
            struct bytes message;
            enum soup_event event;
            memcpy(exact, stream + at, piece);
            soup_data(&soup, (struct bytes){ exact, piece }, now_ns);
            while ((event = soup_next(&soup, &message)) == SOUP_MESSAGE) {
                assert_int_equal(message.count, lengths[got]);
                for (size_t i = 0; i < message.count; i++)
                    assert_int_equal(message.data[i], (uint8_t)got);
                got++;
            }
            assert_int_equal(event, SOUP_NOTHING);
            test_free(exact);
            at += piece;
        }
        assert_int_equal(got, count);
    }
}
