"""libperegrine-net.so from Python, by its header (host/library/peregrine_net.h) alone."""
import ctypes

from tests.lib.paths import BUILD

NEVER = 2**64 - 1


class TcpInfo(ctypes.Structure):
    _fields_ = (
        [(f"tcpi_{name}", ctypes.c_uint8) for name in
         ("state", "ca_state", "retransmits", "options", "snd_wscale", "rcv_wscale")]
        + [(f"tcpi_{name}", ctypes.c_uint32) for name in
           ("rto", "rtt", "rttvar", "min_rtt", "snd_mss", "rcv_mss", "pmtu", "snd_cwnd", "snd_ssthresh", "unacked",
            "sacked", "lost", "total_retrans", "notsent_bytes", "unread_bytes", "snd_wnd", "rcv_wnd")]
        + [(f"tcpi_{name}", ctypes.c_uint64) for name in ("bytes_acked", "bytes_received")]
        + [(f"tcpi_{name}", ctypes.c_uint32) for name in ("retrans", "reordering", "advmss", "backoff", "probes")]
        + [(f"tcpi_{name}", ctypes.c_uint64) for name in ("rwnd_limited", "busy_time")]
        + [(f"tcpi_{name}", ctypes.c_uint32) for name in ("reord_seen", "last_data_recv")]
    )


def load():
    library = ctypes.CDLL(str(BUILD / "host/libperegrine-net.so"))
    library.pnet_open.restype = ctypes.c_void_p
    for name in ("pnet_time_us", "pnet_next_timer_us"):
        getattr(library, name).restype = ctypes.c_uint64
    for name in ("pnet_read", "pnet_write"):
        getattr(library, name).restype = ctypes.c_int64
    return library


LIBRARY = load()


class Net:
    """One stack. Socket calls return the library's result: 0, a count, or a negative errno."""

    def __init__(self, words):
        why = ctypes.c_char_p()
        self.handle = LIBRARY.pnet_open(words.encode(), ctypes.byref(why))
        if not self.handle:
            raise ValueError(why.value.decode())

    def __getattr__(self, name):
        function = getattr(LIBRARY, "pnet_" + name)
        return lambda *arguments: function(ctypes.c_void_p(self.handle), *arguments)

    def packets(self):
        buffer = ctypes.create_string_buffer(65536)
        while (count := self.packet_out(buffer, ctypes.c_size_t(len(buffer)))) > 0:
            yield buffer.raw[:count]

    def give(self, packet):
        return self.packet_in(packet, ctypes.c_size_t(len(packet)))

    def at(self, now_us):
        return self.set_time_us(ctypes.c_uint64(now_us))

    def send(self, socket, data):
        return self.write(socket, data, ctypes.c_size_t(len(data)))

    def receive(self, socket, room=65536, flags=0):
        """Returns the bytes, or the negative errno."""
        buffer = ctypes.create_string_buffer(room)
        count = self.read(socket, buffer, ctypes.c_size_t(room), flags)
        return buffer.raw[:count] if count >= 0 else count

    def dial(self, socket, address, port):
        return self.connect(socket, ctypes.c_uint32(address), ctypes.c_uint16(port))

    def serve(self, port, backlog=4):
        socket = self.socket()
        assert self.bind(socket, 0, ctypes.c_uint16(port)) == 0 and self.listen(socket, backlog) == 0
        return socket

    def option(self, socket, level, name):
        value = ctypes.c_int()
        result = self.get_option(socket, level, name, ctypes.byref(value))
        return value.value if result == 0 else result

    def info(self, socket):
        info = TcpInfo()
        assert self.tcp_info(socket, ctypes.byref(info)) == 0
        return info


class Wire:
    """Two stacks and a delay between them. `drop(packet, index)` returns true for a packet to lose."""

    def __init__(self, a, b, delay_us=1000, drop=lambda packet, index: False):
        self.ends, self.delay_us, self.drop = (a, b), delay_us, drop
        self.now_us, self.count, self.in_transit = 0, 0, []

    def collect(self):
        for side, end in enumerate(self.ends):
            for packet in end.packets():
                if not self.drop(packet, self.count):
                    self.in_transit.append((self.now_us + self.delay_us, self.count, 1 - side, packet))
                self.count += 1

    def run(self, for_us, done=lambda: False):
        """Runs the stacks until `for_us` have passed or `done()` is true."""
        until = self.now_us + for_us
        while not done():
            self.collect()
            due = [packet[0] for packet in self.in_transit] + [end.next_timer_us() for end in self.ends]
            if min(due) > until:
                break
            self.now_us = max(self.now_us, min(due))
            for end in self.ends:
                end.at(self.now_us)
            arrived = sorted(packet for packet in self.in_transit if packet[0] <= self.now_us)
            self.in_transit = [packet for packet in self.in_transit if packet[0] > self.now_us]
            for _, _, to, packet in arrived:
                self.ends[to].give(packet)
            for end in self.ends:
                if end.next_timer_us() <= self.now_us:
                    end.run_timers()
        else:
            return
        self.now_us = until
        for end in self.ends:
            end.at(until)
