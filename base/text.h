/* Text by pointer and length, and the values that it may spell: numbers, addresses, times. Pure; no allocation, no
 * terminator. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

enum { TEXT_CHANCE_BITS = 40 }; /* a chance is a number of 2^-40 */

/* Returns the text without its terminator. */
/*@ requires terminated: valid_read_string(text);
    assigns \nothing;
    ensures \result.data == (uint8_t *)text && \result.count == strlen(text) && readable(\result); */
static inline struct bytes text_of(const char *text)
{
    const struct bytes all = { (const uint8_t *)text, strlen(text) };
    return all;
}

/* Cuts `head` off the front of `rest`. False: `rest` does not begin with it. */
/*@ requires \valid(rest) && readable(*rest);
    requires terminated: valid_read_string(head);
    assigns *rest;
    ensures readable(*rest) && rest->count <= \old(rest->count); */
static inline bool text_skip(struct bytes *rest, const char *head)
{
    size_t i = 0;
    /*@ loop invariant i <= rest->count && i <= strlen(head); loop assigns i; loop variant rest->count - i; */
    while (i < rest->count && head[i] != '\0' && rest->data[i] == (uint8_t)head[i])
        i++;
    if (head[i] != '\0')
        return false;
    rest->data += i;
    rest->count -= i;
    return true;
}

/* Returns true if the text begins with `head`. */
/*@ requires readable(s);
    requires terminated: valid_read_string(head);
    assigns \nothing; */
static inline bool text_starts(struct bytes s, const char *head) { return text_skip(&s, head); }

/* Returns true if the text is `text`. */
/*@ requires readable(s);
    requires terminated: valid_read_string(text);
    assigns \nothing; */
static inline bool text_is(struct bytes s, const char *text) { return text_skip(&s, text) && s.count == 0; }

/* Cuts the part before `separator` off the front of `rest`, whose `data` becomes NULL with the last part; false when
 * nothing is left. An empty part counts: "a,,b" has three, "" has one. */
/*@ requires \valid(rest) && \valid(part) && \separated(rest, part);
    requires rest->data == \null || readable(*rest);
    assigns *rest, *part;
    ensures \result <==> \old(rest->data) != \null;
    ensures \result ==> readable(*part) && part->count <= \old(rest->count);
    ensures \result && rest->data != \null ==> readable(*rest) && rest->count < \old(rest->count);
    ensures !\result ==> *rest == \old(*rest) && *part == \old(*part); */
bool text_split(struct bytes *rest, char separator, struct bytes *part);

/* Writes the text and a terminator. */
/*@ requires readable(s) && \valid(out + (0 .. s.count));
    requires \separated(out + (0 .. s.count), s.data + (0 .. s.count - 1));
    assigns out[0 .. s.count]; */
void text_to_string(char *out, struct bytes s);

/* Returns true for '0' to '9'. */
/*@ assigns \nothing; ensures \result <==> '0' <= c <= '9'; */
static inline bool text_digit_is(uint8_t c) { return c >= '0' && c <= '9'; }

/* Returns the value of a hexadecimal digit; -1 if the character is none. */
/*@ assigns \nothing; ensures -1 <= \result <= 15; */
int text_hex_digit(uint8_t c);

/* Returns true if all of the text spells such a value; otherwise *value is unspecified. */
/*@ requires readable(s) && least <= most && \valid(value);
    assigns *value;
    ensures \result ==> least <= *value <= most; */
bool text_number(struct bytes s, uint64_t least, uint64_t most, uint64_t *value); /* decimal, at most 19 digits */
/*@ requires readable(s) && \valid(address);
    assigns *address;
    ensures \result == 0 || \result == 1; */
bool text_address(struct bytes s, uint32_t *address); /* four decimal parts; host order */
/*@ requires readable(s) && \valid(ns);
    assigns *ns; */
bool text_duration(struct bytes s, uint64_t *ns); /* seconds as "30", "0.5", "30s"; "200ms", "50us" */
/* "0.001", "2.5e-9": 1e-12 to 0.1, at most 7 digits, rounded down to units of 2^-40. */
/*@ requires readable(s) && \valid(units);
    assigns *units; */
bool text_chance(struct bytes s, uint64_t *units);
