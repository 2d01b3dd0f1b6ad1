"""The settings words (docs/settings.md), as far as the deployment must read and add to them. The kernel judges them;
here what would most often end the flight at once is caught early: keys unknown, twice or missing, a malformed game, a
name not resolved."""
import ipaddress
import re

import peregrine_control as control

# Those of app/settings_keys.c; tests/deploy/test_words.py holds them equal.
KEYS = ("feed", "feeds", "submit", "user", "passwd", "n", "m", "simd", "early", "early.risk", "ip", "gw", "gwmac", "mtu",
        "rto.min", "net.timeout", "server.timeout", "feed.timeout", "deadline", "idle.timeout", "breaker",
        "breaker.window", "breaker.linger", "key", "control.port", "http.port", "wait", "cpus", "log", "watchdog",
        "tsc.khz", "blackbox", "test.trap", "test.after", "test.rungs")
REQUIRED = ("feed", "submit", "user", "passwd", "n", "m", "key")
ENDPOINTS = ("feed", "submit", "log")       # IP:PORT values, where the user may write host names


class SettingsError(Exception):
    """The configuration cannot be used; the message names the word."""


def load(path):
    """The words of a configuration file. Raises SettingsError, or OSError with the file's name."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: no text in UTF-8") from None


def control_port(words):
    """Where the control channel is. Raises SettingsError."""
    text = words.get("control.port", str(control.PORT))
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise SettingsError(f"control.port={text}: a port is 1 to 65535")
    return int(text)


def parse(text, source):
    """The words of a configuration, in order. `#` at the start of a word is a comment to the end of its line."""
    words = {}
    for line in text.splitlines():
        for word in line.split():
            if word.startswith("#"):
                break
            key, equals, value = word.partition("=")
            if not equals:
                raise SettingsError(f"{source}: {word!r} is not a key=value word")
            if key in words:
                raise SettingsError(f"{source}: {key}= is given twice")
            words[key] = value
    return words


def check(words, source):
    """Raises SettingsError if the flight could not be played, or not be ended from outside."""
    for key in words:
        if key not in KEYS:
            raise SettingsError(f"{source}: {key}=: there is no such key (docs/settings.md)")
    missing = [key for key in REQUIRED if key not in words]
    if missing == ["key"]:
        raise SettingsError(f"{source}: there is no key=, so the machine could not be told to come back. "
                            "Make one with: echo key=0x$(openssl rand -hex 32)")
    if missing:
        raise SettingsError(f"{source}: missing: {', '.join(key + '=' for key in missing)} (docs/settings.md)")
    for key in ("user", "passwd", "key"):
        if not words[key].isprintable():
            raise SettingsError(f"{source}: {key}= holds bytes that are not printable")
    try:
        control.key_from_text(words["key"])
    except ValueError as error:
        raise SettingsError(f"{source}: key=: {error}") from None
    for key, form in (("n", r"[0-9]+"), ("m", r"[1-9][0-9]*(,[1-9][0-9]*)*")):
        if not re.fullmatch(form, words[key]):
            raise SettingsError(f"{source}: {key}=: {words[key]!r} is malformed (docs/settings.md)")
    for key in ENDPOINTS:
        for part in words.get(key, "").split(",") if key in words else []:
            if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:\d{1,5}", part):
                raise SettingsError(f"{source}: {key}=: {part!r} is not HOST:PORT")


def is_address(host):
    try:
        ipaddress.IPv4Address(host)
        return True
    except ValueError:
        return False


def host_names(words):
    """The names that HOST has to resolve, because the kernel does not."""
    parts = [part.rpartition(":")[0] for key in ENDPOINTS if key in words for part in words[key].split(",")]
    return sorted({part for part in parts if not is_address(part)})


def compose(words, addresses, handed_over):
    """The text of the settings file: the user's words with addresses for names, then what Linux knows and the user did
    not say. The same input gives the same bytes."""
    def endpoint(part):
        host, _, port = part.rpartition(":")
        return f"{addresses.get(host, host)}:{port}"

    lines = []
    for key, value in words.items():
        if key in ENDPOINTS:
            value = ",".join(endpoint(part) for part in value.split(","))
        lines.append(f"{key}={value}")
    lines.append("# handed over from Linux")
    lines += [f"{key}={value}" for key, value in handed_over.items() if key not in words]
    return "\n".join(lines) + "\n"
