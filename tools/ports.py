"""Free ports for programs that are told theirs before they bind it.

What the kernel gives to a socket without a port of its own, and gets back when that is closed, is anybody's a moment later.
So these lie below those, and each stays with the process that asked until it ends: by a name in the abstract namespace of
Unix sockets (unix(7)), which belongs to the network namespace, as ports do. Whoever asks meanwhile gets another one."""
import random
import socket

FIRST, LAST = 12000, 19999      # below the contest servers' (20000 to 32001) and the ephemeral ones (32768 and on)
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM

_kept = []


def free_port(*kinds):
    """A port at which nobody is, with TCP or UDP or both."""
    for port in random.SystemRandom().sample(range(FIRST, LAST + 1), LAST + 1 - FIRST):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0a port of peregrine's tests: {port}")
            for kind in kinds:
                with socket.socket(socket.AF_INET, kind) as sock:
                    sock.bind(("", port))
        except OSError:
            name.close()
            continue
        _kept.append(name)
        return port
    raise OSError("no port is free")
