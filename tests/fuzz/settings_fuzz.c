/* Fuzzes base/settings.c with the tables of the player, the service, the network and the machine. Any text is taken or
 * refused with a printable line, and values that are taken keep their bounds. */
#include "app/player/settings.h"
#include "app/service/settings.h"
#include "kernel/settings.h"
#include "net/settings.h"
#include "tests/fuzz/fuzz.h"

static void check_error(const char *error)
{
    size_t bytes = strnlen(error, SETTINGS_ERROR_BYTES_MAX);
    ASSERT(bytes > 0 && bytes < SETTINGS_ERROR_BYTES_MAX);
    for (size_t i = 0; i < bytes; i++)
        ASSERT(error[i] >= ' ' && error[i] <= '~');
}

static void check_player(const struct player_settings *s)
{
    ASSERT(s->inputs.count >= 1 && s->inputs.count <= PLAYER_INPUT_COUNT_MAX);
    for (uint32_t i = 0; i < s->inputs.count; i++)
        ASSERT(s->inputs.at[i].address && s->inputs.at[i].port);
    ASSERT(s->submit.address && s->submit.port);
    ASSERT(s->user[0] && strlen(s->user) <= PLAYER_USER_BYTES_MAX && strlen(s->passwd) <= PLAYER_USER_BYTES_MAX);
    ASSERT(s->n_digits_max >= 1 && s->n_digits_max <= MATCHER_N_DIGITS_MAX);
    ASSERT(s->modulus_count >= 1 && s->modulus_count <= MATCHER_MODULUS_COUNT_MAX);
    for (uint32_t i = 0; i < s->modulus_count; i++) {
        size_t digits = strspn(s->moduli[i], "0123456789");
        ASSERT(s->moduli[i][digits] == '\0' && digits >= 1 && digits <= MATCHER_MODULUS_DIGITS_MAX);
        ASSERT(s->moduli[i][0] != '0');
    }
    ASSERT(s->early_risk >= 1 && s->early_risk <= (UINT64_C(1) << 40) / 10);
}

static void check_others(void)
{
    const struct transport_config *n = &network_settings;
    ASSERT(n->mtu_bytes == 0 || (n->mtu_bytes >= 576 && n->mtu_bytes <= 1500));
    ASSERT(n->address != 0 || n->gateway == 0);
    size_t key_bytes = service_settings.key_bytes;
    ASSERT(key_bytes == 0 || (key_bytes >= SERVICE_KEY_BYTES_MIN && key_bytes <= SERVICE_KEY_BYTES_MAX));
    ASSERT(machine_settings.virtio_mmio.count <= MACHINE_VIRTIO_MMIO_COUNT_MAX);
    ASSERT(machine_settings.blackbox_count <= MACHINE_BLACKBOX_COUNT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct settings settings;
    service_settings_begin(&settings, "player", &player_settings_table, &machine_settings_table);
    /* Two sources, cut at the first 0xff. */
    const uint8_t *cut = memchr(data, 0xff, size);
    size_t first = cut ? (size_t)(cut - data) : size;
    char *text = malloc(size ? size : 1); /* exact, for the sanitizer */
    memcpy(text, data, size);
    settings_add(&settings, "command line", text, first);
    settings_check(&settings);
    if (cut)
        settings_add(&settings, "module", text + first + 1, size - first - 1);
    free(text);
    settings_check(&settings);
    if (settings_finish(&settings)) {
        check_player(&player_settings);
        check_others();
    } else {
        check_error(settings.error);
    }
    return 0;
}
