/* The version of the release: the file VERSION at the tree's root, which tools/make/flags.mk hands to version.c. */
#pragma once

extern const char version_text[];
