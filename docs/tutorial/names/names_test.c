/* docs/tutorial/names/program.c over a transport that the test plays. */
#include "app/program.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "base/time.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { PORT = 5353, PEER = 0x0a000202 };
static uint64_t now_ns;

BEFORE_EACH()
{
    static const char words[] = "port=5353 ttl=7 name=www.Example.test:10.0.0.1 name=a.test:10.0.0.2";
    static struct settings settings;
    const struct program_machine machine = { .tsc_khz = 1000000 };
    service_settings_begin(&settings, program.name, program.settings, NULL);
    settings_add(&settings, "test", words, sizeof words - 1);
    assert_true(settings_finish(&settings));
    fake_reset();
    stats_clear();
    now_ns = NS_PER_S;
    assert_null(service_init(machine.secret, false, now_ns));
    assert_null(program.init(&machine, now_ns));
}

static uint64_t counter_value(const char *name)
{
    const uint64_t *value = stats_find(NULL, name);
    assert_non_null(value);
    return *value;
}

/* Sends a query; `name` has its last 0. Returns the reply; NULL: none. */
static const struct fake_datagram *ask(uint16_t flags, const char *name, size_t name_bytes, uint16_t type,
                                       uint16_t class)
{
    uint8_t query[512] = { 0xab, 0xcd, 0, 0, 0, 1, [11] = 1 }; /* EDNS announces something additional */
    store_be16(query + 2, flags);
    memcpy(query + 12, name, name_bytes);
    store_be16(query + 12 + name_bytes, type);
    store_be16(query + 14 + name_bytes, class);
    fake.datagram_count = 0;
    fake_datagram(PEER, 40000, PORT, query, 16 + name_bytes);
    program.turn(now_ns);
    const struct fake_datagram *reply = fake.datagram_count ? &fake.datagrams[0] : NULL;
    assert_true(!reply
                || (reply->to_port == 40000 && load_be16(reply->data) == 0xabcd && load_be32(reply->data + 8) == 0));
    assert_true(!reply || reply->bytes <= 16 + name_bytes + 16);
    return reply;
}

TEST(each_question_has_its_reply)
{
    enum { A = 1, AAAA = 28, ANY = 255, IN = 1, CHAOS = 3 };
#define NAME(text) text, sizeof text /* the literal's NUL is the root's label */
    static const struct {
        const char *name;
        size_t bytes;
        uint16_t flags, type, class, reply_flags;
        uint32_t address;
    } cases[] = {
        { NAME("\3www\7example\4test"), 0x0100, A, IN, 0x8500, 0x0a000001 },
        { NAME("\3wWw\7exAmple\4teST"), 0, A, IN, 0x8400, 0x0a000001 },
        { NAME("\1a\4test"), 0, ANY, IN, 0x8400, 0x0a000002 },
        { NAME("\1a\4test"), 0, AAAA, IN, 0x8400, 0 },    /* the name exists */
        { NAME("\7example\4test"), 0, A, IN, 0x8400, 0 }, /* the name above it does, too */
        { NAME(""), 0, A, IN, 0x8400, 0 },                /* the root exists, too */
        { NAME("\7xxample\4test"), 0, A, IN, 0x8403, 0 }, /* NXDOMAIN */
        { NAME("\1b\1a\4test"), 0, A, IN, 0x8403, 0 },    /* nothing below a row */
        { NAME("\1a\4test"), 0, A, CHAOS, 0x8005, 0 },    /* REFUSED */
        { NAME("\1a\4test"), 0x2800, A, IN, 0xa804, 0 },  /* UPDATE: NOTIMP */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct fake_datagram *r = ask(cases[i].flags, cases[i].name, cases[i].bytes, cases[i].type,
                                            cases[i].class);
        assert_non_null(r);
        assert_int_equal(load_be16(r->data + 2), cases[i].reply_flags);
        assert_int_equal(load_be16(r->data + 6), cases[i].address != 0);
        assert_memory_equal(r->data + 12, cases[i].name, cases[i].bytes);
        if (cases[i].address == 0)
            continue;
        static const uint8_t answer[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 7, 0, 4 };
        assert_memory_equal(r->data + 16 + cases[i].bytes, answer, sizeof answer);
        assert_int_equal(load_be32(r->data + r->bytes - 4), cases[i].address);
    }
    assert_int_equal(counter_value("names.answered"), 3);
    assert_int_equal(counter_value("names.empty"), 3);
    assert_int_equal(counter_value("names.unknown"), 2);
    assert_int_equal(counter_value("names.refused"), 2);
}

TEST(malformed_queries_are_counted_and_dropped)
{
    static const uint8_t whole[] = "\xab\xcd\0\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0";
    uint8_t long_name[260] = { 0 };
    for (size_t i = 0; i < 256; i += 64)
        long_name[i] = 63;
    for (size_t bytes = 0; bytes < sizeof whole; bytes++)
        fake_datagram(PEER, 40000, PORT, whole, bytes), program.turn(now_ns);
    assert_null(ask(0, "\xc0\x0c", 2, 1, 1));                                 /* compressed, in a circle */
    assert_null(ask(0, (const char *)long_name, sizeof long_name - 3, 1, 1)); /* 257 bytes */
    long_name[0] = 64;
    assert_null(ask(0, (const char *)long_name, 66, 1, 1));
    assert_null(ask(0x8000, "\1a\4test", 8, 1, 1));
    assert_int_equal(fake.datagram_count, 0);
    assert_int_equal(counter_value("names.drop_malformed"), sizeof whole + 3);
    assert_int_equal(counter_value("names.drop_response"), 1);
}

TEST(a_wrong_row_is_refused)
{
    static const char *const words[] = { "name=a..b:1.2.3.4", "name=a", "name=a:b", "name=:1.2.3.4", "" };
    static struct settings settings;
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        service_settings_begin(&settings, program.name, program.settings, NULL);
        settings_add(&settings, "test", words[i], strlen(words[i]));
        assert_false(settings_finish(&settings));
    }
}

TEST(rehearsals_answer_and_count_nothing)
{
    fake.rehearses = true;
    for (int i = 0; i < 100; i++, now_ns += REHEARSAL_SLICE_NS)
        program.turn(now_ns);
    assert_true(fake.rehearsed_bytes > 100);
    assert_int_equal(counter_value("rehearsal.refused_program"), 0);
    assert_int_equal(counter_value("names.queries"), 0);
    assert_int_equal(fake.datagram_count, 0);
}
