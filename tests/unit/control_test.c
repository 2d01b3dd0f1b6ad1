/* app/service/control.c over a fake transport. The client is written here byte by byte, from docs/control.md. */
#include "app/service/control.h"
#include "app/service/stats.h"
#include "base/hmac.h"
#include "base/log.h"
#include "base/siphash.h"
#include "net/capture/pcapng.h"
#include "tests/lib/fake_capture.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define MS UINT64_C(1000000)

enum { PORT = 18247, PEER = 0x0a000203, PEER_PORT = 40000 };
static const char key[] = "correct horse";
static const uint8_t secret[32 + 1] = "the secret of this run, 32 bytes";
static uint64_t now;
static uint8_t nonce[16 + 1] = "0123456789abcdef";

static void start(void)
{
    fake_reset();
    stats_clear();
    stats_add_counters(&control_counter_group);
    now = 100 * 1000 * MS;
    assert_true(control_init((const uint8_t *)key, strlen(key), PORT, secret));
}

/* Delivers the bytes in a buffer of exactly their size. */
static void deliver_from(uint32_t address, uint16_t port, const void *data, size_t bytes)
{
    uint8_t *exact = test_malloc(bytes ? bytes : 1);
    memcpy(exact, data, bytes);
    struct transport_event event = {
        .kind = TRANSPORT_DATAGRAM, .payload = { exact, bytes }, .address = address, .peer_port = port, .port = PORT
    };
    control_datagram(&event, now);
    test_free(exact);
}

static void deliver(const void *data, size_t bytes) { deliver_from(PEER, PEER_PORT, data, bytes); }

static void header(uint8_t *out, uint8_t type, uint16_t bytes)
{
    memset(out, 0, bytes);
    memcpy(out, "PGRN\1", 5);
    out[5] = type;
    store_be16(out + 6, bytes);
}

static void hello(void)
{
    uint8_t out[64];
    header(out, 1, 64);
    memcpy(out + 8, nonce, 16);
    deliver(out, 64);
}

/* Makes a command that answers the newest challenge. */
static void make_command(uint8_t out[96], uint8_t command, const char *with_key)
{
    const struct fake_datagram *challenge = &fake.datagrams[fake.datagram_count - 1];
    struct hmac_key k;
    header(out, 3, 96);
    memcpy(out + 8, challenge->data + 8, 48);
    out[56] = command;
    hmac_key_set(&k, with_key, strlen(with_key));
    hmac(&k, out, 64, out + 64);
}

/* Begins again, with a challenge and a command that answers it. */
static void start_with_command(uint8_t out[96], uint8_t command, const char *with_key)
{
    start();
    hello();
    make_command(out, command, with_key);
}

/* Delivers a command that answers the newest challenge. */
static void deliver_command(uint8_t number)
{
    uint8_t command[96];
    make_command(command, number, key);
    deliver(command, 96);
}

static void pass(uint64_t ms)
{
    for (uint64_t i = 0; i < ms * 4; i++) {
        now += MS / 4;
        control_poll(now);
        control_check();
    }
}

static size_t reply_bytes;

/* Returns the reply's text, reply_bytes of it: its parts from `from` on put together, each checked. */
static const char *reply_text(uint32_t from, uint8_t command)
{
    static char text[STATS_TEXT_BYTES_MAX + 1];
    struct hmac_key k;
    size_t used = 0;
    hmac_key_set(&k, key, strlen(key));
    const struct fake_datagram *first = &fake.datagrams[from];
    uint16_t count = load_be16(first->data + 52);
    for (uint16_t i = 0; i < count; i++) {
        const struct fake_datagram *d = &fake.datagrams[from + i];
        uint8_t mac[32];
        uint16_t text_bytes = load_be16(d->data + 54);
        assert_true(from + i < fake.datagram_count);
        assert_int_equal(d->address, PEER);
        assert_int_equal(d->to_port, PEER_PORT);
        assert_int_equal(d->from_port, PORT);
        assert_memory_equal(d->data, "PGRN\1\4", 6);
        assert_int_equal(load_be16(d->data + 6), d->bytes);
        assert_memory_equal(d->data + 8, nonce, 16);
        assert_int_equal(d->data[48], command);
        assert_int_equal(load_be16(d->data + 50), i);
        assert_int_equal(load_be16(d->data + 52), count);
        assert_int_equal(d->bytes, 56 + text_bytes + 32);
        hmac(&k, d->data, d->bytes - 32, mac);
        assert_memory_equal(mac, d->data + d->bytes - 32, 32);
        memcpy(text + used, d->data + 56, text_bytes);
        used += text_bytes;
    }
    text[used] = '\0';
    reply_bytes = used;
    return text;
}

