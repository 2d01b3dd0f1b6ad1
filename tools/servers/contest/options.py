"""The options of a contest server: where it listens, how it sends, what it keeps."""
import dataclasses

from servers.contest.plan import Plan, Users
from servers.contest.rounds import ONLINE, Round


@dataclasses.dataclass
class Options:
    round: Round = ONLINE
    seed: str = "1"
    rate: float = 1.0               # answers a second
    burst: tuple = (50, 300)        # digits
    interval_s: tuple = (0.2, 0.5)
    body: str = "raw"               # raw | chunked
    start: str = "push"             # push soon after connect | wait for the request
    begin: str = "now"              # the first burst: now | player (once an input connection is there)
    duration_s: float = 0           # length of the stream from its first burst; 0: no end
    bursts: int = 0                 # length of the stream in bursts, on any machine; 0: no end
    close_after: int = 0            # bursts after which both players' connections end; 0: never
    close_how: str = "fin"          # fin | rst
    close_wait_s: float = 0         # after the burst; 0: half a pause
    close_for_s: float = 0          # nobody is let in again for so long
    split: bool = False             # the input port's bytes go out in odd pieces
    bind: str = "0.0.0.0"
    port_base: int = 10000          # 0: any three free ports
    record: str = ""
    users: dict = None              # name -> password; None: anybody
    store: str = ""                 # the file's plan stands for round, seed, rate, burst, interval_s and users
    digits: str = ""                # a record whose bursts are played again
    pages: bool = True              # False: the first port is left to the board
    idle_s: float = 120             # a connection without a completed request for so long ends
    share: int = 250                # connections of one address at once, of CONNECTION_COUNT_MAX in all


def plan_of(options):
    """Returns the plan of a contest without a store."""
    return Plan(rounds=((0.0, options.round),), users=None if options.users is None else Users.of(options.users),
                **{key: getattr(options, key) for key in ("seed", "rate", "burst", "interval_s")})
