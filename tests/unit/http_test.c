/* net/http/response.c. Every example is read whole, split at every byte, byte by byte, and cut short at every byte. */
#include "base/text.h"
#include "net/http/request.h"
#include "net/http/response.h"
#include "tests/lib/test.h"

/* The parser's results for a connection's bytes, with a space between: "200+ [body]" a response on a connection to
 * keep, "200- [body]" on a connection to close, "bad: reason", and "..." an incomplete response. */
struct transcript {
    char text[4096];
    struct http_response response;
    bool in_response, over;
};

static void say(struct transcript *t, const char *text, size_t bytes)
{
    size_t used = strlen(t->text);
    assert_true(used + bytes < sizeof t->text);
    memcpy(t->text + used, text, bytes);
    t->text[used + bytes] = '\0';
}

static void say_head(struct transcript *t)
{
    char head[32];
    int bytes = snprintf(head, sizeof head, "%s%03u%c[", t->text[0] ? " " : "", t->response.status,
                         t->response.keep_alive ? '+' : '-');
    say(t, head, (size_t)bytes);
    t->in_response = true;
}

static void say_bad(struct transcript *t)
{
    if (t->in_response)
        say(t, "...", 3);
    else if (t->text[0])
        say(t, " ", 1);
    say(t, "bad: ", 5);
    say(t, t->response.bad, strlen(t->response.bad));
    t->over = true;
}

static void say_done(struct transcript *t)
{
    say(t, "]", 1);
    t->in_response = false;
    t->over = !t->response.keep_alive;
    http_response_begin(&t->response);
}

/* Feeds bytes from a buffer of exactly their size, so that ASan sees a read outside. */
static void feed(struct transcript *t, const char *text, size_t bytes)
{
    uint8_t *exact = malloc(bytes ? bytes : 1);
    memcpy(exact, text, bytes);
    const uint8_t *at = exact, *end = exact + bytes;
    struct bytes body;
    while (!t->over) {
        enum http_step step = http_response_step(&t->response, &at, end, &body);
        http_response_check(&t->response);
        if (step == HTTP_MORE)
            break;
        if (step == HTTP_HEAD)
            say_head(t);
        if (step == HTTP_BODY) {
            assert_true(body.count > 0 && body.data >= exact && body.data + body.count <= end);
            say(t, (const char *)body.data, body.count);
        }
        if (step == HTTP_DONE)
            say_done(t);
        if (step == HTTP_BAD)
            say_bad(t);
    }
    free(exact);
}

static void finish(struct transcript *t)
{
    if (t->over)
        return;
    switch (http_response_finish(&t->response)) {
    case HTTP_DONE:
        say_done(t);
        break;
    case HTTP_BAD:
        say_bad(t);
        break;
    default:
        break;
    }
}

static struct transcript *begin(void)
{
    static struct transcript t;
    t.text[0] = '\0';
    t.in_response = t.over = false;
    http_response_begin(&t.response);
    return &t;
}

#define OK       "HTTP/1.1 200 OK\r\n"
#define LENGTH_5 "Content-Length: 5\r\n"
#define CHUNKED  "Transfer-Encoding: chunked\r\n"