TEST(the_statistics_are_sent_to_the_owner_of_the_key)
{
    start();
    hello();
    assert_int_equal(fake.datagram_count, 1);
    assert_int_equal(control_last_command_ns(), 0); /* a HELLO needs no key, and is no command */
    assert_int_equal(fake.datagrams[0].bytes, 56);
    assert_memory_equal(fake.datagrams[0].data + 8, nonce, 16);
    now += 500 * MS;
    deliver_command(1);
    pass(20);
    const char *text = reply_text(1, 1);
    assert_memory_equal(text, "control.hellos 1\ncontrol.commands_status 1\n", 43);
    assert_non_null(strstr(text, "control.send_failed 0\n"));
    assert_false(control_gg_done());
    assert_true(control_last_command_ns() != 0 && now - control_last_command_ns() <= 20 * MS);
    assert_int_equal(control_next_deadline_ns(now), UINT64_MAX);
}

/* Returns the text of the answer to a command that asks from `position` on. */
static const char *ask_from(uint8_t number, uint64_t position)
{
    uint8_t command[96];
    struct hmac_key k;
    nonce[15]++;
    hello();
    make_command(command, number, key);
    for (int i = 0; i < 7; i++)
        command[57 + i] = (uint8_t)(position >> (48 - 8 * i));
    hmac_key_set(&k, key, strlen(key));
    hmac(&k, command, 64, command + 64);
    uint32_t before = fake.datagram_count;
    deliver(command, 96);
    pass(100);
    return reply_text(before, number);
}

static const char *log_from(uint64_t position) { return ask_from(3, position); }

TEST(the_log_is_sent_from_a_position_on)
{
    start();
    uint64_t next = 0, again;
    for (;;) { /* to the end of the lines that other tests have left */
        const char *text = log_from(next);
        assert_memory_equal(text, "log ", 4);
        assert_int_equal(text[23], '\n');
        again = strtoull(text + 4, NULL, 10);
        if (again == next)
            break;
        assert_true(strlen(text) <= 9600);
        next = again;
        fake_reset();
    }
    log_line("first");
    log_line("second");
    const char *text = log_from(next);
    assert_string_equal(text + 24, "[    0.000000] first\n[    0.000000] second\n");
    assert_int_equal(strtoull(text + 4, NULL, 10), next + strlen(text + 24));
    text = log_from(next + 21);
    assert_string_equal(text + 24, "[    0.000000] second\n");
    log_line("one of many!!");
    for (int i = 0; i < 1000; i++)
        log_line("one of many!");
    text = log_from(next + 43);
    assert_int_equal(strlen(text), 24 + 29 + 340 * 28); /* one more is a byte too much */
    text = log_from(next + 43 + 29);
    assert_int_equal(strlen(text), 9600);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_non_null(strstr(log_from(UINT64_C(0xffffffffffffff)), "one of many!\n")); /* never written: the oldest */
    assert_int_equal(control_counters.commands_log, control_counters.hellos);
}

