"""Ports of this host's loopback that lead to a machine in a network namespace of its own.

A socket belongs to the namespace that it was made in. `listen` makes the sockets; the process that then runs in the
machine's namespace relays what comes to them."""
import asyncio
import socket
import threading

from workshop.vm import ports

TYPES = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
CLIENT_COUNT_MAX = 256          # for each UDP port; the oldest is forgotten
CHUNK_BYTES = 65536


def bind(kind, port):
    """Returns a socket at this port of the loopback, or at a free one if the port cannot be had."""
    for number in (port, None):
        bound = socket.socket(socket.AF_INET, TYPES[kind])
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == "tcp"))
        try:
            bound.bind(("127.0.0.1", number or ports.free_port(TYPES[kind])))
            return bound
        except OSError:
            bound.close()
            if number is None:
                raise


def listen(kind, port):
    """Returns a socket that is kept when the process runs another program."""
    bound = bind(kind, port)
    if kind == "tcp":
        bound.listen()
    bound.set_inheritable(True)
    return bound


async def pump(reader, writer):
    """Copies one direction of a connection to its end."""
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def relay_connection(client, to_client, address):
    try:
        machine, to_machine = await asyncio.open_connection(*address)
    except OSError:
        to_client.transport.abort()         # a reset, as the machine's
        return
    await asyncio.gather(pump(client, to_machine), pump(machine, to_client))
    to_machine.close()
    to_client.close()


class Back(asyncio.DatagramProtocol):
    """The machine's answers to one client."""

    def __init__(self, front, client):
        self.front, self.client = front, client

    def datagram_received(self, data, _):
        self.front.transport.sendto(data, self.client)


class Front(asyncio.DatagramProtocol):
    """Datagrams of clients, each of whom the machine sees as a port of its own."""

    def __init__(self, address):
        self.address, self.backs, self.transport = address, {}, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, client):
        asyncio.get_running_loop().create_task(self.forward(data, client))

    async def forward(self, data, client):
        if client not in self.backs:
            if len(self.backs) >= CLIENT_COUNT_MAX:
                self.backs.pop(next(iter(self.backs))).close()
            self.backs[client], _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: Back(self, client), remote_addr=self.address)
        self.backs[client].sendto(data)


async def relay_all(sockets):
    loop, kept = asyncio.get_running_loop(), []
    for kind, bound, address in sockets:
        bound.setblocking(False)
        if kind == "tcp":
            kept.append(await asyncio.start_server(lambda r, w, to=address: relay_connection(r, w, to), sock=bound))
        else:
            kept.append(await loop.create_datagram_endpoint(lambda to=address: Front(to), sock=bound))
    await asyncio.Event().wait()


def start(sockets):
    """Relays in the background until the process ends.

    `sockets` are (kind, a socket of `listen`, the machine's address)."""
    threading.Thread(target=lambda: asyncio.run(relay_all(sockets)), daemon=True).start()
