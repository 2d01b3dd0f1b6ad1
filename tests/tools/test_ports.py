"""tools/workshop/vm/ports.py: no port is given to two processes, or while a socket uses it."""
import pathlib
import socket
import subprocess
import sys

import pytest

from workshop.vm import ports


def test_two_processes_get_different_ports(monkeypatch):
    monkeypatch.setattr(ports, "LAST", ports.FIRST + 399)
    program = ("import sys\nfrom vm import ports\nports.LAST = ports.FIRST + 399\n"
               "print(*[ports.free_port(ports.UDP) for _ in range(100)], flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd=pathlib.Path(ports.__file__).parents[1]) as other:
        theirs = other.stdout.readline().split()
        ours = [ports.free_port(ports.UDP) for _ in range(100)]
        other.stdin.close()
    assert len({*map(int, theirs), *ours}) == 200


@pytest.mark.parametrize("kind", [ports.TCP, ports.UDP])
def test_a_port_in_use_is_not_given(monkeypatch, kind):
    with socket.socket(socket.AF_INET, kind) as sock:
        taken = ports.free_port(kind)
        sock.bind(("127.0.0.1", taken))
        ports._kept.pop().close()           # only the socket keeps the port now
        monkeypatch.setattr(ports, "FIRST", taken)
        monkeypatch.setattr(ports, "LAST", taken)
        with pytest.raises(OSError, match="no port is free"):
            ports.free_port(kind)