/* Reads the capture as tools/peregrine does, and compares it with the file as it is written at once. */
static void assert_capture_is(uint64_t frames)
{
    static uint8_t expected[FAKE_CAPTURE_FRAMES * PCAPNG_BLOCK_BYTES_MAX], file[sizeof expected];
    size_t expected_bytes = 0, file_bytes = 0, bytes;
    uint64_t position = 0, next = 0, end = UINT64_MAX;
    while ((bytes = pcapng_next(&position, capture_newest(), expected + expected_bytes)) != 0)
        expected_bytes += bytes;
    while (next <= end) {
        fake_reset();
        const char *text = ask_from(5, next);
        assert_memory_equal(text, "capture ", 8);
        assert_int_equal(text[47], '\n');
        assert_true(strtoull(text + 8, NULL, 10) > next);
        next = strtoull(text + 8, NULL, 10);
        end = strtoull(text + 28, NULL, 10);
        assert_int_equal(end, frames);
        memcpy(file + file_bytes, text + 48, reply_bytes - 48);
        file_bytes += reply_bytes - 48;
    }
    assert_int_equal(file_bytes, expected_bytes);
    assert_memory_equal(file, expected, file_bytes);
}

TEST(the_capture_is_sent_from_a_position_on)
{
    uint8_t data[NETDEV_FRAME_BYTES_MAX] = { 0 };
    start();
    fake_capture_begin(CAPTURE_BYTES_MAX);
    fake_capture_frame(data, 60);
    assert_capture_is(1);
    for (uint32_t i = 0; i < 40; i++) { /* two answers */
        memset(data, (int)i, sizeof data);
        fake_capture_frame(data, NETDEV_FRAME_BYTES_MAX - i);
    }
    assert_capture_is(41);
    assert_string_equal(ask_from(5, 42), "capture 0000000000000000042 0000000000000000041\n");
    assert_int_equal(control_counters.commands_capture, control_counters.hellos);
}

TEST(without_a_capture_the_command_is_refused)
{
    start();
    fake_capture_begin(0);
    const char *text = ask_from(5, 0);
    assert_string_equal(text, "no frames are kept: capture= is not set");
    assert_int_equal(fake.datagrams[fake.datagram_count - 1].data[49], 2);
}

TEST(long_statistics_come_in_parts)
{
    static char words[30][81];
    start();
    for (int i = 0; i < 30; i++) {
        memset(words[i], 'a' + i % 26, 80);
        stats_add_fact("fact", words[i]);
    }
    hello();
    deliver_command(1);
    pass(100);
    char expected[STATS_TEXT_BYTES_MAX];
    const char *text = reply_text(1, 1);
    assert_int_equal(strlen(text), stats_render(expected, sizeof expected));
    assert_int_equal(load_be16(fake.datagrams[1].data + 52), 3);
    assert_int_equal(fake.datagram_count, 4);
    assert_memory_equal(text, "fact aaaa", 9);
    for (int i = 0; i < 2; i++, now += MS) { /* the second reply replaces the first one after a part */
        hello();
        deliver_command(1);
        for (uint32_t before = fake.datagram_count; fake.datagram_count == before;)
            control_poll(now);
    }
    pass(100);
    reply_text(7, 1);
}

/* Adds lines of 78 bytes to a first one that is longer each time: one time they fill the text to the last byte. */
TEST(statistics_beyond_the_text_are_left_out_by_lines)
{
    static struct counter rows[430];
    static uint64_t values[430];
    char words[79] = { 0 };
    size_t most = 0;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++, values[i - 1] = UINT64_MAX)
        rows[i].name = "a23456789b123456789c123456789d123456789e123456789f1234";
    while (strlen(words) < 78) {
        words[strlen(words)] = 'a';
        start();
        stats_add_fact("fact", words);
        stats_add_counters(&(struct counter_group){ "p.", "x", rows, values, ARRAY_COUNT(rows), NULL, 0 });
        hello();
        deliver_command(1);
        pass(200);
        const char *text = reply_text(1, 1);
        assert_in_range(reply_bytes, STATS_TEXT_BYTES_MAX - 77, STATS_TEXT_BYTES_MAX);
        assert_int_equal(text[reply_bytes - 1], '\n');
        most = max_size(most, reply_bytes);
    }
    assert_int_equal(most, STATS_TEXT_BYTES_MAX);
}

