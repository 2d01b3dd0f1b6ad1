/* The one value of the settings that is not an integer, in a file of its own: the kernel's build of all the others uses
 * general registers alone (tools/make/image.mk). */
#include "app/span.h"

bool span_chance(struct span s, double *value)
{
    struct span mantissa, exponent = { NULL, 0 }, whole, decimals = { NULL, 0 };
    uint64_t number = 0, fraction = 0, power = 0;
    if (!span_split(&s, 'e', &mantissa))
        return false;
    if (span_split(&s, 'e', &exponent) && s.at)
        return false;
    if (!span_split(&mantissa, '.', &whole) || !span_number(whole, 0, 1000000, &number))
        return false;
    if (span_split(&mantissa, '.', &decimals) && (mantissa.at || !span_number(decimals, 0, UINT64_MAX, &fraction)))
        return false;
    double v = (double)fraction;
    for (size_t i = 0; i < decimals.bytes; i++)
        v /= 10;
    v += (double)number;
    if (exponent.at) {                  /* only negative ones make sense for a chance */
        if (exponent.bytes < 2 || exponent.at[0] != '-')
            return false;
        if (!span_number((struct span){ exponent.at + 1, exponent.bytes - 1 }, 0, 30, &power))
            return false;
        for (; power > 0; power--)
            v /= 10;
    }
    *value = v;
    return v >= SPAN_CHANCE_MIN && v <= SPAN_CHANCE_MAX;
}
