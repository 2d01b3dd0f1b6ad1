/* printf's useful subset, without floating point, locale or state. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { FORMAT_WIDTH_MAX = 512 }; /* larger widths and precisions count as this one */

/* Formats like printf, for the subset %s %c %d %i %u %x %X %p %%. It has the flags 0 and -, a width, a .precision (for
 * %s), and the sizes l, ll, z; h and hh change nothing. A width or precision may be *. %pI4h, as in Linux, writes the
 * IPv4 address in host order that a `const uint32_t *` points at. Any other conversion is copied as it stands. Always
 * terminates; returns the bytes written without the terminator. */
size_t format(char *out, size_t out_bytes, const char *form, ...) __attribute__((format(printf, 3, 4)));
size_t format_list(char *out, size_t out_bytes, const char *form, va_list list);
