/* Fuzzes net/http/response.c: a stream of responses gives the same result whole and in pieces. The first two bytes of
 * the input choose the pieces. */
#include "net/http/response.h"
#include "tests/fuzz/fuzz.h"

/* The parser's results: heads, bodies and ends, as one text. */
struct reading {
    struct http_response response;
    uint8_t *text;
    size_t bytes;
    bool over;
};

static void say(struct reading *r, const void *what, size_t bytes)
{
    memcpy(r->text + r->bytes, what, bytes);
    r->bytes += bytes;
}

static void read_some(struct reading *r, const uint8_t *data, size_t bytes)
{
    uint8_t *exact = malloc(bytes ? bytes : 1); /* exact, for the sanitizer */
    memcpy(exact, data, bytes);
    const uint8_t *at = exact, *end = exact + bytes;
    while (!r->over) {
        struct bytes body = { NULL, 0 };
        enum http_step step = http_response_step(&r->response, &at, end, &body);
        ASSERT(at <= end);
        http_response_check(&r->response);
        if (step == HTTP_MORE) {
            ASSERT(at == end);
            break;
        }
        if (step == HTTP_HEAD) {
            ASSERT(r->response.status >= 200 || r->response.status < 100);
            say(r, &r->response.status, 2);
            say(r, r->response.keep_alive ? "+" : "-", 1);
        } else if (step == HTTP_BODY) {
            ASSERT(body.count > 0 && body.data >= exact && body.data + body.count <= at);
            say(r, body.data, body.count);
        } else if (step == HTTP_DONE) {
            say(r, "|", 1);
            r->over = !r->response.keep_alive;
            http_response_begin(&r->response);
        } else {
            ASSERT(r->response.bad != NULL);
            say(r, "!", 1);
            r->over = true;
        }
    }
    free(exact);
}

static void read_all(struct reading *r, const uint8_t *data, size_t bytes, size_t piece)
{
    http_response_begin(&r->response);
    for (size_t at = 0; at < bytes; at += piece)
        read_some(r, data + at, min_size(piece, bytes - at));
    if (!r->over)
        say(r, http_response_finish(&r->response) == HTTP_BAD ? "?" : ".", 1);
    http_response_check(&r->response);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t piece = 1 + data[0] % 61;
    data += 2;
    size -= 2;
    /* A response takes at least 15 bytes, and adds at most 4 bytes and its body to the result. */
    struct reading whole = { .text = malloc(2 * size + 16) }, pieces = { .text = malloc(2 * size + 16) };
    read_all(&whole, data, size, size ? size : 1);
    read_all(&pieces, data, size, piece);
    ASSERT(whole.bytes == pieces.bytes && !memcmp(whole.text, pieces.text, whole.bytes));
    free(whole.text);
    free(pieces.text);
    return 0;
}
