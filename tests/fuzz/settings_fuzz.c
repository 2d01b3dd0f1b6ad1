/* Fuzzes app/settings.c: any text is taken or refused with a printable line, and what is taken keeps its bounds. */
#include <stdlib.h>
#include <string.h>

#include "app/settings.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    (void)file, (void)line, (void)condition;
    abort();
}

static void check_error(const struct settings_error *error)
{
    size_t bytes = strnlen(error->text, sizeof error->text);
    ASSERT(bytes > 0 && bytes < sizeof error->text);
    for (size_t i = 0; i < bytes; i++)
        ASSERT(error->text[i] >= ' ' && error->text[i] <= '~');
}

static void check_settings(const struct settings *s)
{
    ASSERT(s->feed_count >= 1 && s->feed_count <= SETTINGS_FEED_COUNT_MAX);
    for (uint32_t i = 0; i < s->feed_count; i++)
        ASSERT(s->feeds[i].address && s->feeds[i].port);
    ASSERT(s->submit.address && s->submit.port);
    ASSERT(s->user[0] && strlen(s->user) <= SETTINGS_USER_BYTES_MAX && strlen(s->passwd) <= SETTINGS_USER_BYTES_MAX);
    ASSERT(s->n_digits_max >= 1 && s->n_digits_max <= MATCHER_N_DIGITS_MAX);
    ASSERT(s->constant_count >= 1 && s->constant_count <= MATCHER_CONSTANT_COUNT_MAX);
    for (uint32_t i = 0; i < s->constant_count; i++) {
        size_t digits = strspn(s->constants[i], "0123456789");
        ASSERT(s->constants[i][digits] == '\0' && digits >= 1 && digits <= MATCHER_CONSTANT_DIGITS_MAX);
        ASSERT(s->constants[i][0] != '0');
    }
    ASSERT(s->early_risk >= 1e-30 && s->early_risk <= 0.1);
    ASSERT(s->mtu_bytes == 0 || (s->mtu_bytes >= 576 && s->mtu_bytes <= 1500));
    ASSERT(s->key_bytes == 0 || (s->key_bytes >= SETTINGS_KEY_BYTES_MIN && s->key_bytes <= SETTINGS_KEY_BYTES_MAX));
    ASSERT(s->virtio_mmio_count <= SETTINGS_VIRTIO_MMIO_COUNT_MAX);
    ASSERT(s->address != 0 || s->gateway == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings settings;
    struct settings_error error;
    settings_begin(&settings);
    /* Two sources, cut at the first 0xff. */
    const uint8_t *cut = memchr(data, 0xff, size);
    size_t first = cut ? (size_t)(cut - data) : size;
    char *text = malloc(size ? size : 1);           /* exact, for the sanitizer */
    memcpy(text, data, size);
    bool good = settings_add(&settings, "command line", text, first, &error)
             && (!cut || settings_add(&settings, "module", text + first + 1, size - first - 1, &error))
             && settings_finish(&settings, &error);
    free(text);
    if (good)
        check_settings(&settings);
    else
        check_error(&error);
    return 0;
}
