"""A UDP server on a thread of its own. A subclass handles each datagram in its method `take`."""
import threading


class UdpServer:
    def __init__(self, sock):
        """Takes a bound socket, and closes the socket at the end."""
        self.sock, self.stopping = sock, False
        self.sock.settimeout(0.2)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        """Stops after the datagrams that have come until now."""
        self.stopping = True
        self.thread.join(5)
        self.sock.close()

    def _serve(self):
        while True:
            try:
                data, _ = self.sock.recvfrom(4096)
            except TimeoutError:
                if self.stopping:
                    return
                continue
            self.take(data)
