"""Comments of a source file, as text with line numbers. Knows the syntax of comments, and no rule for their words."""
import ast
import dataclasses
import io
import re
import tokenize

from workshop.lints import files

C_TOKEN = re.compile(r"""
    (?P<block>/\*.*?\*/) | (?P<line>//[^\n]*) | (?P<string>"(?:\\.|[^"\\\n])*") | (?P<char>'(?:\\.|[^'\\\n])*')
    """, re.VERBOSE | re.DOTALL)

# A definition or a prototype at the left margin: a type, a name, an open parenthesis before any `=`, `;` or `{`.
C_FUNCTION = re.compile(r"(?!typedef\b|static_assert\b|_Static_assert\b|return\b|else\b|extern const\b)"
                        r"[A-Za-z_][\w \t*\n]*?[ *](?P<name>[A-Za-z_]\w*)\(")
C_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)\s*", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Comment:
    line: int           # the first one
    text: str           # without the comment's marks; its lines are the file's lines
    function: str = ""  # the function that the comment stands above
    alone: bool = True  # no code on its first line

    def lines(self):
        return list(enumerate(self.text.split("\n"), self.line))


def c_comments(source):
    found = []
    for match in C_TOKEN.finditer(source):
        if match.lastgroup not in ("block", "line") or match.group().startswith("/*@"):  # a contract for Frama-C
            continue
        start, end = match.span()
        line_start = source.rfind("\n", 0, start) + 1
        alone = source[line_start:start].strip() == ""
        text = match.group()
        if text.startswith("/*"):
            text = "\n".join(re.sub(r"^[ \t]*\*(?!\*)[ \t]?", "", line) for line in text[2:-2].split("\n")).rstrip()
        else:
            text = text[2:]
        function = ""
        if alone and start == line_start and source[end:end + 1] == "\n" and source[end + 1:end + 2] != "\n":
            follower = C_FUNCTION.match(C_ATTRIBUTE.sub("", source[end + 1:end + 600]))
            function = follower["name"] if follower else ""
        found.append(Comment(source.count("\n", 0, start) + 1, text, function, alone))
    return merged(found, lambda c: c.alone and c.text.startswith("//"))


def merged(comments, may_merge):
    """Joins comments of one line each that stand on consecutive lines."""
    result = []
    for comment in comments:
        last = result[-1] if result else None
        if last and last.alone and may_merge(comment) and last.line + last.text.count("\n") + 1 == comment.line:
            result[-1] = dataclasses.replace(last, text=last.text + "\n" + comment.text)
        else:
            result.append(comment)
    return result


def line_comments(source, mark):
    """Reads comments from `mark` to the end of a line. A mark inside quotes is no comment."""
    found = []
    for number, line in enumerate(source.split("\n"), 1):
        at = re.search(rf"(^|\s){re.escape(mark)}+(?!!)", line)
        if not at or line[:at.start()].count('"') % 2 or line[:at.start()].count("'") % 2:
            continue
        found.append(Comment(number, line[at.end():].strip(), "", line[:at.start()].strip() == ""))
    return merged(found, lambda c: c.alone)


def python_comments(source):
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            alone = token.line[:token.start[1]].strip() == ""
            found.append(Comment(token.start[0], token.string.lstrip("#").strip(), "", alone))
    found = merged(found, lambda c: c.alone)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) or ast.get_docstring(node) is None:
            continue
        name = node.name if isinstance(node, ast.FunctionDef) else ""
        found.append(Comment(node.body[0].lineno, node.body[0].value.value, "" if name.startswith("test_") else name))
    return sorted(found, key=lambda c: c.line)


def markdown_paragraphs(source):
    """Returns the running text of a page: no code, no table, no heading. A list's entry is a paragraph."""
    found, fenced = [], False
    for number, line in enumerate(source.split("\n"), 1):
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
        if fenced or text.startswith(("```", "|", "#", "![", "<")) or not text:
            found.append(None)
        elif re.match(r"([-*+]|\d+\.) ", text) or not found or found[-1] is None:
            found.append(Comment(number, re.sub(r"^([-*+]|\d+\.) ", "", text)))
        else:
            found[-1] = dataclasses.replace(found[-1], text=found[-1].text + "\n" + text)
    return [c for c in found if c]


def man_paragraphs(source):
    """Returns the running text of a manual page. A macro for a font or a name is text; all others end a paragraph."""
    found, literal, ended = [], False, True
    for number, line in enumerate(source.split("\n"), 1):
        macro = re.match(r"\.(Ar|B|BR|Cm|Ev|Fl|I|Li|Nm|Pa|Pq|Ql|RB|Xr)\b", line)
        literal = literal and not line.startswith((".Ed", ".fi")) or line.startswith((".Bd", ".nf"))
        text = " ".join(re.sub(r"\\f[BIR]|\\&|\\(?=-)", "", line[macro.end() if macro else 0:]).split())
        if literal or line.startswith(".") and not macro:
            ended = True
        elif ended:
            found.append(Comment(number, text))
            ended = False
        else:
            joint = "" if re.match(r"[.,;:]( |$)", text) else "\n"
            found[-1] = dataclasses.replace(found[-1], text=found[-1].text + joint + text)
    return [dataclasses.replace(c, text=c.text.rstrip()) for c in found]


def comments_of(name):
    """Returns the comments of one file; of a page, its paragraphs. A file of an unknown kind has none."""
    kind = files.kind(name)
    source = (files.ROOT / name).read_text() if kind else ""
    if kind == "c":
        return c_comments(source)
    if kind == "py":
        return python_comments(source)
    if kind == "asm":
        return line_comments(source, ";")
    if kind == "md":
        return markdown_paragraphs(source)
    if kind == "man":
        return man_paragraphs(source)
    return line_comments(source, "#") if kind else []
