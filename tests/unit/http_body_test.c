/* net/http/body.c: each body is read whole, split at every byte, and byte by byte. */
#include "net/http/body.h"
#include "tests/lib/test.h"

/* Feeds bytes from a buffer of exactly their size. Appends the body's own bytes to `out`; returns those taken. */
static size_t feed(struct http_body *body, const char *text, size_t bytes, size_t run_max, char *out)
{
    uint8_t *exact = malloc(bytes ? bytes : 1);
    size_t at = 0;
    memcpy(exact, text, bytes);
    while (at < bytes && body->state < HTTP_BODY_DONE) {
        struct bytes run;
        size_t taken = http_body_step(body, exact + at, bytes - at, run_max, &run);
        http_body_check(body);
        assert_true(taken > 0 && run.count <= run_max);
        strncat(out, (const char *)run.data, run.count);
        at += taken;
    }
    free(exact);
    return at;
}

static struct http_body begun(bool chunked, uint64_t length)
{
    struct http_body body;
    http_body_begin(&body, &(struct http_request){ .chunked = chunked, .has_length = !chunked, .length = length });
    return body;
}

static void check(const char *text, bool chunked, uint64_t length, enum http_body_state end, const char *expected,
                  size_t behind)
{
    size_t bytes = strlen(text);
    for (size_t cut = 0; cut <= bytes; cut++)
        for (size_t run_max = 1; run_max < 8; run_max += 3) {
            char out[64] = "";
            struct http_body body = begun(chunked, length);
            size_t taken = feed(&body, text, cut, run_max, out);
            if (taken == cut)
                taken += feed(&body, text + cut, bytes - cut, run_max, out);
            assert_int_equal(body.state, end);
            assert_string_equal(out, expected);
            assert_int_equal(bytes - taken, behind);
        }
}

TEST(bodies_are_read_in_any_pieces)
{
    check("helloGET", false, 5, HTTP_BODY_DONE, "hello", 3);
    check("GET", false, 0, HTTP_BODY_DONE, "", 3);
    check("5\r\nhello\r\n0\r\n\r\nGET", true, 0, HTTP_BODY_DONE, "hello", 3);
    check("5;name=\"v\"\r\nhello\r\n00A\r\n 12345678,\r\n0\r\nTrailer: x\r\n\r\n", true, 0, HTTP_BODY_DONE,
          "hello 12345678,", 0);
    check("5 ;a\r\nhello\r\n0\t ; b = \"c\"\r\nX-Y:\r\nz~: 1:2\r\n\r\n", true, 0, HTTP_BODY_DONE, "hello", 0);
    check("1;\ta=\t\r\nh\r\n0\r\n\r\n", true, 0, HTTP_BODY_DONE, "h", 0);
    check("3\r\nab", true, 0, HTTP_BODY_DATA, "ab", 0);
}

TEST(malformed_chunks_are_refused)
{
    static const char *const texts[] = {
        "\r\n",
        "x\r\n",
        "-1\r\n",
        ";a\r\n",
        "8000000000000000\r\n",
        "5\r\nhellox",
        "5\n",
        "5;a\n",
        "5\rx",
        "5;a\rx",
        "5\r\r",
        "5\r\nhello\n",
        "0\r\n\n",
        "0\r\nTrailer: x\n", /* lone LF and CR */
        "0\r\nTrailer: x\r\r",
        "0\r\n\rx",
        "5;a\x01",
        "5;a\x7f",
        /* Something after the size that is no extension. */
        "3 5\r\n",
        "3\tx\r\n",
        "0 x\r\n",
        "5 \r\n",
        "0x5\r\n",
        "5,\r\n",
        "5g\r\n",
        " 5\r\n",
        "+5\r\n",
        /* Trailers that are no fields. */
        "0\r\nnocolon\r\n\r\n",
        "0\r\n: x\r\n\r\n",
        "0\r\nTrailer : x\r\n\r\n",
        "0\r\n folded: x\r\n\r\n",
        "0\r\nA: x\r\n y\r\n\r\n",
        "0\r\nX[y]: z\r\n\r\n",
        "0\r\n\x85: z\r\n\r\n",
        "0\r\nA: \x7f\r\n\r\n",
        "0\r\nA: \x1f\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char out[64] = "";
        struct http_body body = begun(true, 0);
        feed(&body, texts[i], strlen(texts[i]), 100, out);
        assert_int_equal(body.state, HTTP_BODY_BAD);
    }
    char out[64] = "";
    struct http_body body = begun(true, 0);
    feed(&body, "0\r\nA: \0\r\n\r\n", 12, 100, out);
    assert_int_equal(body.state, HTTP_BODY_BAD);
}

TEST(sizes_extensions_and_trailers_without_end_are_refused)
{
    static const struct {
        const char *head, *more;
        int line_bytes;
    } rows[] = { { "0", "0", 1 }, { "1;", "a", 2 }, { "0\r\n", "a", 0 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char out[8] = "";
        struct http_body body = begun(true, 0);
        feed(&body, rows[i].head, strlen(rows[i].head), 1, out);
        for (int k = rows[i].line_bytes; k < HTTP_CHUNK_LINE_BYTES_MAX; k++)
            assert_int_equal(feed(&body, rows[i].more, 1, 1, out), 1);
        assert_true(body.state < HTTP_BODY_DONE);
        feed(&body, rows[i].more, 1, 1, out);
        assert_int_equal(body.state, HTTP_BODY_BAD);
    }
}