/* Checks MTUs below 1316 too, where parts are smaller. */
TEST(parts_fit_the_mtu)
{
    static const uint16_t mtus[] = { 1500, 1316, 1315, 1280, 577, 576 };
    for (size_t k = 0; k < sizeof mtus / sizeof mtus[0]; k++) {
        char words[81] = { 0 }, expected[STATS_TEXT_BYTES_MAX];
        start();
        fake.network.mtu_bytes = mtus[k];
        memset(words, 'a', 80);
        for (int i = 0; i < 30; i++)
            stats_add_fact("fact", words);
        hello();
        deliver_command(1);
        pass(100);
        size_t room = mtus[k] < 1316 ? mtus[k] - 116u : 1200, bytes = stats_render(expected, sizeof expected);
        assert_int_equal(strlen(reply_text(1, 1)), bytes);
        assert_int_equal(fake.datagram_count, 1 + (bytes + room - 1) / room);
        assert_int_equal(load_be16(fake.datagrams[1].data + 54), room);
    }
}

static char set_word[200];
static int set_count;
static const char *set_answer;

static const char *take_set(struct bytes word)
{
    memcpy(set_word, word.data, word.count);
    set_word[word.count] = '\0';
    set_count++;
    return set_answer;
}

/* Makes a SET that answers the newest challenge; returns its length. */
static size_t make_set(uint8_t out[96 + 200], const char *word, const char *with_key)
{
    const struct fake_datagram *challenge = &fake.datagrams[fake.datagram_count - 1];
    size_t word_bytes = strlen(word);
    uint8_t message[64 + 200];
    struct hmac_key k;
    header(out, 3, (uint16_t)(96 + word_bytes));
    memcpy(out + 8, challenge->data + 8, 48);
    out[56] = 4;
    memcpy(message, out, 64);
    memcpy(message + 64, word, word_bytes);
    hmac_key_set(&k, with_key, strlen(with_key));
    hmac(&k, message, 64 + word_bytes, out + 64);
    memcpy(out + 96, word, word_bytes);
    return 96 + word_bytes;
}

static void start_set(const char *answer)
{
    start();
    control_on_set(take_set);
    set_count = 0;
    set_answer = answer;
    hello();
}

TEST(set_is_given_to_the_program_once)
{
    uint8_t command[96 + 200];
    start_set(NULL);
    size_t bytes = make_set(command, "m+=10007", key);
    deliver(command, bytes);
    assert_int_equal(set_count, 1);
    assert_string_equal(set_word, "m+=10007");
    pass(20);
    assert_non_null(strstr(reply_text(1, 4), "control.commands_set 1\n"));
    assert_int_equal(fake.datagrams[1].data[49], 0);
    deliver(command, bytes);
    assert_int_equal(set_count, 1);
    assert_int_equal(control_counters.drop_replayed, 1);
}

TEST(set_is_refused_with_the_programs_reason)
{
    uint8_t command[96 + 200];
    start_set("no such setting");
    deliver(command, make_set(command, "x=1", key));
    pass(20);
    assert_string_equal(reply_text(1, 4), "no such setting");
    assert_int_equal(fake.datagrams[1].data[49], 2);
    static char reason[1202];
    memset(reason, 'a', 1201); /* one byte more than fits a part */
    start_set(reason);
    deliver(command, make_set(command, "x=1", key));
    pass(20);
    assert_int_equal(strlen(reply_text(1, 4)), 1200);
    assert_int_equal(load_be16(fake.datagrams[1].data + 52), 1);
    start();
    hello();
    deliver(command, make_set(command, "x=1", key));
    pass(20);
    assert_non_null(strstr(reply_text(1, 4), "this program has no setting"));
}

TEST(set_under_a_wrong_key_or_with_another_word_is_dropped)
{
    uint8_t command[96 + 200];
    start_set(NULL);
    deliver(command, make_set(command, "m+=10007", "wrong horse.."));
    size_t bytes = make_set(command, "m+=10007", key);
    for (size_t at = 96; at < bytes; at++) {
        command[at] ^= 1;
        deliver(command, bytes);
        command[at] ^= 1;
    }
    store_be16(command + 6, (uint16_t)(bytes - 1));
    deliver(command, bytes - 1);
    assert_int_equal(control_counters.drop_mac, 1 + 8 + 1);
    assert_int_equal(set_count, 0);
    assert_int_equal(fake.datagram_count, 1);
}

