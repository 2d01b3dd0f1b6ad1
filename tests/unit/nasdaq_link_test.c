/* app/nasdaq/link.c: when a session is connected, left and tried again, at the edges of its times. */
#include "app/nasdaq/link.h"

#include "base/log.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"
#include "tests/lib/trade_messages.h"

static const struct endpoint server = { 0x0a000001, 4000 }, standby = { 0x0a000002, 4000 };
static struct link link_;
static uint64_t now_ns, log_at;
static uint8_t packet[64];

bool transport_init(const struct transport_config *config, uint64_t at_ns) { return config != NULL && at_ns != 0; }

BEFORE_EACH()
{
    memset(&soup_counters, 0, sizeof soup_counters);
    fake_reset();
    fake.network.up = true;
    now_ns = NS_PER_S;
    link_init(&link_, "orders", &server, "USER", "PW");
    link_.wanted = true;
    log_at = log_end();
}

/* Lets `ns` pass, and the link take all events. Returns the last thing that it said. */
static enum soup_event pass(uint64_t ns)
{
    enum soup_event last = SOUP_NOTHING, next;
    struct transport_event event;
    struct bytes message;
    now_ns += ns;
    while (transport_poll(now_ns, &event)) {
        if (event.connection < 0 || event.connection != link_.connection)
            continue; /* the network's, or that of a connection which is left */
        link_event(&link_, &event, now_ns);
        while ((next = link_next(&link_, &message, now_ns)) != SOUP_NOTHING)
            last = next;
    }
    link_poll(&link_, now_ns);
    return last;
}

static struct fake_connection *connection(void)
{
    assert_true(link_.connection >= 0);
    return &fake.connections[link_.connection];
}

static void log_in(void)
{
    pass(0);
    fake_connected(link_.connection);
    pass(0);
    fake_data(link_.connection, packet, soup_accepted(packet, "S1", 1));
    assert_true(pass(0) == SOUP_LOGGED_IN && link_is_up(&link_));
}

/* Asserts that the link has logged its failure, or nothing, since the last call. */
static void assert_failure_logged(const char *why)
{
    char line[LOG_LINE_BYTES_MAX + 1] = "";
    const char *said = NULL;
    for (size_t bytes; (bytes = log_read(&log_at, line)) != 0;) {
        line[bytes] = '\0';
        if (strstr(line, "retrying") != NULL)
            said = strstr(line, "4000: ");
    }
    assert_true((said != NULL) == (why != NULL));
    if (why != NULL)
        assert_memory_equal(said + 6, why, strlen(why));
}

TEST(server_is_tried_again_after_each_time_and_said_once)
{
    pass(0);
    assert_int_equal(fake.connect_count, 1);
    pass(LINK_CONNECT_NS - 1);
    assert_false(connection()->aborted_by_us);
    struct fake_connection *first = connection();
    pass(1);
    assert_true(first->aborted_by_us && link_.connection < 0);
    assert_failure_logged("no answer to the connection request");
    pass(LINK_RETRY_NS - 1);
    assert_int_equal(fake.connect_count, 1);
    pass(1);
    assert_int_equal(fake.connect_count, 2);
    fake_closed(link_.connection, TRANSPORT_REFUSED);
    pass(1);
    assert_failure_logged(NULL); /* the second of a row */
    pass(LINK_RETRY_NS);
    log_in();
    struct fake_connection *up = connection();
    fake_ended(link_.connection);
    pass(1);
    assert_true(up->aborted_by_us && link_.connection < 0);
    assert_failure_logged("closed by the server");
}

