"""Clients that submit as fast as they are answered, or at a rate, and one that reads the digits.

    python3 -m tests.contest.flood --input PORT --output PORT --rate 1000 --log FILE

Each submission has digits of its own. The log, written when the server has ended, is a JSON object: `answered` has
digits and CLOCK_MONOTONIC of each response, `digits` all that was read. """
import argparse
import json
import select
import socket
import time

LEFT_S = 60             # a server that does not end is killed


class Client:
    def __init__(self, number, port, body_bytes):
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name, self.body_bytes = f"flood-{number}", body_bytes
        self.under_way, self.rest = [], b""

    def submit(self, digits):
        body = digits.ljust(self.body_bytes, "x")
        self.sock.sendall(f"POST /submit?user={self.name}&passwd=p HTTP/1.1\r\nHost: x\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self.under_way.append(digits)

    def take(self, data):
        """Returns the digits of the submissions that these bytes answer."""
        self.rest += data
        *lines, self.rest = self.rest.split(b"wrong: ")
        answered, self.under_way = self.under_way[:len(lines)], self.under_way[len(lines):]
        return answered


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--input", type=int, required=True)
    add("--output", type=int, required=True)
    add("--clients", type=int, default=6)
    add("--rate", type=float, default=0, help="submissions a second of all (default: as fast as responses come)")
    add("--window", type=int, default=4, help="submissions of a client without a response")
    add("--bytes", type=int, default=0, help="of a submission, at least")
    add("--log", required=True)
    options = parser.parse_args()
    feed = socket.create_connection(("127.0.0.1", options.input))
    clients = {}
    for number in range(options.clients):
        client = Client(number, options.output, options.bytes)
        clients[client.sock.fileno()] = client
    print("ready", flush=True)
    text, answered, sent = b"", [], 0
    poll = select.poll()
    for number in (feed.fileno(), *clients):
        poll.register(number, select.POLLIN)
    began = time.monotonic()
    try:
        while (now := time.monotonic()) < began + LEFT_S:
            due = (now - began) * options.rate if options.rate else sent + options.clients * options.window
            for client in sorted(clients.values(), key=lambda client: len(client.under_way)):
                while sent < due and len(client.under_way) < options.window:
                    client.submit(str(10**9 + 2 * sent + 1))
                    sent += 1
                    if options.rate:
                        break
            for number, _ in poll.poll(1):
                client = clients.get(number)
                data = (client.sock if client else feed).recv(65536)
                if not data:
                    raise ConnectionResetError
                if client:
                    answered += [(digits, time.monotonic_ns()) for digits in client.take(data)]
                else:
                    text += data
    except ConnectionError:
        pass
    with open(options.log, "w", encoding="ascii") as file:
        json.dump({"answered": answered, "digits": text.split(b"\r\n\r\n", 1)[-1].decode()}, file)


if __name__ == "__main__":
    main()