TEST(set_has_a_word_of_1_to_192_bytes)
{
    uint8_t command[96 + 200];
    char word[194];
    memset(word, '1', sizeof word);
    word[193] = '\0';
    start_set(NULL);
    deliver(command, make_set(command, word, key));
    assert_int_equal(control_counters.drop_length, 1);
    word[192] = '\0';
    deliver(command, make_set(command, word, key));
    assert_int_equal(set_count, 1);
    hello();
    deliver(command, make_set(command, "", key));
    assert_int_equal(control_counters.drop_length, 2);
    assert_int_equal(set_count, 1);
    /* Another command has no word. */
    hello();
    size_t bytes = make_set(command, "m+=10007", key);
    command[56] = 1;
    deliver(command, bytes);
    assert_int_equal(control_counters.drop_length, 3);
    assert_int_equal(control_counters.commands_status, 0);
}

static void send_gg(void)
{
    start();
    hello();
    deliver_command(2);
}

TEST(gg_is_answered_three_times_and_then_obeyed)
{
    send_gg();
    pass(20);
    assert_false(control_gg_done());
    assert_non_null(strstr(reply_text(1, 2), "control.commands_gg 1\n"));
    uint32_t parts = load_be16(fake.datagrams[1].data + 52);
    const uint64_t next = control_next_deadline_ns(now);
    assert_in_range(next - now, 10 * MS, 30 * MS);
    for (; !control_gg_done(); pass(1))
        assert_int_equal(fake.datagram_count > 1 + parts, now >= next);
    assert_in_range(now, next + 60 * MS, next + 65 * MS); /* a pause after each of the repeats */
    assert_int_equal(fake.datagram_count, 1 + 3 * parts);
    assert_int_equal(control_counters.sent, 1 + 3 * parts);
    reply_text(1 + 2 * parts, 2);
    hello();
    deliver_command(1); /* nobody is obeyed any more */
    assert_int_equal(control_counters.drop_busy, 1);
}

TEST(gg_is_obeyed_even_if_its_answer_cannot_be_sent)
{
    uint8_t command[96];
    start_with_command(command, 2, key);
    fake.refuse_udp = true;
    hello();
    assert_int_equal(control_counters.send_failed, 1);
    deliver(command, 96);
    assert_int_equal(control_next_deadline_ns(now), now);
    pass(999);
    assert_in_range(control_next_deadline_ns(now) - now, 0, MS - 1); /* the reply is tried each millisecond */
    assert_in_range(control_counters.send_failed, 990, 1001);
    assert_false(control_gg_done());
    pass(2);
    assert_true(control_gg_done());
    assert_int_equal(fake.datagram_count, 1);
}

TEST(gg_is_answered_by_a_machine_that_stalled_meanwhile)
{
    send_gg();
    now += 5000 * MS;
    for (int turns = 0; !control_gg_done() && turns < 1000; turns++) {
        now += MS / 4;
        control_poll(now);
    }
    assert_true(control_gg_done());
    assert_non_null(strstr(reply_text(1, 2), "control.commands_gg 1\n"));
    assert_int_equal(fake.datagram_count, 1 + 3 * load_be16(fake.datagrams[1].data + 52));
}

TEST(a_wrong_key_is_counted_and_not_answered)
{
    uint8_t command[96];
    start_with_command(command, 2, "wrong horse..");
    deliver(command, 96);
    pass(2000);
    assert_int_equal(control_counters.drop_mac, 1);
    assert_int_equal(fake.datagram_count, 1);
    assert_false(control_gg_done());
    /* The wrong command does not consume the challenge: its owner may still answer it. */
    deliver_command(1);
    assert_int_equal(control_counters.commands_status, 1);
}

