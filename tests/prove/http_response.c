/* HTTP responses: a step, and the end of the stream, from every state with any fields, over any input.
 *
 * Each step is asserted to leave such a state again, so the proof covers every sequence of steps. No step reads beyond
 * the CRLF and the digits of a chunk's size, so 20 bytes stand for any number. In a head a step takes one byte and goes
 * on; between chunks it takes the usual bytes at once, or one byte and goes on. Each is proved from every state. */
#include "net/http/response.c"

static struct http_response response;
static uint8_t input[20];

/* Sets the framing of chunks to any that http_chunks_check allows in this state of it. */
static void chunks_any(struct http_chunks *chunks, uint8_t state)
{
    chunks->state = state;
    chunks->bad = NULL;
    chunks->of_response = prove_number(0, 1);
    chunks->has_trailer = prove_number(0, 1);
    chunks->line_bytes = prove_number(0, HTTP_CHUNK_LINE_BYTES_MAX);
    if (state > HTTP_CHUNK_DATA)
        chunks->left = 0;
    else
        chunks->left = prove_number(state == HTTP_CHUNK_DATA, INT64_MAX);
}

static void response_any(uint8_t state)
{
    prove_any(&response, sizeof response);
    chunks_any(&response.chunks, HTTP_CHUNK_DATA);
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

static void between_chunks(uint8_t framing)
{
    const uint8_t *next = input + prove_number(0, sizeof input - 1);
    response_any(STATE_CHUNK_FRAMING);
    chunks_any(&response.chunks, framing);
    chunk_bytes_usual(&response, &next, input + sizeof input);
    prove_holds(response.state <= STATE_BAD);
    response_any(STATE_CHUNK_FRAMING);
    chunks_any(&response.chunks, framing);
    chunk_byte(&response, (char)input[0]);
    prove_holds(response.state <= STATE_BAD);
}

void main(void)
{
    prove_any(input, sizeof input);
    for (uint8_t state = STATE_START; state <= STATE_BAD; state++) {
        response_any(state);
        if (in_body(&response)) /* a proof for each offset */
            for (size_t offset = 0; offset <= sizeof input; offset++)
                step(state, offset, true);
        else if (state == STATE_CHUNK_FRAMING)
            for (uint8_t framing = HTTP_CHUNK_SIZE_FIRST; framing < HTTP_CHUNK_DONE; framing++) {
                if (framing != HTTP_CHUNK_DATA)
                    between_chunks(framing);
            }
        else
            step(state, prove_number(sizeof input - 1, sizeof input), false);
        response_any(state);
        http_response_finish(&response);
        prove_holds(response.state <= STATE_BAD);
    }
}
