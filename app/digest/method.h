/* A method: one path of the service. The server reads requests and knows nothing of hashes; a method knows nothing of
 * HTTP. To add one: a file NAME.c that defines `digest_method_NAME`, and here a row and its `struct NAME_job`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/bytes.h"

/* The methods: the name, which is the path /NAME, and the keys of its query. */
#define DIGEST_METHODS(ROW)                                                                                            \
    ROW(sha256, "?rounds=")                                                                                            \
    ROW(nabhash, "")                                                                                                   \
    ROW(mercha, "?key=&nonce=")                                                                                        \
    ROW(base64, "")

enum {
#define METHOD_INDEX(name, keys) METHOD_##name,
    DIGEST_METHODS(METHOD_INDEX) METHOD_COUNT
};

enum {
    METHOD_RESULT_BYTES_MAX = 320, /* /mercha: two lines of 128 characters */
    METHOD_BLOCK_BYTES = 64,
    MERCHA_GROUP_BYTES = 4096,                     /* a variant takes 64 blocks at once, a tree of six levels */
    MERCHA_LEVEL_COUNT = 33,                       /* a counter of 32 bits is 2^32 blocks */
    METHOD_RUN_BYTES_MAX = 2 * MERCHA_GROUP_BYTES, /* a body is taken in such runs */
};

/* The request as a method sees it. */
struct method_request {
    struct bytes query; /* after the '?'; may be empty */
    bool has_length;
    uint64_t length;
};

enum method_end {
    METHOD_ENDED,   /* the result is written */
    METHOD_REFUSED, /* `refusal` says why */
    METHOD_CHAIN,   /* more rounds of SHA-256 follow: app/digest/chains.h */
};

struct method_result {
    uint8_t text[METHOD_RESULT_BYTES_MAX];
    size_t bytes;
    const char *refusal;
};

/* The bytes of a body after its last whole block. */
struct method_rest {
    uint64_t bytes; /* so far, of the body */
    uint8_t block[METHOD_BLOCK_BYTES];
};

struct sha256_job {
    uint32_t state[8];
    uint64_t rounds;
    struct method_rest rest;
};

struct nabhash_job {
    uint8_t lanes[64];
    struct method_rest rest;
};

struct mercha_job {
    uint32_t key[8], nonce[3]; /* read on all CPUs: away from what the joins write */
    uint8_t rest[MERCHA_GROUP_BYTES];
    uint64_t bytes;
    uint32_t nodes[MERCHA_LEVEL_COUNT][16]; /* by level: the last left one of a pair, or the root */
};

struct base64_job {
    uint8_t rest[3];
    uint32_t rest_bytes;
};

union method_job {
#define METHOD_JOB(name, keys) struct name##_job name;
    DIGEST_METHODS(METHOD_JOB)
};

/* The result of a run of whole parts. Only /mercha has parts: the groups' nodes, and the last one's left child. */
struct method_part {
    uint32_t nodes[METHOD_RUN_BYTES_MAX / MERCHA_GROUP_BYTES][16], left[16];
    size_t count;
};

struct method {
    bool streams; /* the response comes while the body is read: take() writes it */
    /* A body whose length is known and a multiple of it may be taken in parts, on several CPUs at once. 0: none is */
    size_t part_bytes;

    /* Uses a variant from now on: 0 is the scalar one. Returns its name; NULL: there is none of this number. */
    const char *(*use)(size_t variant);

    /* Begins a body. Returns NULL, or the reason of a refusal in words. */
    const char *(*begin)(union method_job *job, const struct method_request *request);

    /* Takes bytes of the body. A method that streams writes at most METHOD_OUT_BYTES(bytes) to `out` and returns their
     * count; others return 0. */
    size_t (*take)(union method_job *job, const uint8_t *data, size_t bytes, uint8_t *out);

    /* Takes a run of whole parts, which begins at `at` in the body. On any CPU, in any order. */
    void (*part_take)(const union method_job *job, uint64_t at, const uint8_t *data, size_t bytes,
                      struct method_part *part);

    /* Adds the result to the job, in the order of the body. */
    void (*part_join)(union method_job *job, const struct method_part *part);

    /* Ends a body. A method that streams writes its last characters. */
    enum method_end (*end)(union method_job *job, struct method_result *result);
};
#define METHOD_OUT_BYTES(bytes) (((bytes) + 2) / 3 * 4)

/* Defines the table of a method's variants, the scalar one first, NULL last. `ops` is the one in use. */
#define METHOD_VARIANTS(method, ...)                                                                                   \
    const struct method##_ops *const digest_##method##_all[] = { __VA_ARGS__, NULL };                                  \
    static const struct method##_ops *ops;                                                                             \
    static const char *method##_use(size_t variant)                                                                    \
    {                                                                                                                  \
        ASSERT(variant < ARRAY_COUNT(digest_##method##_all));                                                          \
        ops = digest_##method##_all[variant];                                                                          \
        return ops != NULL ? ops->name : NULL;                                                                         \
    }

#define METHOD_EXTERN(name, keys) extern const struct method digest_method_##name;
DIGEST_METHODS(METHOD_EXTERN)
extern const struct method *const digest_methods[METHOD_COUNT];

/* Returns the method of a path, and its index; NULL: there is none. */
const struct method *digest_method_of(struct bytes path, size_t *index);

/* Returns the value of a query's key; data NULL: the key is not there. */
struct bytes digest_method_query_value(struct bytes query, const char *key);

/* Completes the block that an earlier part of the body has begun, from the front of `data`. Returns true if the block
 * is whole now. */
bool digest_method_rest_fill(struct method_rest *rest, struct bytes *data);

/* Counts the rest of `data`, and keeps the bytes after its last whole block. */
void digest_method_rest_keep(struct method_rest *rest, struct bytes data);

/* Writes bytes as lower-case hexadecimal; returns the end of the text. */
uint8_t *digest_method_hex_write(uint8_t *out, const void *data, size_t bytes);