TEST(a_replay_is_counted_and_not_answered)
{
    uint8_t command[96];
    start_with_command(command, 1, key);
    deliver(command, 96);
    pass(50);
    uint32_t sent = fake.datagram_count;
    for (int i = 0; i < 100; i++) {
        deliver(command, 96);
        pass(99);
    }
    assert_int_equal(fake.datagram_count, sent);
    assert_int_equal(control_counters.drop_replayed + control_counters.drop_stale, 100);
    assert_true(control_counters.drop_replayed > 95);
    assert_int_equal(control_counters.commands_status, 1);
}

TEST(a_challenge_is_good_for_ten_seconds)
{
    uint8_t command[96];
    start_with_command(command, 1, key);
    now += 10001 * MS;
    deliver(command, 96);
    assert_int_equal(control_counters.drop_stale, 1);
    now -= MS;
    for (int i = 0; i < 2; i++) /* for one command, to the last millisecond */
        deliver(command, 96);
    assert_int_equal(control_counters.commands_status, 1);
    now -= 10001 * MS; /* a time before the challenge was made */
    deliver(command, 96);
    assert_int_equal(control_counters.drop_stale, 2);
}

TEST(a_challenge_is_good_for_one_peer)
{
    uint8_t command[96];
    start_with_command(command, 2, key);
    deliver_from(PEER + 1, PEER_PORT, command, 96);
    deliver_from(PEER, PEER_PORT + 1, command, 96);
    assert_int_equal(control_counters.drop_challenge, 2);
    assert_int_equal(control_counters.commands_gg, 0);
}

TEST(a_challenge_of_another_run_is_worthless)
{
    static const uint8_t other[32] = { 1 };
    uint8_t command[96];
    start_with_command(command, 2, key);
    assert_true(control_init((const uint8_t *)key, strlen(key), PORT, other));
    deliver(command, 96);
    assert_int_equal(control_counters.drop_challenge, 1);
}

TEST(no_flood_of_hellos_keeps_an_honest_client_out)
{
    uint8_t command[96], out[64];
    start_with_command(command, 1, key);
    for (uint32_t i = 0; i < 20000; i++) {
        header(out, 1, 64);
        store_be32(out + 8, i);
        deliver_from(i * 2654435761u, (uint16_t)i, out, 64);
    }
    deliver(command, 96);
    assert_int_equal(control_counters.commands_status, 1);
}

/* Sends 4,000 HELLOs a second under the client's own address for 20 s, from ports at random. Each HELLO of the client
 * is answered, and its command is obeyed. */
TEST(a_flood_under_the_clients_address_does_not_lock_the_client_out)
{
    uint8_t out[64];
    start();
    for (uint32_t i = 0; i < 80000; i++) {
        header(out, 1, 64);
        store_be32(out + 8, i);
        deliver_from(PEER, (uint16_t)(i * 40503u >> 3), out, 64);
        now += MS / 4;
        if (i % 4000 != 3999)
            continue;
        fake.datagram_count = 0;
        hello();
        assert_int_equal(fake.datagram_count, 1);
        deliver_command(1);
        assert_int_equal(control_counters.commands_status, i / 4000 + 1);
    }
}

/* Fills all buckets of strangers from addresses and ports at random, again and again. A HELLO with the key's tag is
 * answered each time, one without it is not. */
TEST(a_flood_from_everywhere_does_not_keep_the_owner_of_the_key_out)
{
    uint8_t out[64], keyed[64], digest[32];
    struct hmac_key k;
    start();
    hmac_key_set(&k, key, strlen(key));
    hmac(&k, "hello", 5, digest);
    header(keyed, 1, 64);
    memcpy(keyed + 8, nonce, 16);
    store_be64(keyed + 24, siphash(siphash_key_from(digest), nonce, 16));
    for (uint32_t second = 1; second <= 5; second++) {
        for (uint32_t i = 0; i < 60000; i++) {
            header(out, 1, 64);
            store_be32(out + 8, i);
            store_be64(out + 24, random_next());
            deliver_from((uint32_t)random_next(), (uint16_t)random_next(), out, 64);
        }
        fake.datagram_count = 0;
        hello();
        assert_int_equal(fake.datagram_count, 0);
        deliver(keyed, 64);
        assert_int_equal(fake.datagram_count, 1);
        deliver_command(1);
        assert_int_equal(control_counters.commands_status, second);
        now += 1000 * MS;
    }
    assert_int_equal(control_counters.drop_rate_keyed, 0);
    for (int i = 0; i <= CONTROL_RATE_BURST; i++) /* whoever repeats it has a bucket, too */
        deliver(keyed, 64);
    assert_int_equal(control_counters.drop_rate_keyed, 1);
}

