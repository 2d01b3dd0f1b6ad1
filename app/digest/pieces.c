#include "app/digest/pieces.h"

#include <string.h>

#include "base/assert.h"
#include "base/time.h"

enum {
    PIECES_WAITING = 32, /* the loop's own, which wait for older ones */
    PIECE_COUNT = WORK_WORKER_COUNT_MAX * WORK_DEPTH + PIECES_WAITING,
    PIECES_OF_BODY_MAX = 64, /* as many are joined at once when a worker has stood still */
};

/* A job's memory is the piece up to `of`, and without parts the body's method_job. With parts a worker reads of the
 * latter what nobody writes before the body's end. */
struct piece {
    struct work work;
    const struct method *method;
    union method_job *job;
    bool in_parts;
    uint64_t at;
    struct bytes run;
    struct method_part part;
    uint8_t bytes[METHOD_RUN_BYTES_MAX];
    _Alignas(WORK_LINE_BYTES) struct pieces *of; /* from here on the loop's */
    struct piece *next;
};

static struct {
    struct piece all[PIECE_COUNT], *free[PIECE_COUNT];
    size_t count, free_count; /* by the count of workers */
    uint64_t waited_until_ns;
} pool;

void digest_pieces_clear(void)
{
    pool.count = work_worker_count() * WORK_DEPTH + PIECES_WAITING;
    ASSERT(pool.count <= PIECE_COUNT);
    for (pool.free_count = 0; pool.free_count < pool.count; pool.free_count++)
        pool.free[pool.free_count] = &pool.all[pool.free_count];
    pool.waited_until_ns = 0;
}

bool digest_pieces_have_room(const struct pieces *p) { return pool.free_count > 0 && p->count < PIECES_OF_BODY_MAX; }

void digest_pieces_note_wait(uint64_t now_ns) { pool.waited_until_ns = now_ns + NS_PER_MS; }

uint32_t digest_pieces_depth(const struct pieces *p, uint64_t now_ns)
{
    return p->in_parts && now_ns >= pool.waited_until_ns ? WORK_DEPTH : 1;
}

size_t digest_pieces_check(const struct pieces *p)
{
    size_t count = 0;
    for (const struct piece *piece = p->oldest; piece != NULL; piece = piece->next) {
        ASSERT(piece->of == p && (piece->next != NULL || piece == p->newest));
        count++;
    }
    ASSERT(count == p->count && count <= (p->in_parts ? PIECES_OF_BODY_MAX : 1));
    return count;
}

void digest_pieces_pool_check(size_t used) { ASSERT(pool.free_count + used == pool.count); }

void digest_pieces_begin(struct pieces *p, const struct method *method, union method_job *job, uint64_t length)
{
    ASSERT(p->oldest == NULL);
    *p = (struct pieces){ .method = method, .job = job };
    p->in_parts = method->part_bytes > 0 && length > 0 && length % method->part_bytes == 0;
}

static void piece_run(struct work *work)
{
    struct piece *piece = (struct piece *)work;
    if (piece->in_parts) {
        piece->method->part_take(piece->job, piece->at, piece->run.data, piece->run.count, &piece->part);
        return;
    }
    size_t written = piece->method->take(piece->job, piece->run.data, piece->run.count, NULL);
    ASSERT(written == 0);
}

/* Makes a run the newest piece. Its bytes stay where they are. */
static struct piece *piece_add(struct pieces *p, uint64_t at, struct bytes run)
{
    ASSERT(digest_pieces_have_room(p) && run.count > 0 && run.count <= METHOD_RUN_BYTES_MAX);
    ASSERT(p->oldest == NULL || p->in_parts);
    struct piece *piece = pool.free[--pool.free_count];
    piece->work.run = piece_run;
    piece->method = p->method;
    piece->job = p->job;
    piece->in_parts = p->in_parts;
    piece->at = at;
    piece->run = run;
    piece->of = p;
    piece->next = NULL;
    *(p->oldest == NULL ? &p->oldest : &p->newest->next) = piece;
    p->newest = piece;
    p->count++;
    return piece;
}

void digest_pieces_give(struct pieces *p, uint64_t at, struct bytes run)
{
    struct piece *piece = piece_add(p, at, run);
    memcpy(piece->bytes, run.data, run.count);
    piece->run.data = piece->bytes;
    work_give(&piece->work);
}

void digest_pieces_take_here(struct pieces *p, uint64_t at, struct bytes run)
{
    if (p->oldest != NULL) {
        work_here(&piece_add(p, at, run)->work);
        return;
    }
    size_t written = p->method->take(p->job, run.data, run.count, NULL);
    ASSERT(written == 0);
}

struct pieces *digest_pieces_end(struct work *work)
{
    struct pieces *p = ((struct piece *)work)->of;
    ASSERT(work->run == piece_run && p->oldest != NULL);
    while (p->oldest != NULL && !work_is_out(&p->oldest->work)) {
        struct piece *piece = p->oldest;
        if (p->in_parts)
            p->method->part_join(p->job, &piece->part);
        p->oldest = piece->next;
        p->count--;
        pool.free[pool.free_count++] = piece;
    }
    ASSERT(pool.free_count <= pool.count);
    return p;
}
