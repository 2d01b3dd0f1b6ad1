/* The settings' tables as pages: for --help, and for docs/settings.md. */
#pragma once

#include "base/settings.h"

/* Prints a Markdown table of all keys: docs/settings.md holds the table. tools/workshop/make/settings_page.py
 * puts it there. */
void settings_page_print_table(const struct settings *settings);

/* Prints the keys for a terminal. */
void settings_page_print_help(const struct settings *settings);
