/* The network of a replay: net/transport.h without sockets. The replay says what comes, and gets what leaves.
 * Connections are known by the peer's address, so that a recorded peer may answer before the program asks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/transport.h"

enum { NETWORK_PEER_COUNT_MAX = 8, NETWORK_STREAM_BYTES = 1 << 18 };

/* Returns the connection of a peer, which may not be asked for yet; -1: there are NETWORK_PEER_COUNT_MAX others. */
int network_peer(uint32_t address, uint16_t port);

/* Lets the peer accept the connection, now or when it is asked for; send bytes; end its side; or be gone. The bytes are
 * copied. Returns false if NETWORK_STREAM_BYTES wait. */
void network_accept(int connection);
bool network_send(int connection, struct bytes data);
void network_end(int connection);
void network_lose(int connection, enum transport_reason reason);

/* Lets the program send a number of further messages (SoupBinTCP's unsequenced packets) to the peer. From the first
 * call on, others find the connection full. */
void network_allow(int connection, uint32_t messages);

/* Gives the program a datagram, borrowed until transport_poll returns false. Returns false if nobody has bound its
 * port. */
bool network_datagram(const struct transport_event *datagram);
bool network_is_bound(uint16_t port);

/* Begins a turn of the program. Returns this machine's time from the turn's latest packet to the latest message; 0: no
 * packet came in the turn. */
void network_begin_turn(void);
uint64_t network_ns(uint64_t tsc_khz);

/* Receivers of what the program does, which the replay defines: it asks for a connection, or sends a message. */
void network_on_connect(int connection, uint32_t address, uint16_t port);
void network_on_message(int connection, struct bytes message, uint64_t now_ns);
