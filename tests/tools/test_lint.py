"""tools/lint: each rule finds its fault, and accepts correct text."""
import pathlib
import subprocess

import pytest

from workshop.lints import asserts, comments, commits, core, files, lines, unused, words


def faults(source):
    return [message for comment in comments.c_comments(source) for _, message in words.findings_of_comment(comment)]


@pytest.mark.parametrize("comment", [
    "Returns true if the queue has room.", "RFC 9293 §3.10.7.4", "RFC 9293 §3.10.7.4: Answers a SYN.",
    "virtio 1.2 §2.1.1: bits are only ever added.", "Discusses `x`. It is 2.5 GHz, e.g. fast. The rest stays.",
    "Names the state."])
def test_a_comment_that_keeps_the_rules_passes(comment):
    assert not faults(f"/* {comment} */\nstatic void function(int x)\n{{\n}}\n")


@pytest.mark.parametrize("comment, expected", [
    ("The queue's room.", "third person"), ("Whether it has room.", "third person"), ("Bytes of it.", "third person"),
    ("This returns.", "third person"), ("RFC 9293 §3.10: what is sent.", "after the clause"),
    ("Returns it. What is left stays.", 'opens with "What"'), ("Begins anew.", '"again"'),
    ("Returns " + "a " * 29 + "b.", "31 words")])
def test_a_fault_of_a_function_s_comment_is_found(comment, expected):
    assert any(expected in message for message in faults(f"/* {comment} */\nvoid function(void);\n"))


@pytest.mark.parametrize("source", [
    "/* The room. */\nstatic int room = max(1, 2);\n", "/* The room. */\nstruct room {\n",
    "/* The room. */\n#define ROOM(x) x\n",
    "/* The room. */\n\nvoid apart(void);\n", '"/* What */"\n', "/* The room. */\ntypedef void (*room)(int);\n",
    "/* ring  head    tail    of a drawing that is no sentence " + "x " * 40 + "*/\n",
    "/*@ requires any words of a contract for Frama-C; */\nvoid function(void);\n"])
def test_a_comment_of_something_else_may_open_with_a_noun(source):
    assert not faults(source)


def test_the_line_of_a_fault_is_that_of_its_sentence():
    comment, = comments.c_comments("\n/* Returns one.\n * Two.\n *\n * Of three. */\nvoid f(void);\n")
    assert [line for line, _ in words.findings_of_comment(comment)] == [5]


def test_comments_of_other_languages_are_read():
    assert [c.text for c in comments.python_comments('"""A."""\n# B\n# C\nx = "# d"  # E\n')] == ["A.", "B\nC", "E"]
    assert [c.text for c in comments.line_comments("; A\n; B\n mov eax, 1 ; C\n", ";")] == ["A\nB", "C"]
    page = "# T\nA\nb\n\n- C\n- D\n```\ne\n```\n| f |\n"
    assert [c.text for c in comments.markdown_paragraphs(page)] == ["A\nb", "C", "D"]
    page = ".Sh NAME\n.Nm\nruns on\n.Ar host ,\nonce.\n.Pp\nB\n.Bd -literal\n$ c\n.Ed\n.TP\n" + \
        ".B init\nD \\fB\\-\\-e\\fR.\n"
    assert [(c.line, c.text) for c in comments.man_paragraphs(page)] == [
        (2, "\nruns on\nhost ,\nonce."), (7, "B"), (12, "init\nD --e.")]


def test_a_tree_without_git_has_the_same_files():
    assert files.unpacked(()) == files.tracked()
    assert files.unpacked(("docs", "VERSION")) == files.tracked("docs", "VERSION")
    made = [".git/config", "build/a.o", "me.conf", "crash-0a1b"]            # me.conf is README's
    assert list(map(files.is_made, map(pathlib.Path, [*made, "docs/example.conf"]))) == [True] * 4 + [False]


@pytest.mark.parametrize("subject", [
    "net/tcp: answer a SYN in SYN-SENT", "tests/e2e, tests/hosted: play servers that never close", "all: format C",
    "docs: address the reader"])
def test_a_subject_that_keeps_the_rules_passes(subject):
    assert commits.fault(subject) is None


@pytest.mark.parametrize("subject", [
    "net/tcp: answers a SYN", "net/tcp: answered a SYN", "net/tcp: answering a SYN", "net/tcp: the answer to a SYN",
    "Answer a SYN", "net/tcp: answer a SYN.", "net/tcp: answer " + "a" * 60])
def test_a_fault_of_a_subject_is_found(subject):
    assert commits.fault(subject)


@pytest.mark.parametrize("use, guard, late", [
    ("y = 1 / x;", "x > 0", True), ("y %= c->x;", "c->x != 0", True), ("y = a[x];", "x < SIZE && y", True),
    ("y = 1 / x->of;", "x > 0", False), ("p = &a[x];", "x < SIZE", False), ("y = 1 / x, x = 2;", "x > 0", False),
    ("if (x == n || a[x]) return;", "x < n", False), ("/* 1 / x */", "x > 0", False)])
