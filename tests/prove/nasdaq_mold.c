/* MoldUDP64: two datagrams one after another, from a stream's begin and its late middle, each of any line, session and
 * sequence number. Each ends where the buffer ends. Then a request, and the way on after a snapshot.
 *
 * The check of a datagram's blocks is proved for any bytes. Later code reads the lengths again, and Eva does not know
 * that these are checked ones. So the lengths are numbers there: every shape of shapes[]. */
#include "app/nasdaq/mold.c"

enum { LENGTH_COUNT = 3 };
static uint8_t datagram[MOLD_DATAGRAM_BYTES_MAX], request[MOLD_HEADER_BYTES], read;

static const struct shape {
    uint16_t header_count;
    uint16_t message_count;
    uint16_t lengths[LENGTH_COUNT];
    uint16_t more_bytes; /* after the messages */
} shapes[] = {
    { 0, 0, { 0 }, 0 },  { COUNT_END, 0, { 0 }, 0 }, { 1, 0, { 0 }, 1 },      { 1, 1, { 40 }, 0 },
    { 1, 1, { 40 }, 2 }, { 2, 1, { 40 }, 0 },        { 2, 2, { 36, 19 }, 0 }, { 3, 3, { 0, 1, 50 }, 0 },
};

static void use(struct bytes message)
{
    if (message.count > 0)
        read = message.data[0] + message.data[message.count - 1];
}

/* Takes a datagram of this shape, and all messages that are due after it. Returns a number for the states that Eva is
 * to keep apart: by the messages since `next`, and by a stored datagram, a lost gap and a gap. */
static int take(const struct shape *shape, uint64_t next)
{
    struct bytes message;
    size_t bytes = MOLD_HEADER_BYTES + shape->more_bytes;
    for (size_t i = 0; i < shape->message_count; i++)
        bytes += MOLD_LENGTH_BYTES + shape->lengths[i];
    uint8_t *at = datagram + sizeof datagram - bytes;
    const struct bytes all = { at, bytes };
    prove_any(datagram, sizeof datagram);
    store_be16(&((struct mold_header_wire *)at)->count, shape->header_count);
    at += MOLD_HEADER_BYTES;
    for (size_t i = 0; i < shape->message_count; i++) {
        store_be16(at, shape->lengths[i]);
        at += MOLD_LENGTH_BYTES + shape->lengths[i];
    }
    for (bool due = mold_take((enum mold_line)prove_number(MOLD_A, MOLD_REREQUEST), all, prove_number(0, INT64_MAX));
         due; due = mold_advance())
        while (mold_next(&message))
            use(message);
    bool has_gap = mold.request_ns != UINT64_MAX;
    return (int)(mold.next - next) % 8 * 8 + (mold.stored_count > 0) * 4 + mold.lost * 2 + has_gap;
}

static void follow(const struct mold *begun, const struct shape *first, const struct shape *second)
{
    mold = *begun;
    take(first, begun->next);
    take(second, begun->next);
    mold_request(prove_number(0, INT64_MAX), request);
    mold_resume(prove_number(1, SEQUENCE_MAX), prove_number(0, INT64_MAX));
}

/* Tries all pairs of shapes after the message with this sequence number. */
static void begin(uint64_t next)
{
    static struct mold begun;
    mold_init(prove_number(0, NS_PER_S), prove_number(0, NS_PER_S), NULL);
    mold_resume(next, prove_number(0, INT64_MAX));
    mold_advance();
    begun = mold;
    for (size_t first = 0; first < ARRAY_COUNT(shapes); first++)
        for (size_t second = 0; second < ARRAY_COUNT(shapes); second++)
            follow(&begun, &shapes[first], &shapes[second]);
}

void main(void)
{
    prove_any(datagram, sizeof datagram);
    for (size_t bytes = 0; bytes <= 40; bytes++)
        blocks_are_whole((struct bytes){ datagram + sizeof datagram - bytes, bytes },
                         (uint32_t)prove_number(0, COUNT_END));
    for (size_t bytes = 0; bytes < MOLD_HEADER_BYTES; bytes++)
        mold_take(MOLD_A, (struct bytes){ datagram + sizeof datagram - bytes, bytes }, prove_number(0, INT64_MAX));
    begin(1);
    begin(SEQUENCE_MAX - 2);
}
