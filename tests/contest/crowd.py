"""Many players in one process, for load and for screenshots. They know the seed, so that they need no matcher.

    python3 -m tests.contest.crowd --input PORT --output PORT --players 100 --submissions 10 --seconds 8 --log FILE

Each player reads the digits over a connection of its own, and submits the answers in them after a random time around
its own median. Some players submit early. Each player adds wrong submissions up to `--submissions` a second. The log
has a line for each submission: user, digits, and CLOCK_MONOTONIC before and after its send. """
import argparse
import contextlib
import heapq
import itertools
import json
import os
import random
import select
import socket
import time

from servers.contest import rounds
from servers.contest.oracle import Oracle
from servers.contest.stream import Stream

NAMES = ("swift", "heron", "otter", "lynx", "ibis", "marten", "pika", "kestrel", "newt", "stoat", "vole", "wren")
QUIET_S = 0.03          # between two submissions of a player
AHEAD = 3               # bursts whose answers are known before they come


class Player:
    def __init__(self, number, options, draw):
        self.name = NAMES[number] if number < len(NAMES) else f"player-{number}"
        self.median_s = 0.00015 * 1.9 ** min(number, 9) * draw.uniform(0.8, 1.2)
        self.early = (0.3, 0.2, 0.0, 0.1)[number] if number < 4 else 0.0
        self.misses = 0.02 * min(number, 10)
        own = f"127.0.{1 + number // 200}.{1 + number % 200}", 0     # players have machines of their own
        self.feed = socket.create_connection(("127.0.0.1", options.input), source_address=own)
        self.output = socket.create_connection(("127.0.0.1", options.output), source_address=own)
        for sock in (self.feed, self.output):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
        self.received = 0           # digits
        self.head = b""             # the response's, until it is whole
        self.quiet_until = 0.0
        self.at = 0                 # the burst that comes next


class Future:
    """The bursts to come and their answers."""

    def __init__(self, options):
        self.round = rounds.load_round(options.round)
        self.stream = Stream(self.round, options.seed, options.rate, options.burst, options.interval_s)
        self.oracle = Oracle(self.round.n, self.round.constants)
        self.bursts, self.ends = [], []

    def answers(self, index):
        while len(self.bursts) <= index:
            burst = self.stream.next_burst()
            self.bursts.append([o.digits for o in self.oracle.push(burst.digits)])
            self.ends.append(burst.position + len(burst.digits))
        return self.bursts[index]


class Crowd:
    def __init__(self, options):
        self.options, self.future = options, Future(options)
        self.draw = random.Random(f"crowd {options.seed}")
        self.players = [Player(i, options, self.draw) for i in range(options.players)]
        self.epoll, self.timers, self.count = select.epoll(), [], itertools.count()
        self.by_file = {}
        for player in self.players:
            self.by_file[player.feed.fileno()] = player.feed, player
            self.by_file[player.output.fileno()] = player.output, None
        for number in self.by_file:
            self.epoll.register(number, select.EPOLLIN)
        self.log, self.ended = [], False
        self.said = set()           # (player, digits)

    def after(self, seconds, call):
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.count), call))

    def run(self):
        end = time.monotonic() + self.options.seconds
        for player in self.players:
            self.after(self.draw.uniform(0.5, 1.5), lambda player=player: self.fill(player))
        while time.monotonic() < end and not self.ended:
            wait_s = max(min(self.timers[0][0], end) - time.monotonic(), 0) if self.timers else 0.1
            for number, _ in self.epoll.poll(wait_s):
                self.read(*self.by_file[number])
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()

    def read(self, sock, player):
        try:
            data = sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.ended = True
        elif player:
            self.take(player, data)

    def take(self, player, data):
        if player.head is not None:
            player.head += data
            if b"\r\n\r\n" not in player.head:
                return
            data, player.head = player.head.split(b"\r\n\r\n", 1)[1], None
        player.received += len(data)
        self.future.answers(player.at + AHEAD)
        while self.future.ends[player.at] <= player.received:
            for digits in self.future.answers(player.at):
                self.plan(player, digits, player.median_s * self.draw.lognormvariate(0, 0.35))
            for digits in self.future.answers(player.at + 1):
                if self.draw.random() < player.early:
                    self.plan(player, digits, self.draw.uniform(0.02, 0.1))
            player.at += 1
            self.future.answers(player.at + AHEAD)

    def plan(self, player, digits, wait_s):
        if (player.name, digits) not in self.said:
            self.said.add((player.name, digits))
            if self.draw.random() >= player.misses:
                self.after(wait_s, lambda: self.submit(player, digits))

    def fill(self, player):
        """Sends wrong submissions, so that the number of submissions a second is reached."""
        if self.options.submissions:
            self.submit(player, f"{self.draw.randrange(10**9, 10**10)}")
            self.after(self.draw.uniform(0.5, 1.5) / self.options.submissions, lambda: self.fill(player))

    def submit(self, player, digits):
        """Sends a submission. A player's submissions keep apart: TCP stamps merged data with the latest arrival."""
        now = time.monotonic()
        if now < player.quiet_until:
            self.after(player.quiet_until - now, lambda: self.submit(player, digits))
            return
        player.quiet_until = now + QUIET_S
        request = (f"POST /submit?user={player.name}&passwd=p HTTP/1.1\r\nHost: x\r\n"
                   f"Content-Length: {len(digits)}\r\n\r\n{digits}").encode()
        before_ns = time.monotonic_ns()
        player.output.send(request)
        self.log.append((player.name, digits, before_ns, time.monotonic_ns()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--input", type=int, required=True)
    add("--output", type=int, required=True)
    add("--players", type=int, default=100)
    add("--submissions", type=float, default=0, help="wrong ones a second, for each")
    add("--seconds", type=float, default=10)
    add("--round", default="online")
    add("--seed", default="1")
    add("--rate", type=float, default=1.0)
    add("--burst", type=int, nargs=2, default=(50, 300))
    add("--interval", type=float, nargs=2, default=(0.2, 0.5), dest="interval_s")
    add("--log", default="")
    options = parser.parse_args()
    with contextlib.suppress(PermissionError):      # players have machines of their own
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    crowd = Crowd(options)
    print("ready", flush=True)
    crowd.run()
    if options.log:
        with open(options.log, "w", encoding="ascii") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in crowd.log)


if __name__ == "__main__":
    main()