def test_an_assertion_after_the_use_is_found(tmp_path, monkeypatch, use, guard, late):
    monkeypatch.setattr(files, "ROOT", tmp_path)
    (tmp_path / "f.c").write_text(f"int f(int x)\n{{\n    {use}\n    ASSERT({guard});\n    z = 1 / x;\n}}\n")
    assert [line for line, _ in asserts.findings("f.c")] == [1] * late


@pytest.mark.parametrize("name, source, count", [
    ("f.c", "/* a\n * b */\n\nint x; // c\n    \"/* d\"\n}\n", 3), ("f.asm", "; a\n\n  ; b\nnop ; c\n", 1)])
def test_lines_of_code_are_those_without_comments(tmp_path, monkeypatch, name, source, count):
    monkeypatch.setattr(files, "ROOT", tmp_path)
    (tmp_path / name).write_text(source)
    assert core.code_lines(name) == count


def test_a_core_past_its_limit_or_far_below_is_found():
    beside = (1, 0, -core.SLACK, -core.SLACK - 1)
    assert [len(list(core.findings(core.CORE_LINES_MAX + lines))) for lines in beside] == [1, 0, 0, 1]


def test_tests_past_their_limit_or_far_below_are_found(tmp_path, monkeypatch):
    beside = (1, 0, -core.TESTS_SLACK, -core.TESTS_SLACK - 1)
    assert [len(list(core.tests_findings(core.TESTS_LINES_MAX + lines))) for lines in beside] == [1, 0, 0, 1]
    (tmp_path / "tests").mkdir()
    for name, text in (("a.c", "/* c */\n\nint x;\n"), ("b.wire", "# d\n"), ("c.md", "no source\n")):
        (tmp_path / "tests" / name).write_text(text)
    monkeypatch.setattr(files, "ROOT", tmp_path)
    assert core.tests_lines() == 4


def test_every_file_of_the_product_has_a_kind():
    assert files.kind("net/tcp/fast.c") == "c" and files.kind("tools/lint") == "py" and files.kind("LICENSE") == ""
    assert not list(lines.findings("tools/workshop/lints/lines.py"))


def test_the_exit_status_is_0_without_findings_and_2_for_an_unknown_name():
    program = files.ROOT / "tools/lint"
    good = subprocess.run([program, "words", "lines", "tools/workshop/lints"], capture_output=True, text=True)
    assert (good.returncode, good.stdout) == (0, "")
    bad = subprocess.run([program, "no_such_thing"], capture_output=True, text=True, cwd="/")
    assert bad.returncode == 2 and "'no_such_thing' is neither" in bad.stderr


def telegrams(source):
    return [message for comment in comments.c_comments(source) for _, message in words.telegrams(comment)]


@pytest.mark.parametrize("source", [
    "int x; /* the room after the head */\n", "/* Itself a room, behind a bridge and behind the NAT. */\n",
    "/* Leaves no room behind. */\n", "/* Notes the room. It is empty. */\n",
    "/* " + "word " * 20 + "above its line. */\nint x;\n", "int x; /* " + "w " * 12 + "*/\n"])
def test_a_comment_that_stands_by_itself_passes(source):
    assert not telegrams(source)


@pytest.mark.parametrize("source, expected", [
    ("/* It is empty. */\n", '"It"'), ("int x; /* its room */\n", '"its"'), ("/* How long it waits. */\n", '"How"'),
    ("/* The same,\n * later. */\n", '"The same"'),
    ("int x; /* not used */\n", '"not"'), ("int x; /* or the room */\n", '"or"'),
    ("int x; /* " + "w " * 13 + "*/\n", "13 words"), ("/* Waits for\n * ever. */\n", '"for ever"'),
    ("/* The bytes behind the head. */\n", '"behind"'), ("/* At most so many rooms. */\n", '"so many"'),
    ("/* Sends what is left. */\n", '"what is"'), ("/* No such room. */\n", '"No such"')])
def test_a_telegram_is_found(source, expected):
    assert any(expected in message for message in telegrams(source)), telegrams(source)


def test_a_function_that_nothing_calls_is_found(tmp_path, monkeypatch):
    sources = {
        "a.c": "int main(void)\n{\n    return used();\n}\n\nint used(void) { return inner(); }\n",
        "b.c": "int inner(void)\n{\n    return 1; /* lost */\n}\n\nint lost(void) { return inner(); }\n",
        "b.h": "int lost(void);\nint called_by_lost(void);\n\nstatic inline int asked(void)\n{\n    return 1;\n}\n",
        "c.c": "int circle(void)\n{\n    return circle();\n}\n\nstatic int (*const table[])(void) = { listed };\n\n"
               "int listed(void)\n{\n    return 1;\n}\n\nvoid room_check(void)\n{\n}\n\nint kept(void)\n{\n}\n",
        "d.asm": "extern kept ; not lost\n"}
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(files, "ROOT", tmp_path)
    found, outside = unused.references(sources)
    assert [name for _, _, name in unused.unreached(found, outside)] == ["lost", "asked", "circle"]
