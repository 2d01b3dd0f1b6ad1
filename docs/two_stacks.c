/* Two stacks in one program and a connection between them: no device, no thread, and a clock that the program sets.
 *
 *     make host
 *     cc -I. -o two_stacks docs/two_stacks.c build/host/libperegrine-net.so -Wl,-rpath,build/host */
#include <stdio.h>

#include "host/library/peregrine_net.h"

enum { SERVER_ADDRESS = 0x0a000002, PORT = 7 };

/* Carries packets between the stacks until none is left. A test would lose, hold or change some of them here. */
static void carry(struct pnet *a, struct pnet *b)
{
    unsigned char packet[1500];
    int bytes;
    do {
        while ((bytes = pnet_packet_out(a, packet, sizeof packet)) > 0)
            pnet_packet_in(b, packet, (size_t)bytes);
        bytes = pnet_packet_out(b, packet, sizeof packet);
        if (bytes > 0)
            pnet_packet_in(a, packet, (size_t)bytes);
    } while (bytes > 0);
}

int main(void)
{
    const char *why;
    struct pnet *client = pnet_open("address=10.0.0.1", &why);
    struct pnet *server = client ? pnet_open("address=10.0.0.2", &why) : NULL;
    if (!server) {
        fprintf(stderr, "two_stacks: %s\n", why);
        return 1;
    }
    int listener = pnet_socket(server), caller = pnet_socket(client);
    pnet_bind(server, listener, 0, PORT);
    pnet_listen(server, listener, 1);
    pnet_connect(client, caller, SERVER_ADDRESS, PORT); /* the SYN waits in the queue of packets */
    carry(client, server);

    char text[16];
    int called = pnet_accept(server, listener, NULL, NULL);
    pnet_write(client, caller, "hello", 5);
    carry(client, server);
    int64_t count = pnet_read(server, called, text, sizeof text, 0);
    printf("%.*s after %llu us\n", (int)(count > 0 ? count : 0), text, (unsigned long long)pnet_time_us(server));
    pnet_close(client);
    pnet_close(server);
    return count == 5 ? 0 : 1;
}
