/* The rows of the survey: the measurements, one after the other, each for its share of the time. A row is a histogram
 * and a fact of the statistics, both under its name: the fact says what one sample is, or "not measured: " and why. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/program.h"
#include "net/transport.h"

struct survey_config {
    const struct program_machine *machine; /* borrowed for the call */
    uint64_t duration_ns;                  /* all rows together */
    struct endpoint echo;                  /* address 0: nobody sends datagrams back */
};

/* Returns NULL when all rows are registered, or a message. */
const char *survey_rows_init(const struct survey_config *config, uint64_t now_ns);

/* Returns our port of the round trips; 0: none. */
uint16_t survey_rows_echo_port(void);

/* Takes a datagram to that port. */
void survey_rows_datagram(const struct transport_event *event, uint64_t now_ns);

/* Measures for some 50 us, and goes on to the next row when its time has come. Returns false after the last one. */
bool survey_rows_work(uint64_t now_ns);

/* Returns when survey_rows_work next has something to do: now, unless the row at work measures a sleep. */
uint64_t survey_rows_next_deadline_ns(uint64_t now_ns);