static const struct {
    const char *input, *expected;
} examples[] = {
    /* Framing, RFC 9112 §6.3. */
    { OK "Server: Most\r\nContent-type: text/plain\r\n\r\n31415926", "200-[31415926]" },
    { OK "\r\n", "200-[]" },
    { OK LENGTH_5 "\r\n12345", "200+[12345]" },
    { OK "Content-Length: 0\r\n\r\n", "200+[]" },
    { OK "Content-Length:5\r\n\r\n12345" OK "content-LENGTH:\t 2 \t\r\n\r\n67", "200+[12345] 200+[67]" },
    { OK LENGTH_5 "\r\n1234", "200+[1234...bad: cut short" },
    { OK CHUNKED "\r\n5\r\n12345\r\n0\r\n\r\n", "200+[12345]" },
    { OK CHUNKED "\r\n1\r\n1\r\n00a\r\n2345678901\r\n0A\r\n2345678901\r\n0\r\n\r\n", "200+[123456789012345678901]" },
    { OK CHUNKED "\r\n5;name=value\r\n12345\r\n5 ; q=\"a;b\"\r\n67890\r\n3  \r\nabc\r\n000;x\r\n\r\n",
      "200+[1234567890abc]" },
    { OK CHUNKED "\r\n5\r\n12345\r\n0\r\nTrailer: a\r\nContent-Length: 99\r\n folded\r\n\r\n" OK LENGTH_5 "\r\nabcde",
      "200+[12345] 200+[abcde]" },
    { OK "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "200+[]" },
    { OK "Transfer-Encoding: , chunked ,\r\n\r\n0\r\n\r\n", "200+[]" },
    { OK "Transfer-Encoding:\r\n chunked\r\n\r\n1\r\n7\r\n0\r\n\r\n", "200+[7]" },
    { OK "Transfer-Encoding: identity\r\n\r\n777", "200-[777]" },
    { OK CHUNKED LENGTH_5 "\r\n1\r\n7\r\n0\r\n\r\n", "200-[7]" },
    { OK "Content-Length: banana\r\n" CHUNKED "\r\n1\r\n7\r\n0\r\n\r\n", "200-[7]" },
    { OK CHUNKED "\r\n5\r\n12345\r\n", "200+[12345...bad: cut short" },
    { "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n" OK LENGTH_5 "\r\n12345", "204+[] 200+[12345]" },
    { "HTTP/1.1 304 Not Modified\r\n" CHUNKED "\r\n" OK LENGTH_5 "\r\n12345", "304+[] 200+[12345]" },
    { "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy", "503-[busy]" },
    { "HTTP/1.1 999 Odd\r\nContent-Length: 1\r\n\r\nx", "999+[x]" },
    { "HTTP/1.1 099 Odd\r\nContent-Length: 1\r\n\r\nx", "099+[x]" },

    /* Interim responses, RFC 9110 §15.2. */
    { "HTTP/1.1 100 Continue\r\n\r\n" OK LENGTH_5 "\r\n12345", "200+[12345]" },
    { "HTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 9\r\n\r\nHTTP/1.1 102 P\r\n\r\n" OK LENGTH_5 "\r\n12345",
      "200+[12345]" },
    { "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "bad: switched protocols unasked" },
    { "HTTP/1.1 100 Continue\r\n\r\n", "bad: cut short" },

    /* Persistence, RFC 9112 §9.3. */
    { OK LENGTH_5 "Connection: foo, Close\r\n\r\n12345", "200-[12345]" },
    { "HTTP/1.0 200 OK\r\n" LENGTH_5 "\r\n12345", "200-[12345]" },
    { "HTTP/1.0 200 OK\r\n" LENGTH_5 "Connection: Keep-Alive\r\n\r\n12345", "200+[12345]" },
    { "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n12345", "200-[12345]" },
    { "HTTP/1.0 200 OK\r\n" CHUNKED "Connection: keep-alive\r\n\r\n1\r\n7\r\n0\r\n\r\n", "200-[7]" },
    { "HTTP/1.1 200 OK\r\n" LENGTH_5 "Connection: keep-alive\r\nConnection: close\r\n\r\n12345", "200-[12345]" },
    { "HTTP/1.9 200 OK\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },

    /* Lines, RFC 9112 §2.2, §4, §5. */
    { "HTTP/1.1 200 OK\nContent-Length: 5\n\n12345", "200+[12345]" },
    { "HTTP/1.1 200\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { "HTTP/1.1 200 \r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { "HTTP/1.1 200 All is \x80\xff well\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { "\r\nHTTP/1.1 200 OK\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { "\nHTTP/1.1 200 OK\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "bad: not a status line" },
    { OK "X: a\r\n b\r\n\tc\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { OK "Content-Length: \r\n 5\r\n\r\n12345", "200+[12345]" },
    { OK " X: a\r\n\r\n", "bad: white space before the first field" },
    { OK "X: a\rb\r\n\r\n", "bad: a lone CR" },
    { OK "X: a\r\r\n\r\n", "bad: a lone CR" },
    { OK "X: a\r\n\rX: b\r\n\r\n", "bad: a lone CR" },
    { "\rHTTP/1.1 200 OK\r\n\r\n", "bad: a lone CR" },
    { OK "X : a\r\n\r\n", "bad: not a field line" },
    { OK "X\r\n\r\n", "bad: not a field line" },
    { OK ": x\r\n\r\n", "bad: not a field line" },
    { OK "X(y): a\r\n\r\n", "bad: not a field line" },
    { OK "X\x80: a\r\n\r\n", "bad: not a field line" },
    { OK "!#$%&'*+-.^_`|~09azAZ:\r\n" LENGTH_5 "\r\n12345", "200+[12345]" },
    { "http/1.1 200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/2.0 200 OK\r\n\r\n", "bad: not HTTP/1.x" },
    { "HTTP/2 200\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1  200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1 20 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1 2000 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1 +20 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/11.1 200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/x.1 200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.x 200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1-1 200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1-200 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1 2x0 OK\r\n\r\n", "bad: not a status line" },
    { "HTTP/1.1 20x OK\r\n\r\n", "bad: not a status line" },
    { "12345678901234567890\r\n\r\n", "bad: not a status line" },
    { "\x16\x03\x01\r\n", "" },

    /* Malformed lengths, RFC 9110 §8.6. */
    { OK "Content-Length: -1\r\n\r\n", "bad: a faulty Content-Length" },
    { OK "Content-Length: +5\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: \r\n\r\n", "bad: a faulty Content-Length" },
    { OK "Content-Length: 5 5\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: 0x5\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: 5.0\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: 5,\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: 5, 6\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK LENGTH_5 "Content-Length: 6\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK LENGTH_5 "Content-Length: x\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK LENGTH_5 LENGTH_5 "\r\n12345", "200+[12345]" },
    { OK "Content-Length: 5, 05\r\n\r\n12345", "200+[12345]" },
    { OK "Content-Length: 4294967296\r\n\r\n12345", "200+[12345...bad: cut short" },
    { OK "Content-Length: 9223372036854775807\r\n\r\n12345", "200+[12345...bad: cut short" },
    { OK "Content-Length: 9223372036854775808\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: 18446744073709551616\r\n\r\n12345", "bad: a faulty Content-Length" },
    { OK "Content-Length: 18446744073709551621\r\n\r\n12345", "bad: a faulty Content-Length" },

    /* Malformed codings and chunks. */
    { OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "bad: a transfer coding other than chunked" },
    { OK "Transfer-Encoding: chunked, gzip\r\n\r\n", "bad: a transfer coding other than chunked" },
    { OK "Transfer-Encoding: chunked;q=1\r\n\r\n", "bad: a transfer coding other than chunked" },
    { OK "Transfer-Encoding: xchunked\r\n\r\n", "bad: a transfer coding other than chunked" },
    { OK CHUNKED CHUNKED "\r\n0\r\n\r\n", "bad: chunked twice" },
    { OK CHUNKED "\r\nffffffffffffffff\r\n12345", "200+[...bad: a chunk size past 2^63" },
    { OK CHUNKED "\r\n7fffffffffffffff\r\n12345", "200+[12345...bad: cut short" },
    { OK CHUNKED "\r\n8000000000000000\r\n12345", "200+[...bad: a chunk size past 2^63" },
    { OK CHUNKED "\r\n\r\n", "200+[...bad: no chunk size" },
    { OK CHUNKED "\r\n-1\r\n", "200+[...bad: no chunk size" },
    { OK CHUNKED "\r\n 5\r\n12345", "200+[...bad: no chunk size" },
    { OK CHUNKED "\r\n0x5\r\n12345", "200+[...bad: not a chunk size" },
    { OK CHUNKED "\r\n5\n12345\r\n0\r\n\r\n", "200+[...bad: not a chunk size" },
    { OK CHUNKED "\r\n5\r12345", "200+[...bad: a lone CR" },
    { OK CHUNKED "\r\n5;a\n12345", "200+[...bad: a faulty chunk extension" },
    { OK CHUNKED "\r\n5\r\n123456\r\n", "200+[12345...bad: a chunk longer than its size" },
    { OK CHUNKED "\r\n5\r\n12345\n0\r\n\r\n", "200+[12345...bad: a chunk longer than its size" },
    { OK CHUNKED "\r\n5\r\n12345\r0\r\n\r\n", "200+[12345...bad: a chunk longer than its size" },
    { OK CHUNKED "\r\n0\r\n folded\r\n\r\n", "200+[...bad: white space before the first field" },
    { OK CHUNKED "\r\n3 5\r\n123", "200+[...bad: not a chunk size" },
    { OK CHUNKED "\r\n0\r\nX[y]: z\r\n\r\n", "200+[...bad: not a field line" },
    { OK CHUNKED "\r\n0\r\nX : z\r\n\r\n", "200+[...bad: not a field line" },
    { OK CHUNKED "\r\n0\r\nX: z\n\r\n", "200+[...bad: a lone LF or a control character in a trailer" },
    { OK CHUNKED "\r\n0\r\nnonsense\r\n\r\n", "200+[...bad: not a field line" },
};

TEST(every_example_reads_the_same_in_any_pieces)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const char *input = examples[i].input;
        size_t bytes = strlen(input);
        for (size_t split = 0; split <= bytes; split++) {
            struct transcript *t = begin();
            feed(t, input, split);
            feed(t, input + split, bytes - split);
            if (strcmp(examples[i].expected, "") != 0)
                finish(t);
            if (strcmp(t->text, examples[i].expected))
                fail_msg("split at %zu: %s\nexpected: %s\nactual:   %s", split, input, examples[i].expected, t->text);
        }
        struct transcript *t = begin();
        for (size_t k = 0; k < bytes; k++) {
            feed(t, input + k, 1);
            feed(t, input + k, 0);
        }
        if (strcmp(examples[i].expected, "") != 0)
            finish(t);
        assert_string_equal(t->text, examples[i].expected);
    }
}

/* Cuts every example short. A body without a length is complete at any cut; any other cut is reported, or nothing
 * came. */
TEST(every_example_cut_short_is_reported)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (size_t cut = 0; cut < strlen(examples[i].input); cut++) {
            struct transcript *t = begin();
            feed(t, examples[i].input, cut);
            bool between = t->response.state == 0 && t->response.head_bytes == 0;
            bool until_close = t->in_response && t->response.until_close, was_over = t->over;
            finish(t);
            bool bad = strstr(t->text, "bad: ") != NULL;
            if (between || was_over)
                continue;
            if (until_close ? bad : !bad && t->in_response)
                fail_msg("cut at %zu: %s\nactual: %s", cut, examples[i].input, t->text);
        }
}

TEST(a_nul_in_the_head_is_refused)
{
    static const char input[] = OK "X: a\0b\r\n\r\n";
    struct transcript *t = begin();
    feed(t, input, sizeof input - 1);
    assert_string_equal(t->text, "bad: a NUL in the head");
}

/* Reads a head of `bytes` in all, made of one long field. */
static const char *read_head_of(size_t bytes, const char *field)
{
    static char input[HTTP_HEAD_BYTES_MAX + 64];
    size_t used = (size_t)snprintf(input, sizeof input, OK "%s", field);
    assert_true(bytes <= sizeof input && bytes >= used + 4);
    memset(input + used, ' ', bytes - used);
    memcpy(input + bytes - 4, "\r\n\r\n", 4);
    struct transcript *t = begin();
    feed(t, input, bytes);
    return t->text;
}

TEST(a_long_head_is_read_up_to_its_bound)
{
    assert_string_equal(read_head_of(HTTP_HEAD_BYTES_MAX, "X-Long: y"), "200-[");
    assert_string_equal(read_head_of(HTTP_HEAD_BYTES_MAX + 1, "X-Long: y"), "bad: a head of more than 64 KiB");
    assert_string_equal(read_head_of(HTTP_LINE_KEPT_BYTES + 17 + 4, "Content-Length: 5"), "200+[");
    assert_string_equal(read_head_of(HTTP_LINE_KEPT_BYTES + 18 + 4, "Content-Length: 5"),
                        "bad: a framing field of more than 256 bytes");
    assert_string_equal(read_head_of(2000, "Transfer-Encoding: chunked"),
                        "bad: a framing field of more than 256 bytes");
    assert_string_equal(read_head_of(2000, "Connection: close"), "200-[");
    char field[2 * HTTP_LINE_KEPT_BYTES]; /* a name longer than the kept bytes */
    snprintf(field, sizeof field, LENGTH_5 "%0*d:", HTTP_LINE_KEPT_BYTES, 0);
    assert_string_equal(read_head_of(2000, field), "200+[");
    snprintf(field, sizeof field, "%0*d(:", HTTP_LINE_KEPT_BYTES - 1, 0);
    assert_string_equal(read_head_of(2000, field), "bad: not a field line");
}

TEST(interim_responses_without_end_are_bounded)
{
    static const char interim[] = "HTTP/1.1 102 Processing\r\n\r\n";
    struct transcript *t = begin();
    for (size_t i = 0; i < HTTP_HEAD_BYTES_MAX / (sizeof interim - 1) + 1; i++)
        feed(t, interim, sizeof interim - 1);
    assert_string_equal(t->text, "bad: a head of more than 64 KiB");
}

TEST(a_trailer_and_a_chunk_line_are_bounded)
{
    struct transcript *t = begin();
    feed(t, OK CHUNKED "\r\n0\r\n", strlen(OK CHUNKED "\r\n0\r\n"));
    for (size_t i = 0; i < HTTP_CHUNK_LINE_BYTES_MAX / 6 + 1; i++)
        feed(t, "X: y\r\n", 6);
    assert_string_equal(t->text, "200+[...bad: trailers of more than 4096 bytes");

    t = begin();
    feed(t, OK CHUNKED "\r\n5;", strlen(OK CHUNKED "\r\n5;"));
    for (size_t i = 0; i < HTTP_CHUNK_LINE_BYTES_MAX; i++)
        feed(t, "x", 1);
    assert_string_equal(t->text, "200+[...bad: a chunk line of more than 4096 bytes");
}

TEST(chunks_without_end_are_read)
{
    struct http_response r;
    struct bytes body;
    http_response_begin(&r);
    static const char head[] = OK CHUNKED "\r\n";
    const uint8_t *at = (const uint8_t *)head;
    assert_int_equal(http_response_step(&r, &at, at + sizeof head - 1, &body), HTTP_HEAD);
    for (size_t i = 0; i < 100000; i++) {
        static const char chunk[] = "3;ext\r\n123\r\n";
        at = (const uint8_t *)chunk;
        const uint8_t *end = at + sizeof chunk - 1;
        assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_BODY);
        assert_int_equal(body.count, 3);
        assert_ptr_equal(body.data, chunk + 7);
        assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_MORE);
    }
}

TEST(a_hundred_pipelined_responses_are_separated)
{
    struct transcript *t = begin();
    for (int i = 0; i < 100; i++)
        feed(t, i % 2 ? OK LENGTH_5 "\r\n12345" : OK CHUNKED "\r\n5\r\n12345\r\n0\r\n\r\n",
             i % 2 ? strlen(OK LENGTH_5 "\r\n12345") : strlen(OK CHUNKED "\r\n5\r\n12345\r\n0\r\n\r\n"));
    assert_int_equal(strlen(t->text), 100 * strlen("200+[12345] ") - 1);
    finish(t);
    assert_false(t->over);
}

TEST(the_end_is_reported_again_until_begin)
{
    struct http_response r;
    struct bytes body;
    http_response_begin(&r);
    static const char good[] = "HTTP/1.1 204 x\r\n\r\nmore";
    const uint8_t *at = (const uint8_t *)good, *end = at + sizeof good - 1;
    assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_HEAD);
    assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_DONE);
    assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_DONE);
    assert_int_equal(end - at, 4);
    assert_int_equal(http_response_finish(&r), HTTP_DONE);
    http_response_begin(&r);
    assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_MORE);
    assert_int_equal(http_response_finish(&r), HTTP_BAD);
    assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_BAD);
    assert_int_equal(http_response_finish(&r), HTTP_BAD);
    assert_string_equal(r.bad, "cut short");
    http_response_begin(&r);
    at = (const uint8_t *)good;
    assert_int_equal(http_response_step(&r, &at, end, &body), HTTP_HEAD);
    assert_int_equal(http_response_finish(&r), HTTP_DONE); /* 204 has no body */
}

