"""Free ports for programs that need a port's number before they bind it.

The kernel gives a free port to a socket that names none. Once that socket is closed, anybody may get the port. The
ports here lie below the kernel's range. Each stays with the process that asked, until the process ends: the process
holds a name in the abstract namespace of Unix sockets (unix(7)). That namespace belongs to the network namespace, as
ports do. Another process that asks meanwhile gets another port."""
import random
import socket

FIRST, LAST = 12000, 19999      # below the contest servers' (20000 to 32001) and the ephemeral (from 32768)
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM

_kept = []


def free_port(*kinds):
    """Returns a port at which nobody is, with TCP or UDP or both."""
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
