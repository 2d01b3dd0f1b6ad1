"""The memory of a boot on this side: where its crash record lies. By kexec nothing of that stands on HOST.

A file for each HOST in $XDG_STATE_HOME/peregrine (~/.local/state/peregrine), by the name that the user gave."""
import json
import os
import pathlib
import sys
import urllib.parse


def file_of(name):
    home = pathlib.Path(os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local/state")
    return home / "peregrine" / (urllib.parse.quote(name.rpartition("@")[2], safe="") + ".json")


def remember(name, regions):
    path = file_of(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"regions": regions}) + "\n")
        new.replace(path)
    except OSError as error:
        print(f"warning: {path}: {error.strerror}; the place of the crash record is not remembered\n"
              f"    peregrine record --regions {','.join(f'0x{a:x},{size}' for a, size in regions)}", file=sys.stderr)


def regions_of(name):
    """Returns the (address, bytes) pairs of the last boot of HOST from here; empty if none is known."""
    try:
        regions = json.loads(file_of(name).read_text())["regions"]
        return [(int(address), int(size)) for address, size in regions]
    except (OSError, ValueError, KeyError, TypeError):
        return []
