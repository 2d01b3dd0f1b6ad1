/* Fuzzes app/service/control.c: datagrams [flags][bytes][data], time passing between them. Without the key no command
 * is obeyed, and no reply is longer than its datagram. With SIGN set a command answers the latest challenge rightly, so
 * that replies are reached. */
#include "app/service/control.h"
#include "app/service/stats.h"
#include "base/hmac.h"
#include "tests/fuzz/datagrams.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/fake_capture.h"
#include "tests/lib/fake_transport.c"

enum { SIGN = 1, MEND = 2, LATER = 4, OTHER_PEER = 8, PORT = 18247, DATAGRAMS_MAX = 200 };

static const uint8_t key[8] = "fuzz key", secret[32];
static struct control_challenge_wire challenge;

static void keep_challenge(void)
{
    for (uint32_t i = 0; i < fake.datagram_count && i < FAKE_DATAGRAM_COUNT; i++)
        if (fake.datagrams[i].data[5] == CONTROL_CHALLENGE)
            memcpy(&challenge, fake.datagrams[i].data, sizeof challenge);
}

static const char *take_set(struct bytes word)
{
    ASSERT(word.count >= 1 && word.count <= CONTROL_WORD_BYTES_MAX);
    return word.data[0] == 'm' ? NULL : "refused";
}

static uint64_t obeyed_count(void)
{
    return control_counters.commands_status + control_counters.commands_gg + control_counters.commands_log
           + control_counters.commands_set + control_counters.commands_capture + control_counters.commands_unknown;
}

static void sign(struct control_command_wire *command, size_t bytes)
{
    enum { SIGNED_BYTES = offsetof(struct control_command_wire, mac) };
    struct hmac_key k;
    uint8_t message[SIGNED_BYTES + UINT8_MAX];
    memcpy(command->nonce, challenge.nonce, sizeof command->nonce);
    memcpy(command->time_ms, challenge.time_ms, sizeof command->time_ms);
    memcpy(command->challenge, challenge.challenge, sizeof command->challenge);
    hmac_key_set(&k, key, sizeof key);
    memcpy(message, command, SIGNED_BYTES);
    memcpy(message + SIGNED_BYTES, command + 1, bytes - sizeof *command);
    hmac(&k, message, SIGNED_BYTES + bytes - sizeof *command, command->mac);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t now_ns = 1000000000;
    uint64_t signed_count = 0;
    fake_reset();
    stats_clear();
    stats_add_counters(&control_counter_group);
    memset(&challenge, 0, sizeof challenge);
    ASSERT(control_init(key, sizeof key, PORT, secret));
    control_on_set(take_set);
    fake_capture_begin(size % 2 == 0 ? CAPTURE_BYTES_MAX : 0);
    struct fuzz_datagram datagram;
    for (int i = 0; i < DATAGRAMS_MAX && fuzz_datagram_take(&datagram, &data, &size); i++) {
        if ((datagram.flags & MEND) && datagram.bytes >= 8) {
            memcpy(datagram.data, "PGRN\1", 5);
            datagram.data[5] = datagram.bytes == sizeof(struct control_hello_wire) ? CONTROL_HELLO : CONTROL_COMMAND;
            store_be16(datagram.data + 6, (uint16_t)datagram.bytes);
        }
        if ((datagram.flags & SIGN) && datagram.bytes >= sizeof(struct control_command_wire)) {
            sign((struct control_command_wire *)datagram.data, datagram.bytes);
            signed_count++;
        }
        uint64_t obeyed = obeyed_count();
        fake.datagram_count = 0;
        struct transport_event event = { .kind = TRANSPORT_DATAGRAM,
                                         .payload = { datagram.data, datagram.bytes },
                                         .address = datagram.flags & OTHER_PEER ? 2 : 1,
                                         .peer_port = 5,
                                         .port = PORT };
        if (capture_bytes() != 0 && datagram.bytes > 0)
            fake_capture_frame(datagram.data, (uint32_t)datagram.bytes);
        control_datagram(&event, now_ns);
        if (!(datagram.flags & SIGN)) {
            ASSERT(obeyed == obeyed_count());
            ASSERT(fake.datagram_count == 0 || fake.datagrams[0].bytes <= datagram.bytes);
        }
        keep_challenge();
        free(datagram.data);
        for (int k = 0; k < 20; k++)
            control_poll(now_ns += datagram.flags & LATER ? 30000000 : 1000);
        control_check();
    }
    ASSERT(control_counters.commands_gg <= 1 && control_counters.commands_status <= signed_count);
    ASSERT(!control_gg_done() || control_counters.commands_gg == 1);
    return 0;
}