TEST(a_flood_of_hellos_costs_a_bounded_number_of_answers)
{
    uint8_t out[64];
    start();
    assert_int_equal(control_last_refused_ns(), 0);
    header(out, 1, 64);
    for (int i = 0; i < 1000; i++)
        deliver(out, 64);
    assert_int_equal(control_counters.hellos, CONTROL_RATE_BURST);
    assert_int_equal(control_counters.drop_rate, 1000 - CONTROL_RATE_BURST);
    assert_int_equal(control_last_refused_ns(), now);
    now += 5 * CONTROL_RATE_PERIOD_MS * MS;
    for (int i = 0; i < 1000; i++)
        deliver(out, 64);
    assert_int_equal(control_counters.hellos, CONTROL_RATE_BURST + 5);
    uint64_t before = control_counters.hellos; /* hardly any of 64 other addresses, or ports, shares the bucket */
    for (uint32_t i = 1; i <= 64; i++)
        deliver_from(PEER + i, PEER_PORT, out, 64);
    assert_true(control_counters.hellos - before >= 60);
    before = control_counters.hellos;
    for (uint16_t i = 1; i <= 64; i++)
        deliver_from(PEER, PEER_PORT + i, out, 64);
    assert_true(control_counters.hellos - before >= 60);
}

/* Plays forgers who saw no challenge. They fill no bucket. */
TEST(forged_challenges_do_not_keep_a_client_out)
{
    uint8_t forged[96], command[96];
    start_with_command(command, 1, key);
    memcpy(forged, command, 96);
    for (uint32_t i = 0; i < 10000; i++) {
        store_be32(forged + 32, i);
        deliver(forged, 96);
    }
    assert_int_equal(control_counters.drop_challenge, 10000);
    deliver(command, 96);
    assert_int_equal(control_counters.commands_status, 1);
}

/* Plays a peer that has proved its address and has another key. */
TEST(a_flood_of_wrong_keys_costs_a_bounded_number_of_hashes)
{
    uint8_t forged[96], command[96];
    start_with_command(forged, 2, "another key");
    make_command(command, 1, key);
    for (int i = 0; i < 1000; i++)
        deliver(forged, 96);
    assert_int_equal(control_counters.drop_mac, CONTROL_RATE_BURST);
    assert_int_equal(control_counters.drop_rate, 1000 - CONTROL_RATE_BURST);
    assert_int_equal(control_last_refused_ns(), 0); /* no HELLO was dropped */
    deliver(command, 96);                           /* from the same address and port: it has to wait a little */
    assert_int_equal(control_counters.commands_status, 0);
    now += CONTROL_RATE_PERIOD_MS * MS;
    deliver(command, 96);
    assert_int_equal(control_counters.commands_status, 1);
    assert_int_equal(control_counters.commands_gg, 0);
}

TEST(commands_are_bounded_in_number_and_room_comes_back)
{
    start();
    for (uint32_t i = 0; i < CONTROL_USED_COUNT_MAX + 5; i++) {
        fake.datagram_count = 0;
        store_be32(nonce, i);
        hello();
        deliver_command(1);
        now += 10 * MS;
    }
    assert_int_equal(control_counters.commands_status, CONTROL_USED_COUNT_MAX);
    assert_int_equal(control_counters.drop_busy, 5);
    now += 10000 * MS;
    fake.datagram_count = 0;
    hello();
    deliver_command(1);
    assert_int_equal(control_counters.commands_status, CONTROL_USED_COUNT_MAX + 1);
}

