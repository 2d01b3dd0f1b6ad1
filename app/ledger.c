#include "app/ledger.h"

#include <string.h>

#include "app/matcher.h"
#include "app/hmac.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/hot.h"

enum {
    /* 128 KiB: a look finds its bucket in the cache and the TLB. When the ledger is full, chains are 4 long. */
    BUCKET_BITS = 15,
    PAD_BYTES = 16,
    /* Words of 64 bits, three of which an answer sets: 32 KiB. 2^18 bits of which each sets one were wrong for 4 answers
     * in 100 after 10,000 of them, these for 3 in 1000; more words would not be in the cache when they are asked. With
     * all bits set nothing is certain any more, and each answer is looked up. */
    SEEN_WORD_BITS = 12,
    KEY_COUNT = MATCHER_N_DIGITS_MAX / 8 + 2,       /* a word of digits each; the second half begins two later */
};

struct entry {
    uint64_t hash[4];
    uint32_t count;
    uint32_t older;                 /* serial of the entry before it in its bucket */
};

static struct {
    _Alignas(64) uint64_t keys[KEY_COUNT];
    uint64_t seen[1 << SEEN_WORD_BITS];     /* by brief_hash: of all that was ever entered */
    uint64_t total;                 /* entries ever made */
    uint32_t newest;                /* serials count from 1 and wrap; entry s lies at s % LEDGER_ANSWER_COUNT */
    uint32_t buckets[1 << BUCKET_BITS];     /* serial of the newest entry; 0: none */
    struct entry entries[LEDGER_ANSWER_COUNT];
} ledger;

struct ledger_counters ledger_counters;
static const struct counter ledger_counter_table[] = {
    COUNTER("ledger.", ledger_counters, entered),
    COUNTER("ledger.", ledger_counters, repeated),
    COUNTER("ledger.", ledger_counters, forgotten),
};
const struct counter_group ledger_counter_group = { ledger_counter_table, ARRAY_COUNT(ledger_counter_table) };

void ledger_init(const uint8_t secret[32])
{
    /* The entries stay as they are: no bucket leads to them. */
    memset(ledger.buckets, 0, sizeof ledger.buckets);
    memset(ledger.seen, 0, sizeof ledger.seen);
    ledger.newest = 0;
    ledger.total = 0;
    memset(&ledger_counters, 0, sizeof ledger_counters);
    struct hmac_key key;
    hmac_key_set(&key, secret, 32);
    for (uint32_t i = 0; i < KEY_COUNT; i += 4) {
        uint8_t random[SHA256_BYTES], label[10] = "ledger";
        store_le32(label + 6, i);
        hmac(&key, label, sizeof label, random);
        for (uint32_t k = 0; k < 4 && i + k < KEY_COUNT; k++)
            ledger.keys[i + k] = load_le64(random + 8 * k);
    }
}

/* NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway, 1999; RFC 4418 §5.2) with 64-bit words: sums of products of
 * pairs of keyed words, mod 2^128. Two messages of one length collide with a chance of 2^-64 over the keys; twice,
 * the second time with the keys moved on by one pair (their "Toeplitz" construction), 2^-128. The digits are
 * padded to a pair with zeros. About 2 multiplications for 16 digits, 24 digits in some 5 ns. */
static void hash_digits(const uint8_t *digits, size_t count, uint64_t hash[4])
{
    unsigned __int128 first = 0, second = 0;
    const uint64_t *key = ledger.keys;
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

/* Of the number of digits, the first eight and the last sixteen: NH again, once. Equal for equal answers. */
static inline uint64_t brief_hash_of(const uint8_t *digits, const uint8_t *end, size_t count)
{
    unsigned __int128 sum = (unsigned __int128)(load_le64(digits) + ledger.keys[0]) * (count + ledger.keys[1])
        + (unsigned __int128)(load_le64(end - 16) + ledger.keys[2]) * (load_le64(end - 8) + ledger.keys[3]);
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

/* A blocked Bloom filter (Putze, Sanders, Singler, 2007): one word by the hash's first bits, three bits of it by the
 * next. */
static inline uint64_t *seen_word(uint64_t hash) { return &ledger.seen[hash >> (64 - SEEN_WORD_BITS)]; }
static inline uint64_t seen_bits(uint64_t hash)
{
    hash >>= 64 - SEEN_WORD_BITS - 3 * 6;
    return BIT(hash % 64) | BIT(hash / 64 % 64) | BIT(hash / 64 / 64 % 64);
}

HOT bool ledger_lacks(const uint8_t *digits, size_t count)
{
    uint64_t hash = brief_hash(digits, count);
    return (~*seen_word(hash) & seen_bits(hash)) != 0;
}

static void enter(uint32_t *bucket, const uint64_t hash[4], size_t count)
{
    uint32_t serial = ++ledger.newest;
    struct entry *entry = &ledger.entries[serial % LEDGER_ANSWER_COUNT];
    if (++ledger.total > LEDGER_ANSWER_COUNT)
        ledger_counters.forgotten++;
    memcpy(entry->hash, hash, sizeof entry->hash);
    entry->count = (uint32_t)count;
    entry->older = *bucket;
    *bucket = serial;
    __builtin_prefetch(&ledger.entries[(serial + 1) % LEDGER_ANSWER_COUNT], 1);     /* for the next */
}

/* Nothing is ever unlinked: serials only fall along a chain, so the first that is too old to be in memory ends it. */
bool ledger_enter(const uint8_t *digits, size_t count)
{
    ASSERT(count >= 1 && count <= MATCHER_N_DIGITS_MAX);
    uint64_t hash[4];
    hash_digits(digits, count, hash);
    uint32_t *bucket = &ledger.buckets[((hash[0] ^ hash[1]) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BUCKET_BITS)];

    uint32_t age_before = 0;
    for (uint32_t serial = *bucket; serial != 0;) {
        uint32_t age = ledger.newest - serial;
        if (age >= LEDGER_ANSWER_COUNT || age < age_before)
            break;
        const struct entry *entry = &ledger.entries[serial % LEDGER_ANSWER_COUNT];
        if (entry->count == count && !memcmp(entry->hash, hash, sizeof hash)) {
            ledger_counters.repeated++;
            /* What keeps coming is entered anew before it would be forgotten. */
            if (age > LEDGER_ANSWER_COUNT / 2)
                enter(bucket, hash, count);
            return false;
        }
        age_before = age;
        serial = entry->older;
    }
    uint64_t brief = brief_hash(digits, count);
    *seen_word(brief) |= seen_bits(brief);
    ledger_counters.entered++;
    enter(bucket, hash, count);
    return true;
}