TEST(refused_login_waits_longer_than_a_malformed_packet)
{
    static const uint8_t letters[] = { 'J', 'A' }; /* a refusal, and an acceptance that is cut short */
    for (size_t i = 0; i < 2; i++) {
        test_before_each();
        pass(0);
        fake_connected(link_.connection);
        pass(0);
        struct fake_connection *c = connection();
        fake_data(link_.connection, packet, soup_packet(packet, letters[i], "A", 1));
        assert_true(pass(0) == SOUP_NOTHING && c->aborted_by_us);
        pass((i == 0 ? LINK_REFUSED_NS : LINK_RETRY_NS) - 1);
        assert_int_equal(fake.connect_count, 1);
        pass(1);
        assert_int_equal(fake.connect_count, 2);
    }
}

TEST(message_that_cannot_leave_is_refused)
{
    static const uint8_t message[LINK_MESSAGE_BYTES_MAX] = "message";
    assert_false(link_send(&link_, message, 1, now_ns)); /* without a session */
    log_in();
    struct fake_connection *c = connection();
    uint32_t before = c->sent_bytes;
    c->no_message = true;
    assert_false(link_send(&link_, message, sizeof message, now_ns));
    c->no_message = false;
    c->window_bytes = 1;
    assert_false(link_send(&link_, message, sizeof message, now_ns));
    assert_int_equal(c->sent_bytes, before);
    c->window_bytes = UINT32_MAX;
    assert_true(link_send(&link_, message, sizeof message, now_ns));
    assert_int_equal(c->sent_bytes - before, SOUP_HEAD_BYTES + sizeof message);
    assert_memory_equal(c->sent + before, "\0\101Umessage", 10);
    before = c->sent_bytes;
    pass(NS_PER_S - 1); /* a heartbeat is due a second after the last packet */
    assert_int_equal(c->sent_bytes, before);
    pass(1);
    assert_int_equal(c->sent_bytes, before + 3);
    link_.wanted = false;
    pass(1);
    assert_true(c->aborted_by_us);
    assert_failure_logged(NULL); /* nobody wants it */
    pass(LINK_REFUSED_NS);
    assert_int_equal(fake.connect_count, 1);
    link_.wanted = true;
    fake.network.up = false;
    pass(0);
    assert_int_equal(fake.connect_count, 1);
}

/* Waits for a connection to a host, and lets it come up. Returns the session that is asked for. */
static const char *session_asked_at(const struct endpoint *host)
{
    pass(0);
    assert_int_equal(connection()->address, host->address);
    fake_connected(link_.connection);
    pass(0);
    return connection()->sent + SOUP_HEAD_BYTES + SOUP_USER_BYTES + SOUP_PASSWORD_BYTES;
}

static void refuse_session(void)
{
    fake_data(link_.connection, packet, soup_packet(packet, 'J', "S", 1));
    pass(0);
}

TEST(second_host_takes_over_and_makes_us_forget_no_session_that_it_never_had)
{
    link_add_host(&link_, &standby);
    log_in();
    assert_int_equal(connection()->address, server.address);
    pass(LINK_SILENCE_NS - 1);
    assert_int_equal(connection()->address, server.address);
    pass(1);
    assert_memory_equal(session_asked_at(&standby), "S1        ", SOUP_SESSION_BYTES);
    refuse_session();
    pass(LINK_RETRY_NS);
    assert_memory_equal(session_asked_at(&server), "S1        ", SOUP_SESSION_BYTES);
    refuse_session();
    pass(LINK_REFUSED_NS - 1);
    assert_memory_equal(session_asked_at(&standby), "          ", SOUP_SESSION_BYTES);
    fake_data(link_.connection, packet, soup_accepted(packet, "S2", 1));
    assert_int_equal(pass(0), SOUP_NEW_SESSION);
    fake_closed(link_.connection, TRANSPORT_RESET);
    pass(1);
    assert_memory_equal(session_asked_at(&server), "S2        ", SOUP_SESSION_BYTES);
    link_leave(&link_, "told so", now_ns);
    pass(LINK_RETRY_NS);
    assert_memory_equal(session_asked_at(&standby), "S2        ", SOUP_SESSION_BYTES);
}
