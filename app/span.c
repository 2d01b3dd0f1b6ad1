#include "app/span.h"

bool span_split(struct span *rest, char separator, struct span *part)
{
    if (!rest->at)
        return false;
    const char *found = memchr(rest->at, separator, rest->bytes);
    part->at = rest->at;
    part->bytes = found ? (size_t)(found - rest->at) : rest->bytes;
    rest->bytes = found ? rest->bytes - part->bytes - 1 : 0;
    rest->at = found ? found + 1 : NULL;
    return true;
}

bool span_number(struct span s, uint64_t least, uint64_t most, uint64_t *value)
{
    uint64_t v = 0;
    if (s.bytes == 0 || s.bytes > 19)
        return false;
    for (size_t i = 0; i < s.bytes; i++) {
        if (!span_digit_is(s.at[i]))
            return false;
        v = v * 10 + (uint64_t)(s.at[i] - '0');
    }
    *value = v;
    return v >= least && v <= most;
}

int span_hex_digit(char c)
{
    return span_digit_is(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool span_address(struct span s, uint32_t *address)
{
    uint32_t v = 0;
    struct span part;
    unsigned parts = 0;
    for (; span_split(&s, '.', &part); parts++) {
        uint64_t octet;
        if (parts == 4 || part.bytes > 3 || !span_number(part, 0, 255, &octet))
            return false;
        if (part.bytes > 1 && part.at[0] == '0')        /* to inet_aton() it is octal */
            return false;
        v = v << 8 | (uint32_t)octet;
    }
    *address = v;
    return parts == 4;
}

bool span_duration(struct span s, uint64_t *ns)
{
    uint64_t unit_ns = 1000000000;
    if (s.bytes > 2 && !memcmp(s.at + s.bytes - 2, "us", 2)) {
        unit_ns = 1000;
        s.bytes -= 2;
    } else if (s.bytes > 2 && !memcmp(s.at + s.bytes - 2, "ms", 2)) {
        unit_ns = 1000000;
        s.bytes -= 2;
    } else if (s.bytes > 1 && s.at[s.bytes - 1] == 's') {
        s.bytes--;
    }
    struct span whole, decimals;
    uint64_t number;
    if (!span_split(&s, '.', &whole) || !span_number(whole, 0, 1000000000, &number))
        return false;
    uint64_t v = number * unit_ns;
    if (span_split(&s, '.', &decimals)) {
        if (s.at || decimals.bytes > 9 || !span_number(decimals, 0, UINT64_MAX, &number))
            return false;
        for (size_t i = 0; i < decimals.bytes; i++)
            unit_ns /= 10;              /* 10^-9 s is 1 ns; finer decimals of ms and us count as nothing */
        v += number * unit_ns;
    }
    *ns = v;
    return true;
}
