"""A UDP server on a thread of its own: a subclass says what is done with a datagram."""
import threading


class UdpServer:
    def __init__(self, sock):
        """`sock` is bound, and closed at the end."""
        self.sock, self.stopping = sock, False
        self.sock.settimeout(0.2)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        """What has come until now is still taken."""
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
