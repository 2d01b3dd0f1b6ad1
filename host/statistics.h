/* The statistics at the end of a run, for people: tools/deploy/statistics.py makes the same table of the text. */
#pragma once

/* Prints the values that are not 0, a row for each module, and then a row for each histogram that is not empty. */
void statistics_print(void);
