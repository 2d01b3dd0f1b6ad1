"""The settings words (docs/settings.md), as far as the deployment must read and add to them. The kernel's own parser
judges them, before anything is copied: host/check_settings.c."""
import ipaddress
import re
import subprocess
import sys

from command_line import COMMANDS
from deploy import control, programs

BYTES_MAX = 16383                           # size of the settings in the kernel
# Settings of the form IP:PORT, where the user may write host names.
ENDPOINTS = ("feed", "submit", "log", "echo", "orders", "orders.b", "rerequest", "snapshot")
SECRETS = ("passwd", "key")
KEY = re.compile(r"[a-z][a-z0-9.]{0,19}")   # others may be parts of a secret, and are not shown
ANY_ADDRESS = "192.0.2.1"                   # RFC 5737: stands for an unknown value
HANDED_OVER = "# handed over from Linux"
PROGRAM = "# program "          # the first line of an installed settings file, and a name


class SettingsError(Exception):
    """The configuration cannot be used; the message names the word."""


def read(path, parser=None):
    """Returns the words of a configuration file. Raises SettingsError, or OSError with the file's name."""
    try:
        return (parser or parse)(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: no text in UTF-8") from None


def load(path, parser=None):
    """Returns the words of a configuration file, as `read`. Warns if others can read a secret in it."""
    words = read(path, parser)
    mode = path.stat().st_mode & 0o777
    if mode & 0o077 and any(words.get(key) for key in SECRETS):
        print(f"warning: {path} holds secrets, and others can read it (mode {mode:04o})\n    chmod 600 {path}",
              file=sys.stderr)
    return words


def control_port(words):
    """Returns the control channel's port. Raises SettingsError."""
    text = words.get("control.port", str(control.PORT))
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise SettingsError(f"control.port={text}: a port is 1 to 65535")
    return int(text)


def parse(text, source):
    """Returns the words of a configuration, in order. `#` at the start of a word begins a comment to the line's end.

    Lines and white space are the kernel's (base/settings.c); Python's own also end at other characters."""
    if "\0" in text:
        raise SettingsError(f"{source}: holds a NUL, where the kernel would stop reading")
    words = {}
    for line in text.split("\n"):
        before = ""
        for word in re.findall("[^ \t-\r]+", line):
            if word.startswith("#"):
                break
            key, equals, value = word.partition("=")
            if not equals:
                after = f"the word after {before}=" if before else "a word"
                raise SettingsError(f"{source}: {after} ({len(word)} characters, not shown) is not a key=value word; "
                                    f"values have no blanks")
            if key in words:
                raise SettingsError(f"{source}: {key if KEY.fullmatch(key) else 'a key'}= is given twice")
            words[key], before = value, key if key in (*SECRETS, *ENDPOINTS) else ""
    return words


def parse_key(text, source):
    """Returns the words of a configuration with a key=. A text whose first line is a single word is the key alone."""
    try:
        words = parse(text, source)
    except SettingsError:
        first = text.split("\n", 1)[0].split()
        if len(first) != 1 or "=" in first[0]:
            raise
        return {"key": first[0]}
    if "key" not in words:
        raise SettingsError(f"{source}: there is no key= in it")
    return words


def check(words, source, program=programs.PLAYER):
    """Raises SettingsError if the kernel would refuse the words, or could not be commanded to come back."""
    if "key" not in words:
        raise SettingsError(f"{source}: there is no key=, so the machine could not be called back. "
                            f"Make one with: {COMMANDS}peregrine key {source}")
    for key in ENDPOINTS:
        for part in words.get(key, "").split(",") if key in words else []:
            if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:\d{1,5}", part):
                raise SettingsError(f"{source}: {key}=: {part!r} is not HOST:PORT")
    network = additions(words, {"ip": "192.0.2.2/24", "gw": ANY_ADDRESS, "lease": f"1@{ANY_ADDRESS}"})
    ask_the_kernel(compose(words, dict.fromkeys(host_names(words), ANY_ADDRESS), network, program), source, program)


def ask_the_kernel(text, source, program):
    """Raises SettingsError with the message of the program's own parser if it refuses the text."""
    parser = programs.parser_of(program)
    try:
        done = subprocess.run([parser, source], input=text, capture_output=True, text=True, timeout=60)
    except OSError as error:
        raise SettingsError(f"{parser}: {error.strerror}; build it with `{programs.make_of(program)}`") from None
    if done.returncode:
        raise SettingsError(done.stderr.strip().removeprefix("settings, ").removeprefix("settings: ") or
                            f"{parser} ended with {done.returncode}")


def is_address(host):
    try:
        ipaddress.IPv4Address(host)
        return True
    except ValueError:
        return False


def host_names(words):
    """Returns the names that HOST has to resolve, because the kernel does not."""
    parts = [part.rpartition(":")[0] for key in ENDPOINTS if key in words for part in words[key].split(",")]
    return sorted({part for part in parts if not is_address(part)})


def additions(words, found):
    """Returns the words that Linux knows (`found`) and that the user's own words leave open."""
    left = {key: value for key, value in found.items() if key not in words}
    if words.get("ip") == "dhcp":           # the lease names the gateway
        left.pop("gw", None)
    if words.get("ip") == "dhcp" or words.get("gw", found.get("gw")) != found.get("gw"):
        left.pop("gwmac", None)
    if "ip" in words:                       # the lease is of Linux's address
        left.pop("lease", None)
    if words.get("ip") != "dhcp" and "lease" not in {**words, **left}:
        left.pop("dhcp.send", None)         # nobody asks a DHCP server
    return left


def compose(words, addresses, added, program):
    """Returns the text of the settings file: the program's name as a comment, the user's words with addresses for
    names, then the added ones.

    The same input gives the same bytes."""
    def endpoint(part):
        host, _, port = part.rpartition(":")
        return f"{addresses.get(host, host)}:{port}"

    lines = [PROGRAM + programs.name_of(program)]
    for key, value in words.items():
        if key in ENDPOINTS:
            value = ",".join(endpoint(part) for part in value.split(","))
        lines.append(f"{key}={value}")
    lines.append(HANDED_OVER)
    lines += [f"{key}={value}" for key, value in added.items()]
    return "\n".join(lines) + "\n"


def program_of(text):
    """Returns the program of an installed settings file."""
    found = re.match(f"{PROGRAM}([a-z0-9_]+)\n", text)
    return found[1] if found else programs.PLAYER


def handed_over(text):
    """Returns the words that `install` added to an installed settings file."""
    return parse(text.partition(HANDED_OVER)[2], "/boot/peregrine/settings")


def own(text):
    """Returns the user's words of an installed settings file, where names are addresses already."""
    return parse(text.partition(HANDED_OVER)[0], "/boot/peregrine/settings")


def alike(words, installed):
    """Returns true if the `installed` words may come of an install of `words`: a name stands for any address."""
    def endpoint(ours, theirs):
        host, _, port = ours.rpartition(":")
        return theirs == ours if is_address(host) else theirs.rpartition(":")[2] == port

    def value(key):
        ours, theirs = words[key], installed[key]
        if key not in ENDPOINTS or ours.count(",") != theirs.count(","):
            return ours == theirs
        return all(map(endpoint, ours.split(","), theirs.split(",")))
    return words.keys() == installed.keys() and all(map(value, words))
