/* Formats text, one conversion at a time. Knows no device and no log. */
#include "base/format.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"

enum { DIGITS_BYTES_MAX = 20 }; /* 2^64 - 1 in decimal */

struct output {
    char *at;
    size_t room; /* left, without the terminator */
    size_t written;
};

/* One conversion: %[flags][width][.precision][size]letter. */
struct conversion {
    bool left, zero, has_precision;
    int width, precision;
    int long_count; /* l: 1, ll and z: 2 */
    char letter;
};

static void put(struct output *out, char c)
{
    if (out->room == 0)
        return;
    *out->at++ = c;
    out->room--;
    out->written++;
}

static void put_padded(struct output *out, const struct conversion *how, const char *sign, const char *text,
                       size_t bytes)
{
    ASSERT(how->width >= 0 && how->width <= FORMAT_WIDTH_MAX);
    int pad = how->width - (int)(strlen(sign) + bytes);
    bool zero = how->zero && !how->left;
    for (int i = 0; !how->left && !zero && i < pad; i++)
        put(out, ' ');
    for (; *sign != '\0'; sign++)
        put(out, *sign);
    for (int i = 0; zero && i < pad; i++)
        put(out, '0');
    for (size_t i = 0; i < bytes; i++)
        put(out, text[i]);
    for (int i = 0; how->left && i < pad; i++)
        put(out, ' ');
}

static void put_number(struct output *out, const struct conversion *how, const char *sign, uint64_t value,
                       unsigned base)
{
    ASSERT(base == 10 || base == 16);
    const char *digits = how->letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[DIGITS_BYTES_MAX];
    size_t at = sizeof text;
    do {
        text[--at] = digits[value % base];
        value /= base;
    } while (value != 0);
    ASSERT(at < sizeof text);
    put_padded(out, how, sign, text + at, sizeof text - at);
}

static uint64_t take_unsigned(const struct conversion *how, va_list *list)
{
    return how->long_count ? va_arg(*list, unsigned long) : va_arg(*list, unsigned);
}

static int64_t take_signed(const struct conversion *how, va_list *list)
{
    return how->long_count ? va_arg(*list, long) : va_arg(*list, int);
}

static void put_signed(struct output *out, const struct conversion *how, int64_t value)
{
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    put_number(out, how, value < 0 ? "-" : "", magnitude, 10);
}

/* Writes an IPv4 address in host order as a dotted quad. */
static void put_address(struct output *out, const struct conversion *how, uint32_t address)
{
    char text[16];
    size_t bytes = format(text, sizeof text, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255,
                          address & 255);
    put_padded(out, how, "", text, bytes);
}

static void put_string(struct output *out, const struct conversion *how, const char *text)
{
    if (text == NULL)
        text = "(null)";
    size_t bytes = how->has_precision ? strnlen(text, (size_t)how->precision) : strlen(text);
    ASSERT(!how->has_precision || how->precision >= 0);
    struct conversion plain = *how;
    plain.zero = false;
    put_padded(out, &plain, "", text, bytes);
}

static int take_count(const char **form, va_list *list)
{
    if (**form == '*') {
        (*form)++;
        return va_arg(*list, int);
    }
    int count = 0;
    while (**form >= '0' && **form <= '9') {
        count = count * 10 + (*(*form)++ - '0');
        if (count > FORMAT_WIDTH_MAX)
            count = FORMAT_WIDTH_MAX;
    }
    return count;
}

/* Parses the conversion that follows a '%'. Returns the place after its letter, or the terminator. */
static const char *conversion_parse(struct conversion *how, const char *form, va_list *list)
{
    *how = (struct conversion){ 0 };
    for (;; form++)
        if (*form == '-')
            how->left = true;
        else if (*form == '0')
            how->zero = true;
        else
            break;
    how->width = take_count(&form, list);
    if (how->width < 0) { /* C11 §7.21.6.1: a negative * width is the - flag and its magnitude */
        how->left = true;
        how->width = how->width < -FORMAT_WIDTH_MAX ? FORMAT_WIDTH_MAX : -how->width;
    }
    if (*form == '.') {
        form++;
        how->precision = take_count(&form, list);
        how->has_precision = how->precision >= 0; /* ibid.: a negative one counts as none */
    }
    for (;; form++)
        if (*form == 'l')
            how->long_count++;
        else if (*form == 'z')
            how->long_count = 2;
        else if (*form != 'h')
            break;
    how->letter = *form;
    return *form == '\0' ? form : form + 1;
}

size_t format_list(char *out_text, size_t out_bytes, const char *form, va_list arguments)
{
    if (out_bytes == 0)
        return 0;
    struct output out = { .at = out_text, .room = out_bytes - 1 };
    va_list list;
    va_copy(list, arguments);
    while (*form != '\0') {
        if (*form != '%') {
            put(&out, *form++);
            continue;
        }
        const char *percent = form;
        struct conversion how;
        form = conversion_parse(&how, form + 1, &list);
        switch (how.letter) {
        case 's':
            put_string(&out, &how, va_arg(list, const char *));
            break;
        case 'c':
            put_padded(&out, &how, "", (char[]){ (char)va_arg(list, int) }, 1);
            break;
        case 'd':
        case 'i':
            put_signed(&out, &how, take_signed(&how, &list));
            break;
        case 'u':
            put_number(&out, &how, "", take_unsigned(&how, &list), 10);
            break;
        case 'x':
        case 'X':
            put_number(&out, &how, "", take_unsigned(&how, &list), 16);
            break;
        case 'p':
            if (form[0] == 'I' && form[1] == '4' && form[2] == 'h') {
                form += 3;
                put_address(&out, &how, *va_arg(list, const uint32_t *));
            } else {
                put_number(&out, &how, "0x", (uintptr_t)va_arg(list, void *), 16);
            }
            break;
        case '%':
            put(&out, '%');
            break;
        default:
            while (percent < form)
                put(&out, *percent++);
        }
    }
    va_end(list);
    ASSERT(out.written < out_bytes);
    *out.at = '\0';
    return out.written;
}

size_t format(char *out, size_t out_bytes, const char *form, ...)
{
    va_list list;
    va_start(list, form);
    size_t bytes = format_list(out, out_bytes, form, list);
    va_end(list);
    return bytes;
}