TEST(an_unknown_command_is_refused_by_name)
{
    start();
    memcpy(nonce, "0123456789abcdef", 16);
    hello();
    deliver_command(77);
    pass(20);
    assert_string_equal(reply_text(1, 77), "");
    assert_int_equal(fake.datagrams[1].data[49], 1);
    assert_int_equal(control_counters.commands_unknown, 1);
}

TEST(every_single_byte_of_a_command_counts)
{
    uint8_t command[96];
    start_with_command(command, 2, key);
    for (size_t i = 0; i < 96; i++) {
        for (int bit = 0; bit < 8; bit++) {
            command[i] ^= (uint8_t)(1 << bit);
            deliver(command, 96);
            command[i] ^= (uint8_t)(1 << bit);
            now += 12 * MS; /* slow enough that the rate limit drops none */
        }
    }
    assert_int_equal(
        control_counters.commands_gg + control_counters.commands_status + control_counters.commands_unknown, 0);
    assert_int_equal(control_counters.drop_rate, 0);
    for (size_t bytes = 0; bytes < 96; bytes++)
        deliver(command, bytes);
    uint8_t longer[1400] = { 0 };
    memcpy(longer, command, 96);
    deliver(longer, 97);
    deliver(longer, 1400);
    assert_int_equal(control_counters.commands_gg, 0);
    assert_int_equal(fake.datagram_count, 1);
    deliver(command, 96);
    assert_int_equal(control_counters.commands_gg, 1);
}

TEST(each_flaw_of_a_header_has_its_counter)
{
    static const struct {
        size_t bytes;
        uint32_t at;
        uint8_t value;
        uint64_t *counter;
    } rows[] = {
        { 7, 0, 'P', &control_counters.drop_length }, { 63, 0, 'P', &control_counters.drop_length },
        { 64, 0, 'Q', &control_counters.drop_magic }, { 64, 3, 'n', &control_counters.drop_magic },
        { 64, 4, 2, &control_counters.drop_version }, { 64, 5, 0, &control_counters.drop_type },
        { 64, 5, 2, &control_counters.drop_type },    { 64, 5, 4, &control_counters.drop_type },
        { 64, 7, 63, &control_counters.drop_length },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t out[64];
        start();
        header(out, 1, 64);
        store_be16(out + 6, (uint16_t)rows[i].bytes);
        out[rows[i].at] = rows[i].value;
        deliver(out, rows[i].bytes);
        assert_int_equal(*rows[i].counter, 1);
        assert_int_equal(fake.datagram_count, 0);
    }
}

TEST(no_reply_is_longer_than_its_datagram)
{
    random_seed(20220217);
    start();
    for (int i = 0; i < 100000; i++) {
        uint8_t out[200];
        size_t bytes = (size_t)(random_below(3) ? 64 + 32 * random_below(2) : random_below(200));
        for (size_t k = 0; k < bytes; k++)
            out[k] = (uint8_t)random_next();
        if (random_below(4) && bytes >= 8) {
            memcpy(out, "PGRN\1", 5);
            out[5] = (uint8_t)random_below(6);
            store_be16(out + 6, (uint16_t)bytes);
        }
        fake.datagram_count = 0;
        now += CONTROL_RATE_PERIOD_MS * MS;
        deliver(out, bytes);
        control_poll(now);
        assert_true(fake.datagram_count == 0 || (fake.datagram_count == 1 && fake.datagrams[0].bytes <= bytes));
    }
    assert_true(control_counters.hellos > 1000 && control_counters.drop_stale > 100
                && control_counters.drop_magic > 1000);
}

TEST(without_a_key_nothing_is_bound_and_nothing_answers)
{
    start();
    fake.refuse_udp_bind = true;
    assert_true(control_init(NULL, 0, PORT, secret));
    hello();
    assert_int_equal(fake.datagram_count, 0);
    assert_int_equal(control_counters.drop_unbound, 1);
    assert_false(control_init((const uint8_t *)key, strlen(key), PORT, secret));
}
