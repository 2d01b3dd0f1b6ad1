/* Fuzzes net/http/request.c and body.c. Each head has all its parts, or is refused by one of the known answers. No byte
 * beyond the head is read. The body after the head is the same in one piece and byte by byte. */
#include "net/http/body.h"
#include "net/http/request.h"
#include "tests/fuzz/fuzz.h"

static void check_part(struct bytes part, const uint8_t *head, size_t bytes)
{
    ASSERT(part.count == 0 || (part.data >= head && part.data + part.count <= head + bytes));
}

/* Reads a body in pieces of `piece` bytes. Returns a sum of its bytes weighted by their places. *taken counts the
 * framing, too. */
static uint64_t body_sum(struct http_body *body, const uint8_t *text, size_t bytes, size_t piece, size_t *taken)
{
    uint64_t sum = 0, place = 0;
    *taken = 0;
    while (*taken < bytes && body->state < HTTP_BODY_DONE) {
        struct bytes run;
        size_t part = min_size(piece, bytes - *taken);
        size_t step = http_body_step(body, text + *taken, part, piece, &run);
        http_body_check(body);
        ASSERT(step > 0 && step <= part && run.count <= step);
        for (size_t i = 0; i < run.count; i++)
            sum += ++place * (run.data[i] + 1u);
        *taken += step;
    }
    return sum;
}

static void check_body(const struct http_request *request, const uint8_t *text, size_t bytes)
{
    struct http_body whole, single;
    size_t whole_taken, single_taken;
    http_body_begin(&whole, request);
    http_body_begin(&single, request);
    uint64_t sum = body_sum(&whole, text, bytes, bytes + 1, &whole_taken);
    ASSERT(body_sum(&single, text, bytes, 1, &single_taken) == sum);
    ASSERT(whole.state == single.state && whole_taken == single_taken);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *text = malloc(size ? size : 1); /* exact, for the sanitizer */
    memcpy(text, data, size);
    size_t bytes = http_request_head_bytes(text, size);
    ASSERT(bytes <= size);
    uint8_t *head = malloc(bytes ? bytes : 1);
    memcpy(head, text, bytes);
    struct http_request request = http_request_parse(head, bytes);
    ASSERT(request.refused == 0 || request.refused == 400 || request.refused == 501 || request.refused == 505);
    if (request.refused == 0) {
        ASSERT(bytes >= sizeof "G / HTTP/1.0\n\n" - 1);
        ASSERT(request.method.count > 0);
        ASSERT(request.target.count > 0 && request.path.count > 0);
        ASSERT(!(request.chunked && request.has_length));
        check_part(request.method, head, bytes);
        check_part(request.target, head, bytes);
        check_part(request.query, head, bytes);
        check_body(&request, text + bytes, size - bytes);
    }
    free(head);
    free(text);
    return 0;
}
