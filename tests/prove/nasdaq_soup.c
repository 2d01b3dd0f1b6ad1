/* SoupBinTCP: a stream of any packets, before and after the login, in one piece and in two.
 *
 * A call of soup_next takes one packet after another, so a packet of each type and kind of length is tried, and a short
 * one of any type after it. The contents are any, except that a number is not followed by blanks. Other types and
 * lengths reach no other code. */
#include "app/nasdaq/soup.h"

enum { AFTER_BYTES = 5, ACCEPTED_BYTES = 1 + SOUP_SESSION_BYTES + SOUP_SEQUENCE_BYTES };
static struct soup soup;
static uint8_t stream[2 + SOUP_PACKET_BYTES_MAX + AFTER_BYTES], read;

static void begin(enum soup_state state)
{
    soup_init(&soup, "USER", "PW");
    soup_connected(&soup, 0);
    soup_sent(&soup, 0);
    soup.state = state;
    prove_any(soup.session, sizeof soup.session);
    soup.next_sequence = prove_number(1, INT64_MAX);
    soup.lost_session = prove_number(0, 1);
    soup.keeps_session = prove_number(0, 1);
    soup.idle = prove_number(0, 1);
}

/* Gives bytes of the stream, and takes all that is in them. Returns true if the connection goes on. */
static bool give(size_t from, size_t bytes)
{
    soup_data(&soup, (struct bytes){ stream + from, bytes }, prove_number(0, INT64_MAX));
    for (int packets = 0; packets < 3; packets++) {
        struct bytes message;
        enum soup_event event = soup_next(&soup, &message);
        soup_check(&soup);
        if (event == SOUP_MESSAGE && message.count > 0)
            read = message.data[message.count - 1] + message.data[0];
        if (event == SOUP_NOTHING)
            return true;
        if (event > SOUP_NEW_SESSION)
            return false;
    }
    return false;
}

/* Writes a login's number: blanks, then any bytes of which the first is no zero and the last is no blank. */
static void number_any(size_t blanks)
{
    uint8_t *number = stream + SOUP_HEAD_BYTES + SOUP_SESSION_BYTES;
    memset(number, ' ', blanks);
    if (blanks < SOUP_SEQUENCE_BYTES)
        number[SOUP_SEQUENCE_BYTES - 1] = (uint8_t)prove_number(' ' + 1, UINT8_MAX);
    if (blanks < SOUP_SEQUENCE_BYTES)
        number[blanks] = (uint8_t)prove_number('1', UINT8_MAX);
}

/* Tries a packet of this length and type, and a short one after it: in two pieces. */
static void packet(enum soup_state state, uint16_t bytes, uint8_t type, size_t blanks)
{
    const size_t whole = 2u + (bytes <= SOUP_PACKET_BYTES_MAX ? bytes : 0), all = whole + AFTER_BYTES;
    const size_t cuts[] = { 0, 1, 2, 3, whole - 1, whole, whole + 2, all };
    prove_any(stream, sizeof stream);
    stream[2] = type;
    if (bytes == ACCEPTED_BYTES)
        number_any(blanks);
    store_be16(stream, bytes);
    store_be16(stream + whole, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cuts); i++) {
        begin(state);
        if (give(0, cuts[i]))
            give(cuts[i], all - cuts[i]);
    }
}

void main(void)
{
    static const uint16_t good[] = { 1, 2, 3, ACCEPTED_BYTES, 32, SOUP_PACKET_BYTES_MAX };
    static const uint16_t bad[] = { 0, SOUP_PACKET_BYTES_MAX + 1, UINT16_MAX };
    static const uint8_t types[] = { 'S', 'H', '+', 'A', 'J', 'Z', '?' };
    for (enum soup_state state = SOUP_LOGIN; state <= SOUP_UP; state++) {
        for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
            packet(state, bad[i], 'S', 0);
        for (size_t i = 0; i < ARRAY_COUNT(good); i++)
            for (size_t t = 0; t < ARRAY_COUNT(types); t++)
                packet(state, good[i], types[t], 0);
        for (size_t blanks = 1; blanks <= SOUP_SEQUENCE_BYTES; blanks++)
            packet(state, ACCEPTED_BYTES, 'A', blanks);
    }
}
