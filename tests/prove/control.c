/* Control datagrams: each length up to a byte more than a command, and any longer; each ends where the buffer ends. The
 * state is any, the keys are any. The proof does not cover replies, except that each byte to be sent is readable. */
#include "app/service/control.c"

static uint8_t bytes_of_event[1472], key[32], read;
static struct transport_network network;

bool transport_udp_bind(uint16_t port) { return port != 0; }

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    (void)from_port, (void)to_address, (void)to_port, (void)now_ns;
    for (size_t i = 0; i < bytes; i++)
        read = ((const uint8_t *)data)[i];
    return read == 0;
}

const struct transport_network *transport_network(void) { return &network; }

/* Returns any number of bytes that are kept of a frame; 0: there is no capture. */
uint32_t capture_bytes(void) { return (uint32_t)prove_number(0, CAPTURE_BYTES_MAX); }
uint64_t capture_newest(void) { return prove_number(0, UINT64_MAX); }
void capture_flush(void) {}

void log_line(const char *form, ...) { (void)form; }

/* Replaces a program: reads each byte of the word, and refuses the word or not. */
static const char *set(struct bytes word)
{
    for (size_t i = 0; i < word.count; i++)
        read = word.data[i];
    return read == 0 ? NULL : "refused";
}

static void state_any(void)
{
    prove_any(&control, sizeof control);
    control.on = prove_number(0, 1);
    control.replying = prove_number(0, 1);
    control_text.rendered = prove_number(0, 1);
    control.leaving = prove_number(0, 1);
    control.part_text_bytes = prove_number(0, CONTROL_REPLY_TEXT_BYTES_MAX);
    control.set = prove_number(0, 1) ? set : NULL;
    control.left = false; /* after true the machine no longer runs */
    hmac_key_set(&control.key, key, sizeof key);
}

static void datagram(uint32_t bytes)
{
    struct transport_event event = {
        .payload = { bytes_of_event + sizeof bytes_of_event - bytes, bytes },
        .address = prove_number(0, UINT32_MAX),
        .peer_port = prove_number(0, UINT16_MAX),
        .port = prove_number(0, UINT16_MAX),
    };
    state_any();
    control_datagram(&event, prove_number(0, INT64_MAX));
}

void main(void)
{
    prove_any(bytes_of_event, sizeof bytes_of_event);
    prove_any(key, sizeof key);
    prove_any(&network, sizeof network);
    for (uint32_t bytes = 0; bytes <= sizeof(struct control_command_wire) + 1; bytes++)
        datagram(bytes);
    datagram(sizeof(struct control_command_wire) + CONTROL_WORD_BYTES_MAX);
    datagram(sizeof bytes_of_event);
}