/* ---- Requests ---- */

static struct http_request parse(const char *text)
{
    size_t bytes = strlen(text);
    assert_int_equal(http_request_head_bytes((const uint8_t *)text, bytes), bytes);
    assert_int_equal(http_request_head_bytes((const uint8_t *)text, bytes - 1), 0);
    return http_request_parse((const uint8_t *)text, bytes);
}

TEST(a_request_is_taken_apart)
{
    static const struct {
        const char *text, *method, *path, *query;
        bool keep_alive, chunked, has_length;
        uint64_t length;
    } rows[] = {
        { "GET /a?b=c&d HTTP/1.1\r\nHost: x\r\n\r\n", "GET", "/a", "b=c&d", true, false, false, 0 },
        { "POST /submit HTTP/1.1\r\nhost: x\r\ncontent-LENGTH: \t12 \r\n\r\n", "POST", "/submit", NULL, true, false,
          true, 12 },
        { "PUT / HTTP/1.1\nHost:x\nTransfer-Encoding: Chunked\nConnection: x, close\n\n", "PUT", "/", NULL, false, true,
          false, 0 },
        { "GET / HTTP/1.0\r\n\r\n", "GET", "/", NULL, false, false, false, 0 },
        { "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET", "/", NULL, true, false, false, 0 },
        { "GET / HTTP/1.0\r\nConnection: keep-alive, x\r\n\r\n", "GET", "/", NULL, true, false, false, 0 },
        { "GET / HTTP/1.1\r\nHost: x\r\nConnection: close, keep-alive\r\n\r\n", "GET", "/", NULL, false, false, false,
          0 },
        { "\r\nGET / HTTP/1.9\r\nHost: x\r\n\r\n", "GET", "/", NULL, true, false, false, 0 },
        { "GET http://a.b:80?q HTTP/1.1\r\nHost: x\r\n\r\n", "GET", "/", "q", true, false, false, 0 },
        { "GET HTTP://a/b?q HTTP/1.1\r\nHost: x\r\n\r\n", "GET", "/b", "q", true, false, false, 0 },
        { "GET hTtP://a HTTP/1.1\r\nHost: x\r\n!#$%&'*+-.^_`|~09azAZ:\r\n\r\n", "GET", "/", NULL, true, false, false,
          0 },
        { "OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "OPTIONS", "*", NULL, true,
          false, true, 5 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_request request = parse(rows[i].text);
        assert_int_equal(request.refused, 0);
        assert_true(text_is(request.method, rows[i].method));
        assert_true(text_is(request.path, rows[i].path));
        assert_true(rows[i].query != NULL ? text_is(request.query, rows[i].query) : request.query.data == NULL);
        assert_int_equal(request.keep_alive, rows[i].keep_alive);
        assert_int_equal(request.chunked, rows[i].chunked);
        assert_int_equal(request.has_length, rows[i].has_length);
        assert_int_equal(request.length, rows[i].length);
    }
}

/* RFC 9112 §6.3: a body framed in two ways is request smuggling, because two readers disagree on its end. */
TEST(a_request_framed_in_two_ways_is_refused)
{
    static const struct {
        uint16_t refused;
        const char *fields;
    } rows[] = {
        { 400, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" },
        { 400, "Content-Length: 5\r\nContent-Length: 6\r\n" },
        { 400, "Content-Length: 5, 5\r\n" },
        { 400, "Content-Length: -1\r\n" },
        { 400, "Content-Length:\r\n" },
        { 400, "Content-Length: 99999999999999999999\r\n" },
        { 400, "Content-Length : 5\r\n" }, /* §5.1: others skip the white space */
        { 400, "Content-Length\t: 5\r\n" },
        { 501, "Transfer-Encoding: gzip\r\n" },
        { 501, "Transfer-Encoding: gzip, chunked\r\n" },
        { 501, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n", rows[i].fields);
        assert_int_equal(parse(text).refused, rows[i].refused);
    }
    assert_int_equal(parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").refused, 400);
    assert_int_equal(parse("GET  HTTP/1.1\r\n\r\n").refused, 400); /* RFC 9112 §3.2: a target is not empty */
}

/* RFC 9112 §2.2, §3: a method, a target and a version, with one space between. */
TEST(a_faulty_request_line_is_refused)
{
    static const char *const bad[] = { "",
                                       "GET",
                                       "GET /",
                                       " / HTTP/1.1",
                                       "GET  / HTTP/1.1",
                                       "GET / HTTP/1.1 ",
                                       "GET / HTTP/1",
                                       "GET / HTTP/1.10",
                                       "GET / http/1.1",
                                       "GET / HTTP/x.1",
                                       "GET / HTTP/1-1",
                                       "GET / HTTP/1.x" };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char text[100];
        int bytes = snprintf(text, sizeof text, "\r\n%s\r\nHost: x\r\n\r\n", bad[i]);
        assert_int_equal(http_request_parse((const uint8_t *)text, (size_t)bytes).refused, 400);
    }
    assert_int_equal(parse("GET / HTTP/0.9\r\nHost: x\r\n\r\n").refused, 505);
    assert_int_equal(parse("GET / HTTP/2.0\r\nHost: x\r\n\r\n").refused, 505);
}

/* Parses each beginning of a head, from a buffer of exactly its size. */
TEST(a_head_that_is_cut_is_read_to_its_end)
{
    static const char head[] = "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    for (size_t cut = 0; cut < sizeof head; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1);
        memcpy(exact, head, cut);
        const uint16_t refused = http_request_parse(exact, cut).refused;
        const bool is_whole = cut > strlen("\r\nGET / HTTP/1.1\r\nHost") && exact[cut - 1] != '\r';
        assert_int_equal(refused, is_whole ? 0 : 400);
        free(exact);
    }
}

/* RFC 9110 §5.1, §9.1, §4.2.1: others may read a name that is no token as the one that it resembles. */
TEST(a_name_that_is_no_token_is_refused)
{
    static const char *const texts[] = {
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding\x0b: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n\x01Transfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTrans fer: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nX[y]: z\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n\"X\": z\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding\x85: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length\x0b: 9\r\nContent-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nX\x7f: z\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n: z\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nX\r\n\r\n",
        "G(ET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET HTTP:///a HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(parse(texts[i]).refused, 400);
}

/* RFC 9112 §3.2, RFC 9110 §4.2.1, §4.2.4. */
TEST(a_faulty_host_is_refused)
{
    static const char *const good[] = { "", "x", "x:80", "x:", "[::1]:80", "a-b.c_d~e", "a%20b", "a,b" };
    static const char *const bad[] = { "a b",          "a\tb",         "a/b",           "a?b",      "a#b",
                                       "u@a",          "a\\b",         "a\"b",          "\xc3\xa9", "a\x01",
                                       "x\r\nHost: x", "x\r\nHost: y", "a b\r\nHost: x" };
    static const char *const bad_targets[] = { "http://:80/", "http://u@a/", "http://a\\b/", "http://a#b/",
                                               "http://\xff/" };
    char text[200];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
        assert_int_equal(parse(text).refused, 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "GET / HTTP/1.%zu\r\nHost: %s\r\n\r\n", i % 2, bad[i]);
        assert_int_equal(parse(text).refused, 400);
    }
    for (size_t i = 0; i < sizeof bad_targets / sizeof *bad_targets; i++) {
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", bad_targets[i]);
        assert_int_equal(parse(text).refused, 400);
    }
}

/* RFC 9112 §2.2, RFC 9110 §5.5. */
TEST(a_request_with_a_control_character_is_refused)
{
    static const char head[] = "POST /a?b HTTP/1.1\r\nHost: x\r\nX: a Content-Length: 5\r\n\r\n";
    uint8_t text[sizeof head - 1];
    assert_int_equal(parse(head).refused, 0);
    for (size_t i = 0; i < sizeof text; i++)
        for (int byte = 0; byte <= 0x7f; byte = byte == ' ' - 1 ? 0x7f : byte + 1) {
            memcpy(text, head, sizeof text);
            bool may_be_tab = i > sizeof "POST /a?b HTTP/1.1"; /* white space in a field's value */
            if (text[i] == '\r' || text[i] == '\n' || byte == '\n' || (byte == '\t' && may_be_tab))
                continue;
            text[i] = (uint8_t)byte;
            assert_int_equal(http_request_parse(text, sizeof text).refused, 400);
        }
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\n\rX: y\r\n\r\n").refused, 400);
}

TEST(names_are_percent_encoded)
{
    char out[64];
    assert_int_equal(http_percent_encode(out, "aZ09-._~", 8), 8);
    assert_string_equal(out, "aZ09-._~");
    assert_int_equal(http_percent_encode(out, "a b&c=d/\xc3\xa9%+", 12), 28);
    assert_string_equal(out, "a%20b%26c%3Dd%2F%C3%A9%25%2B");
    assert_int_equal(http_percent_encode(out, "\0", 1), 3);
    assert_string_equal(out, "%00");
}
