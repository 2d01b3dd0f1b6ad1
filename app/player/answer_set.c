/* The set of the answers that were given.
 *
 * The problem: the contest counts a value once. The same value comes again, as a multiple that zeros follow, or in a
 * stream that is read a second time. Before an answer leaves, the player must know whether it is new, on a path of a
 * few hundred nanoseconds. Strangers choose the digits, up to 1,024 of them.
 *
 * The first idea is a table of the digits. 131,072 answers would be 128 MiB, and a comparison would read sixteen lines
 * of cold memory.
 *
 * The second is a table of hashes in place of the digits. A wrong "known" loses an answer for good, and whoever knows
 * the function finds two answers with one hash. So the hash is long, and its keys are random bytes of this machine: two
 * answers agree with a chance of 2^-128, whoever chose them (hash_digits). Buckets follow the keyed hash as well, so
 * nobody can make a chain long.
 *
 * The table is still too slow. The hash takes 5 ns, but a bucket and an entry are two lines of 6 MiB, both cold.
 *
 * The third idea is a filter before the table, small enough to stay in the second-level cache. A bit that is not set
 * proves that an answer is new, and nearly every answer is. Such an answer leaves at once, and its entry is made after
 * that, off the path. Any other answer is looked up in the table. The filter is never cleared: the more bits are set,
 * the more answers are looked up. That costs speed and no answer.
 *
 * The bound of memory: entries lie in a ring, and a new one takes the oldest one's place. No chain is repaired for
 * that. Serial numbers only fall along a chain, so an entry that is too old, or younger than the one before, ends the
 * walk. */
#include "app/player/answer_set.h"

#include <string.h>

#include "app/matcher/matcher.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hmac.h"
#include "base/hot_section.h"

enum {
    /* 128 KiB: a lookup finds its bucket in the cache and the TLB. When the set is full, chains are 4 long. */
    BUCKET_BITS = 15,
    PAD_BYTES = 16,
    /* Words of 64 bits: 32 KiB. An answer sets three bits of one word. After 10,000 answers, 3 new ones in 1000 find
     * all their bits set; with one bit an answer it was 4 in 100. More words would not stay in the cache. With all
     * bits set nothing is certain any more, and each answer is looked up. */
    SEEN_WORD_BITS = 12,
    KEY_COUNT = MATCHER_N_DIGITS_MAX / 8 + 2, /* one for each 8 digits; the second hash begins two keys later */
};

struct entry {
    uint64_t hash[4];
    uint32_t count;
    uint32_t older; /* serial of the entry before it in its bucket */
};

static struct {
    _Alignas(64) uint64_t keys[KEY_COUNT];
    uint64_t seen[1 << SEEN_WORD_BITS]; /* by brief_hash: of all that was ever entered */
    uint64_t total;                     /* entries ever made */
    uint32_t newest;                    /* serials count from 1 and wrap; entry s lies at s % ANSWER_SET_ANSWER_COUNT */
    uint32_t buckets[1 << BUCKET_BITS]; /* serial of the newest entry; 0: none */
    struct entry entries[ANSWER_SET_ANSWER_COUNT];
} answer_set;

struct answer_set_counters answer_set_counters;
const struct counter_group answer_set_counter_group = COUNTER_GROUP("answer_set.", "Answers given before",
                                                                    ANSWER_SET_COUNTERS, answer_set_counters);

void answer_set_init(const uint8_t secret[32])
{
    /* The entries stay as they are: no bucket leads to them. */
    memset(answer_set.buckets, 0, sizeof answer_set.buckets);
    memset(answer_set.seen, 0, sizeof answer_set.seen);
    answer_set.newest = 0;
    answer_set.total = 0;
    memset(&answer_set_counters, 0, sizeof answer_set_counters);
    struct hmac_key key;
    hmac_key_set(&key, secret, 32);
    for (uint32_t i = 0; i < KEY_COUNT; i += 4) {
        uint8_t random[SHA256_BYTES], label[10] = "answer";
        store_le32(label + 6, i);
        hmac(&key, label, sizeof label, random);
        for (uint32_t k = 0; k < 4 && i + k < KEY_COUNT; k++)
            answer_set.keys[i + k] = load_le64(random + 8 * k);
    }
}

uint64_t answer_set_used_count(void) { return min_size(answer_set.total, ANSWER_SET_ANSWER_COUNT); }

void answer_set_check(void)
{
    ASSERT(answer_set.total - answer_set_counters.forgotten == answer_set_used_count());
    ASSERT((uint32_t)answer_set.total == answer_set.newest);
    ASSERT(answer_set_counters.entered <= answer_set.total);
}

/* Hashes the digits by UMAC's NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, 1999; RFC 4418 §5.2) with 64-bit words:
 * sums of products of pairs of keyed words, mod 2^128. Two messages of one length collide with a chance of 2^-64
 * over the keys; twice, the second time with the keys moved on by one pair (their "Toeplitz" construction), 2^-128.
 * The digits are padded to a pair with zeros. About 2 multiplications for 16 digits, 24 digits in some 5 ns. */
