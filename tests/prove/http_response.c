/* HTTP responses: a step, and the end of the stream, from every state with any fields, over any input.
 *
 * Each step is asserted to leave such a state again, so the proof covers every sequence of steps. No step reads beyond
 * the CRLF and the digits of a chunk's size, so 20 bytes stand for any number. */
#include "net/http/response.c"

static struct http_response response;
static uint8_t input[20];

static void response_any(uint8_t state)
{
    prove_any(&response, sizeof response);
    response.state = state;
    response.in_fields = prove_number(0, 1);
    response.length_bad = prove_number(0, 1);
    response.says_close = prove_number(0, 1);
    response.says_keep_alive = prove_number(0, 1);
    response.coding_seen = prove_number(0, 1);
    response.keep_alive = prove_number(0, 1);
    response.closes = prove_number(0, 1);
    response.until_close = prove_number(0, 1);
    response.chunked = prove_number(0, 1);
    response.has_length = prove_number(0, 1);
}

static void step(uint8_t state, size_t offset, bool exact)
{
    struct bytes body;
    const uint8_t *next = input + offset;
    response_any(state);
    enum http_step step = http_response_step(&response, &next, input + sizeof input, &body);
    prove_holds(response.state <= STATE_BAD);
    if (exact)
        prove_holds(next >= input + offset && next <= input + sizeof input);
    if (exact && step == HTTP_BODY)
        prove_holds(body.data == input + offset && body.count <= sizeof input - offset);
}

void main(void)
{
    prove_any(input, sizeof input);
    for (uint8_t state = STATE_START; state <= STATE_BAD; state++) {
        response_any(state);
        if (in_body(&response)) /* a proof for each offset; all other states need one for all offsets */
            for (size_t offset = 0; offset <= sizeof input; offset++)
                step(state, offset, true);
        else
            step(state, prove_number(0, sizeof input), false);
        response_any(state);
        http_response_finish(&response);
        prove_holds(response.state <= STATE_BAD);
    }
}
