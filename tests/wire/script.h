/* The text of a timeline: words, numbers, segments. What is wrong with it ends the program with its line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/wire/segment.h"

struct script {
    const char *path;
    char **lines;
    size_t line_count;
    size_t line;                        /* the one being read, from 0 */
    const char *at;                     /* where in it */
    int64_t i;                          /* the turn of the innermost `repeat`, from 0 */
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

/* A sum of products of numbers and `i`, without blanks: 1+1000*i. */
int64_t script_number(struct script *s);
/* A time in seconds, exact to the nanosecond. */
uint64_t script_seconds_ns(struct script *s);

/* A segment, from its flags to the end of the line. */
void script_segment(struct script *s, struct wire_segment *segment);
