"""The rules for commit subjects: `area: imperative verb ...`, at most 60 characters."""
import re
import subprocess

from workshop.lints import files

SUBJECT_MAX = 60
COMMITS_MAX = 50

NOT_IMPERATIVE = frozenset("""
    a an the this that these those it its what whether of where when how no not one each every all some there
    """.split())
# These end like another form of a verb, and are imperatives.
IMPERATIVE = frozenset("""
    pass discuss process address access press express focus miss guess dismiss assess compress bypass cross bring string
    embed feed heed need speed exceed proceed shed shred wed seed bleed ping swing
    """.split())


def fault(subject):
    """Returns the fault of a subject, or None."""
    if subject.startswith(("Revert ", "Merge ")):
        return None
    if len(subject) > SUBJECT_MAX:
        return f"{len(subject)} characters, more than {SUBJECT_MAX}"
    match = re.fullmatch(r"[\w./*{},+ -]+: (\S+)( .*)?", subject)
    if not match:
        return 'not of the form "area: verb ..."'
    word = match[1].strip(",;").lower()
    if word in NOT_IMPERATIVE or word not in IMPERATIVE and re.search(r"(?:[^s]s|ed|ing)$", word):
        return f'"{match[1]}" is no imperative'
    if subject.endswith("."):
        return "a full stop at the end"
    return None


def git(*words):
    return subprocess.run(["git", *words], cwd=files.ROOT, capture_output=True, text=True)


def older():
    """Returns the words for git that leave out commits older than this file: they knew no rules."""
    done = git("log", "--follow", "--diff-filter=A", "--format=%H", "--", "tools/workshop/lints/commits.py")
    return [f"^{commit}^@" for commit in done.stdout.split()]


def findings():
    """Yields (commit, message) for the newest commits. A tree without history has none."""
    if not files.has_history():
        return
    done = git("log", "--no-merges", f"-{COMMITS_MAX}", "--format=%h %s", "HEAD", *older())
    for line in done.stdout.splitlines():
        commit, subject = line.split(" ", 1)
        problem = fault(subject)
        if problem:
            yield commit, f"{problem}: {subject}"