static void hash_digits(const uint8_t *digits, size_t count, uint64_t hash[4])
{
    ASSERT(count >= 1 && count <= MATCHER_N_DIGITS_MAX);
    unsigned __int128 first = 0, second = 0;
    const uint64_t *key = answer_set.keys;
    uint8_t last[PAD_BYTES] = { 0 };
    for (size_t at = 0; at < count; at += PAD_BYTES, key += 2) {
        const uint8_t *pair = digits + at;
        if (count - at < PAD_BYTES)
            pair = memcpy(last, pair, count - at);
        uint64_t a = load_le64(pair), b = load_le64(pair + 8);
        first += (unsigned __int128)(a + key[0]) * (b + key[1]);
        second += (unsigned __int128)(a + key[2]) * (b + key[3]);
    }
    hash[0] = (uint64_t)first;
    hash[1] = (uint64_t)(first >> 64);
    hash[2] = (uint64_t)second;
    hash[3] = (uint64_t)(second >> 64);
}

/* Hashes the number of digits, the first eight and the last sixteen by NH, once. Equal answers have equal hashes. */
static inline uint64_t brief_hash_of(const uint8_t *digits, const uint8_t *end, size_t count)
{
    unsigned __int128 sum = (unsigned __int128)(load_le64(digits) + answer_set.keys[0]) * (count + answer_set.keys[1])
                            + (unsigned __int128)(load_le64(end - 16) + answer_set.keys[2])
                                  * (load_le64(end - 8) + answer_set.keys[3]);
    return ((uint64_t)sum ^ (uint64_t)(sum >> 64)) * UINT64_C(0x9e3779b97f4a7c15);
}

__attribute__((noinline)) static uint64_t brief_hash_short(const uint8_t *digits, size_t count)
{
    uint8_t padded[PAD_BYTES] = { 0 };
    memcpy(padded, digits, count);
    return brief_hash_of(padded, padded + PAD_BYTES, count);
}

static inline uint64_t brief_hash(const uint8_t *digits, size_t count)
{
    return count < PAD_BYTES ? brief_hash_short(digits, count) : brief_hash_of(digits, digits + count, count);
}

/* Returns the word of the filter that the hash's first bits name. seen_bits takes the next bits. A blocked Bloom filter
 * (Putze, Sanders, Singler, 2007). */
static inline uint64_t *seen_word(uint64_t hash) { return &answer_set.seen[hash >> (64 - SEEN_WORD_BITS)]; }
static inline uint64_t seen_bits(uint64_t hash)
{
    hash >>= 64 - SEEN_WORD_BITS - 3 * 6;
    return BIT(hash % 64) | BIT(hash / 64 % 64) | BIT(hash / 64 / 64 % 64);
}

HOT bool answer_set_is_new(const uint8_t *digits, size_t count)
{
    uint64_t hash = brief_hash(digits, count);
    return (~*seen_word(hash) & seen_bits(hash)) != 0;
}

void answer_set_warm(void)
{
    hot_fetch(answer_set.keys, HOT_LINE_BYTES);
    hot_fetch_l2(answer_set.seen, sizeof answer_set.seen); /* the next answer may read any of the words */
}

static void enter(uint32_t *bucket, const uint64_t hash[4], size_t count)
{
    uint32_t serial = ++answer_set.newest;
    struct entry *entry = &answer_set.entries[serial % ANSWER_SET_ANSWER_COUNT];
    if (++answer_set.total > ANSWER_SET_ANSWER_COUNT)
        answer_set_counters.forgotten++;
    memcpy(entry->hash, hash, sizeof entry->hash);
    entry->count = (uint32_t)count;
    entry->older = *bucket;
    *bucket = serial;
    __builtin_prefetch(&answer_set.entries[(serial + 1) % ANSWER_SET_ANSWER_COUNT], 1); /* for the next */
}

/* Walks the answer's chain, then inserts the answer in front. */
bool answer_set_insert(const uint8_t *digits, size_t count)
{
    ASSERT(count >= 1 && count <= MATCHER_N_DIGITS_MAX);
    uint64_t hash[4];
    hash_digits(digits, count, hash);
    uint32_t *bucket = &answer_set.buckets[((hash[0] ^ hash[1]) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BUCKET_BITS)];

    uint32_t age_before = 0;
    for (uint32_t serial = *bucket; serial != 0;) {
        uint32_t age = answer_set.newest - serial;
        if (age >= ANSWER_SET_ANSWER_COUNT || age < age_before)
            break;
        const struct entry *entry = &answer_set.entries[serial % ANSWER_SET_ANSWER_COUNT];
        if (entry->count == count && !memcmp(entry->hash, hash, sizeof hash)) {
            answer_set_counters.repeated++;
            /* An answer that keeps coming is inserted again before it would be forgotten. */
            if (age > ANSWER_SET_ANSWER_COUNT / 2)
                enter(bucket, hash, count);
            return false;
        }
        age_before = age;
        serial = entry->older;
    }
    uint64_t brief = brief_hash(digits, count);
    *seen_word(brief) |= seen_bits(brief);
    answer_set_counters.entered++;
    enter(bucket, hash, count);
    return true;
}
