"""Functions of the product that nothing calls: neither an image, nor a program, nor the library, whatever the stack.

The lint reads the sources as words. A function is reached if its name stands in the body of a reached function, in a
table, in a macro or in assembly. A name that two files have is one name."""
import re

from workshop.lints import asserts, files

WORD = re.compile(r"\b[A-Za-z_]\w*\b")
# The head of a function at the left margin, up to the parenthesis: a prototype, or a definition.
HEAD = re.compile(r"^(?!#|typedef\b|return\b)[A-Za-z_][^\n;={}]*?\b([A-Za-z_]\w*)\(", re.MULTILINE)
# A definition on one line, with its body.
ONE_LINE = re.compile(r"^(?!#)[A-Za-z_][^\n;={}]*?\b([A-Za-z_]\w*)\([^\n{}]*\) \{(.*)\}$", re.MULTILINE)

# An invariant may be for tests alone; the sources of lwIP's core call the functions of its C library.
EXEMPT = re.compile(r"\w+_check(_\w+)?")
EXEMPT_FOLDER = "net/lwip/libc/"
# Functions that stay although only tests call them: the text of a state stands in the messages of tests; any program
# may join multicast groups.
KEPT = ("tcp_state_name", "transport_udp_leave")

# Called from outside: by the C library's start and by compilers. The library's interface is PNET_API.
ROOTS = ("main", "__popcountdi2", *KEPT)
EXPORTED = re.compile(r"^PNET_API\b[^;(]*?\b(\w+)\(", re.MULTILINE)


def references(names):
    """Returns {function: (file, line, words of its body)} and the words that stand outside of functions."""
    found, outside = {}, set(ROOTS)
    for name in names:
        source = (files.ROOT / name).read_text()
        if files.kind(name) == "asm":
            outside.update(WORD.findall(re.sub(r";.*", "", source)))
            continue
        outside.update(EXPORTED.findall(source))
        text = asserts.blank_comments(source)
        for line, function, body in asserts.functions(source):
            if function != "?":
                found.setdefault(function, (name, line, set()))[2].update(WORD.findall("\n".join(body)))
        for match in ONE_LINE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.setdefault(match[1], (name, line, set()))[2].update(WORD.findall(match[2]))
        outside.update(words_outside(ONE_LINE.sub("", text).split("\n")))
    return found, outside


def words_outside(lines):
    """Returns the words of tables and macros; the names that a prototype declares are left out."""
    inside, kept = False, []
    for line in lines:
        if line == "{":
            inside = True
        elif inside and line.startswith("}"):
            inside = False
        elif not inside:
            kept.append(line)
    text = "\n".join(kept)
    return set(WORD.findall(HEAD.sub("", text)))


def unreached(found, reached):
    """Yields (file, line, function) for each function that the words `reached` do not lead to."""
    new = reached = set(reached)
    while new:
        new = {word for name in new if name in found for word in found[name][2]} - reached
        reached |= new
    for name, (file, line, _) in sorted(found.items(), key=lambda item: item[1][:2]):
        if name not in reached and not EXEMPT.fullmatch(name) and not file.startswith(EXEMPT_FOLDER):
            yield file, line, name


def findings(folders):
    yield from unreached(*references(files.of_kind(folders, "c", "asm")))
