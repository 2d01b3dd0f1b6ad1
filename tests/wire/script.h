/* The text of a timeline: words, numbers, segments. An error in the text ends the program with the number of its
 * line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/wire/segment.h"

struct script {
    const char *path;
    char **lines;
    size_t line_count;
    size_t line;    /* the current line, from 0 */
    const char *at; /* the place in that line */
    int64_t i;      /* the turn of the innermost `repeat`, from 0 */
};

void script_open(struct script *s, const char *path);
/* Goes to a line; comments are cut off. */
void script_go(struct script *s, size_t line);
_Noreturn void script_fault(const struct script *s, const char *what);

bool script_at_end(struct script *s);
/* Takes `word` if it comes next. */
bool script_take(struct script *s, const char *word);
/* Takes the next word, up to a blank. */
void script_word(struct script *s, char *word, size_t bytes);

/* Reads a sum of products of numbers and `i`, without blanks: 1+1000*i. */
int64_t script_number(struct script *s);
/* Reads a time in seconds, exact to the nanosecond. */
uint64_t script_seconds_ns(struct script *s);

/* Reads a segment, from its flags to the end of the line. */
void script_segment(struct script *s, struct wire_segment *segment);
