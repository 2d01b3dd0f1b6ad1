/* check-settings SOURCE: reads settings on standard input and says if the kernel takes them, by the kernel's own
 * parser. For tools/peregrine, which asks before it copies anything to a machine. SOURCE stands for the text in
 * messages.
 *
 * Exit code: 0 accepted; 1 refused, with the kernel's message on standard error; 2 wrong usage, or a text too long. */
#include <stdio.h>

#include "app/program.h"
#include "app/service/settings.h"
#include "kernel/settings.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, TEXT_BYTES_MAX = 16 * 1024 };

int main(int argc, char **argv)
{
    static char text[TEXT_BYTES_MAX];
    static struct settings settings;
    if (argc != 2) {
        fputs("check-settings SOURCE <FILE\n", stderr);
        return EXIT_USAGE;
    }
    size_t bytes = fread(text, 1, sizeof text, stdin);
    if (bytes == sizeof text || ferror(stdin)) {
        fprintf(stderr, "%s: cannot be read, or is longer than the kernel takes\n", argv[1]);
        return EXIT_USAGE;
    }
    service_settings_begin(&settings, program.name, program.settings, &machine_settings_table);
    settings_add(&settings, argv[1], text, bytes);
    if (!settings_finish(&settings)) {
        fprintf(stderr, "%s\n", settings.error);
        return EXIT_REFUSED;
    }
    return 0;
}
