/* The version of the release: the tree's file VERSION. tools/workshop/make/flags.mk hands it to version.c. */
#pragma once

extern const char version_text[];
