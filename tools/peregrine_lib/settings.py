"""The settings words (docs/settings.md), as far as the deployment must read and add to them. The kernel judges them;
here only what would keep the flight from starting is caught early: words twice, a key missing, a name not resolved."""
import ipaddress
import re

REQUIRED = ("feed", "submit", "user", "passwd", "n", "m", "key")
ENDPOINTS = ("feed", "submit", "log")       # IP:PORT values, where the user may write host names
CONTROL_PORT = 18247


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
    text = words.get("control.port", str(CONTROL_PORT))
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
    missing = [key for key in REQUIRED if key not in words]
    if missing == ["key"]:
        raise SettingsError(f"{source}: there is no key=, so the machine could not be told to come back. "
                            "Make one with: echo key=0x$(openssl rand -hex 32)")
    if missing:
        raise SettingsError(f"{source}: missing: {', '.join(key + '=' for key in missing)} (docs/settings.md)")
    for key in ("user", "passwd", "key"):
        if not words[key].isprintable():
            raise SettingsError(f"{source}: {key}= holds bytes that are not printable")
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
