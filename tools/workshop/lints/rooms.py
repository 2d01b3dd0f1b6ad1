"""The rooms of the product and of tools/, and the rooms that each may include. tests/structure holds the code to these
tables, and tools/workshop/figures.py draws docs/rooms.svg from the first."""

# From the top down: a room includes itself and the rooms named here.
MAY_INCLUDE = {
    "image": ("app", "net", "drivers", "kernel", "base"),
    "host": ("app", "net", "base"),
    "app": ("net", "base"),
    "net": ("base",),
    "drivers": ("kernel", "base"),
    "kernel": ("base",),
    "base": (),
}

# The rooms of tools/, and the rooms whose packages each may import: what an operator uses, the servers, the workshop.
# The commands at the top of tools/ import from all three, and all three from command_line.py and latencies.py there.
TOOLS_MAY_IMPORT = {"workshop": ("servers", "deploy"), "servers": (), "deploy": ()}

# The kernel that one reads, in an order to read it in: a program, then down to the machine and up to the network.
CORE = ("app/program.h", "app/echo", "image", "boot", "kernel", "drivers", "base", "net", "app/service")
CORE_LEFT_OUT = ("net/lwip/",)
# Lines of code, without comments and blank lines; `tools/lint core` prints them. More is a decision, and its reason
# stands in the commit.
CORE_LINES_MAX = 28_000
# Lines of tests/, with comments: sources, scripts and timelines. This number may only become smaller.
TESTS_LINES_MAX = 84_200

# Single headers of a further room: (room, that room): header.
ONE_HEADER = {("drivers", "net"): "net/netdev.h", ("host", "kernel"): "kernel/settings.h"}


def may_include(room, header):
    """Returns true if the rooms alone allow that a file of a room includes a header."""
    target = header.split("/")[0]
    return target == room or target in MAY_INCLUDE[room] or header == ONE_HEADER.get((room, target))


def arrows():
    """Returns (upper, lower) pairs: the fewest from which the table follows."""
    return [(upper, lower) for upper, below in MAY_INCLUDE.items() for lower in below
            if not any(lower in MAY_INCLUDE[between] for between in below)]
