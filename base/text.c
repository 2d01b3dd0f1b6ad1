/* Parses values out of text. Knows no key. */
#include "base/text.h"

#include "base/assert.h"
#include "base/time.h"

bool text_split(struct bytes *rest, char separator, struct bytes *part)
{
    if (!rest->data)
        return false;
    const struct bytes all = *rest;
    size_t at = 0;
    /*@ loop invariant at <= all.count; loop assigns at; loop variant all.count - at; */
    while (at < all.count && all.data[at] != (uint8_t)separator)
        at++;
    bool found = at < all.count;
    *part = (struct bytes){ all.data, at };
    *rest = found ? (struct bytes){ all.data + at + 1, all.count - at - 1 } : (struct bytes){ NULL, 0 };
    ASSERT(part->count + rest->count <= all.count);
    return true;
}

void text_to_string(char *out, struct bytes s)
{
    /*@ loop invariant i <= s.count; loop assigns i, out[0 .. s.count - 1]; loop variant s.count - i; */
    for (size_t i = 0; i < s.count; i++)
        out[i] = (char)s.data[i];
    out[s.count] = '\0';
}

bool text_number(struct bytes s, uint64_t least, uint64_t most, uint64_t *value)
{
    ASSERT(least <= most);
    uint64_t v = 0;
    if (s.count == 0 || s.count > 19)
        return false;
    /*@ loop invariant i <= s.count; loop assigns i, v; loop variant s.count - i; */
    for (size_t i = 0; i < s.count; i++) {
        if (!text_digit_is(s.data[i]))
            return false;
        v = v * 10 + (uint64_t)(s.data[i] - '0');
    }
    *value = v;
    return v >= least && v <= most;
}

int text_hex_digit(uint8_t c)
{
    return text_digit_is(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool text_address(struct bytes s, uint32_t *address)
{
    uint32_t v = 0;
    struct bytes part;
    unsigned parts = 0;
    /*@ loop invariant (s.data == \null || readable(s)) && parts <= 4;
        loop assigns s, part, parts, v; */
    for (; text_split(&s, '.', &part); parts++) {
        uint64_t octet;
        if (parts == 4 || part.count > 3 || !text_number(part, 0, 255, &octet))
            return false;
        if (part.count > 1 && part.data[0] == '0') /* to inet_aton() it is octal */
            return false;
        ASSERT(octet <= 255 && parts < 4);
        v = v << 8 | (uint32_t)octet;
    }
    *address = v;
    return parts == 4;
}

bool text_duration(struct bytes s, uint64_t *ns)
{
    uint64_t unit_ns = NS_PER_S;
    if (s.count > 1 && s.data[s.count - 1] == 's') {
        uint8_t prefix = s.data[s.count - 2];
        unit_ns = prefix == 'u' ? NS_PER_US : prefix == 'm' ? NS_PER_MS : NS_PER_S;
        s.count -= unit_ns == NS_PER_S || s.count == 2 ? 1 : 2;
    }
    struct bytes whole, decimals;
    uint64_t number;
    if (!text_split(&s, '.', &whole) || !text_number(whole, 0, 1000000000, &number))
        return false;
    uint64_t v = number * unit_ns;
    if (text_split(&s, '.', &decimals)) {
        if (s.data || decimals.count > 9 || !text_number(decimals, 0, UINT64_MAX, &number))
            return false;
        /*@ loop assigns i, unit_ns; loop variant decimals.count - i; */
        for (size_t i = 0; i < decimals.count; i++)
            unit_ns /= 10; /* a digit below 1 ns counts as nothing */
        v += number * unit_ns;
    }
    *ns = v;
    return true;
}

bool text_chance(struct bytes s, uint64_t *units)
{
    enum { DIGITS_MAX = 7, DECIMALS_MAX = 30 }; /* 10^7 * 2^40 < 2^64 */
    struct bytes mantissa, exponent = { NULL, 0 }, whole, decimals = { NULL, 0 };
    uint64_t number = 0, fraction = 0, power = 0;
    if (!text_split(&s, 'e', &mantissa) || (text_split(&s, 'e', &exponent) && s.data))
        return false;
    if (!text_split(&mantissa, '.', &whole) || whole.count > DIGITS_MAX || !text_number(whole, 0, 9999999, &number))
        return false;
    if (text_split(&mantissa, '.', &decimals) && (mantissa.data || !text_number(decimals, 0, 9999999, &fraction)))
        return false;
    if (exponent.data
        && (exponent.count < 2 || exponent.data[0] != '-'
            || !text_number((struct bytes){ exponent.data + 1, exponent.count - 1 }, 0, DECIMALS_MAX, &power)))
        return false; /* only negative exponents make sense for a chance */
    /*@ loop assigns i, number; loop variant decimals.count - i; */
    for (size_t i = 0; i < decimals.count; i++) {
        number *= 10;
        if (number > 9999999)
            return false;
    }
    number += fraction;
    if (number > 9999999)
        return false;
    ASSERT(number < UINT64_MAX >> TEXT_CHANCE_BITS);
    uint64_t value = number << TEXT_CHANCE_BITS;
    /*@ loop assigns i, value; loop variant power + decimals.count - i; */
    for (uint64_t i = 0; i < power + decimals.count; i++)
        value /= 10;
    *units = value;
    return value >= 1 && value <= (UINT64_C(1) << TEXT_CHANCE_BITS) / 10;
}
