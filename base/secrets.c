#include "base/secrets.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

static struct {
    size_t noted_count, held_count;
    struct {
        uint8_t bytes[SECRETS_BYTES_MAX];
        size_t count;
    } noted[SECRETS_NOTED_MAX];
    struct {
        void *at;
        size_t bytes;
    } held[SECRETS_HELD_MAX];
    bool begins[256]; /* a noted secret begins with this byte */
} secrets;

void secrets_note(const void *bytes, size_t count)
{
    if (count < SECRETS_BYTES_MIN || count > SECRETS_BYTES_MAX || secrets.noted_count == SECRETS_NOTED_MAX)
        return;
    for (size_t i = 0; i < secrets.noted_count; i++)
        if (secrets.noted[i].count == count && memcmp(secrets.noted[i].bytes, bytes, count) == 0)
            return;
    memcpy(secrets.noted[secrets.noted_count].bytes, bytes, count);
    secrets.noted[secrets.noted_count++].count = count;
    secrets.begins[*(const uint8_t *)bytes] = true;
    ASSERT(secrets.noted_count <= SECRETS_NOTED_MAX);
}

void secrets_hold(void *at, size_t bytes)
{
    ASSERT(at != NULL);
    if (secrets.held_count == SECRETS_HELD_MAX)
        return;
    secrets.held[secrets.held_count].at = at;
    secrets.held[secrets.held_count++].bytes = bytes;
}

/* Wipes the longest secret that begins at `at`, if there is one. */
static void wipe_at(uint8_t *at, const uint8_t *end)
{
    size_t longest = 0;
    for (size_t i = 0; i < secrets.noted_count; i++) {
        size_t count = secrets.noted[i].count;
        if (count > longest && count <= (size_t)(end - at) && memcmp(at, secrets.noted[i].bytes, count) == 0)
            longest = count;
    }
    memset(at, 0, longest);
}

void secrets_wipe(uint8_t *from, uint8_t *to, const uint8_t *end)
{
    uint8_t *const own = (uint8_t *)&secrets;
    ASSERT(from <= to && to <= end);
    while (from < to) {
        if (from == own || (from > own && from < own + sizeof secrets))
            from = own + sizeof secrets;
        else if (to - from >= 8 && load_le64(from) == 0 && !secrets.begins[0] && (uintptr_t)from % 8 == 0)
            from += 8; /* most memory is empty */
        else if (secrets.begins[*from])
            wipe_at(from, end), from++;
        else
            from++;
    }
}

void secrets_forget(void)
{
    for (size_t i = 0; i < secrets.held_count; i++)
        memset(secrets.held[i].at, 0, secrets.held[i].bytes);
    memset(&secrets, 0, sizeof secrets);
}
