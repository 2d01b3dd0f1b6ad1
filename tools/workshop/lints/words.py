"""The rules for the words of comments: how comments and sentences open, how long they are, which words they have."""
import re

from workshop.lints import files
from workshop.lints.comments import comments_of

SENTENCE_WORDS_MAX = 30

SENTENCE_OPENERS_FORBIDDEN = ("what", "whether", "of", "where", "those", "whose")

# Each with its plain word.
WORDS_FORBIDDEN = {"anew": "again", "whence": "from where", "told": "reported", "tend": "poll", "standstill": "stall"}

# Phrases of telegrams: each needs the line above it, or has a plain word (after, below, current, a number).
PHRASES_FORBIDDEN = re.compile(r"\b(so many|so much|for ever|at hand|no such|what is|behind)\b", re.IGNORECASE)
# The exceptions: a place that every message reaches through another one, and a thing that is left there.
BEHIND_A_DOOR = re.compile(r"""
    \bbehind\ (?:an?\ |the\ |this\ |one\ |these\ )?(?:\w+\ )?
    (?:bridges?|gateway|hub|middlebox|HAProxy|NAT|TUN\ device|vhost-user)\b
    | \b(?:leaves?|left|leaving)\b(?:\ \w+){0,3}\ behind\b""", re.VERBOSE | re.IGNORECASE)

# A comment is understood without the line above it, so it does not open with a word that points there.
COMMENT_OPENERS_FORBIDDEN = re.compile(
    r"(it|they|its|the same|not|nor|both|and|or|how|what|why|who|which|whether)\b", re.IGNORECASE)

# A comment after code is a few words; a sentence stands above the line.
TRAILING_WORDS_MAX = 12
# Kinds in which these rules for comments hold. Pages and manuals have sentences that lean on those before them.
COMMENT_KINDS = ("c", "asm", "py", "sh", "mk", "wire")

# A function's comment opens with a verb in the third person, which ends in "s". These end in "s" too, and are no
# verbs.
NOT_VERBS = frozenset("""
    this its thus as always perhaps afterwards besides else less plus various across towards unless ours theirs whereas
    us bits bytes cells constants counters digits events facts frames functions lines nanoseconds numbers octets
    offsets options others pages pairs parts places points ports positives registers rows seconds segments slots
    statistics things values weights words acknowledgements addresses arguments cycles entries settings sums tables
    messages packets programs servers units
    """.split())

# A document's clause may stand first: `/* RFC 9293 §3.10.7.4: Answers ... */`.
CITATION = re.compile(r"""(
    RFCs?\ \d|§|virtio\ [\d.]+|SDM\ |AMD\ |ACPI\ [\d.]|PCI[\w -]*\ [\d.]+|Multiboot2\ |IEEE\ \d|
    UEFI\ |\w+\(\d\)|Linux['s]*:|8259A\ |MS-\w+|"|FIPS\ \d|Intel\ )""", re.VERBOSE)
CITED = re.compile(CITATION.pattern + r"[^:.]*(?:\.\d[^:.]*)*[:.]\s+(?P<rest>.*)", re.VERBOSE | re.DOTALL)

ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vol|etc|cf|ch|sec|no|vs|fig|incl|approx|resp)\.$", re.IGNORECASE)


def sentences(lines):
    """Yields (line, text) for each sentence of (line, text) pairs. Rows of tables and drawings are left out."""
    start, words = None, []
    for number, text in lines:
        stripped = text.strip()
        if not stripped or re.search(r"\S {2,}\S|\t|^[-=+|/\\<>_]{3}|[─│┌└├→]|-->", stripped):
            if words:
                yield start, " ".join(words)
            start, words = None, []
            continue
        if words and re.match(r"([-*+]|\d+\.) ", stripped):
            yield start, " ".join(words)
            start, words = None, []
        for word in stripped.split():
            start = start or number
            words.append(word)
            closed = word.rstrip(")\"'`*_")
            if closed.endswith((".", "!", "?")) and not ABBREVIATION.search(closed) and closed != "...":
                yield start, " ".join(words)
                start, words = None, []
    if words:
        yield start, " ".join(words)


def count_words(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def first_word(text):
    match = re.match(r"[\s\"'(*_-]*([A-Za-z]+)", text)
    return match[1] if match else ""


def is_verb(word):
    return word.islower() and word.endswith("s") and not word.endswith("ss") and word not in NOT_VERBS


def opening_fault(text):
    """Returns the fault of a function comment's opening, or None."""
    text = text.strip()
    if CITATION.match(text):
        cited = CITED.match(text)
        word = first_word(cited["rest"]).lower() if cited else ""
        return f'after the clause stands "{word}"' if word in SENTENCE_OPENERS_FORBIDDEN else None
    word = re.match(r"\S*", text)[0].strip(".,;:()")
    if word[:1].isupper() and is_verb(word.lower()):
        return None
    return f'a function\'s comment opens with a verb in the third person ("Returns"), not with "{word}"'


def findings_of_comment(comment):
    """Yields (line, message) for each fault of one comment."""
    if comment.function:
        fault = opening_fault(comment.text)
        if fault:
            yield comment.line, f"{comment.function}: {fault}"
    for line, sentence in sentences(comment.lines()):
        opener = first_word(sentence)
        if opener.lower() in SENTENCE_OPENERS_FORBIDDEN and "?" not in sentence:
            yield line, f'a sentence opens with "{opener}": {sentence[:60]}'
        count = count_words(sentence)
        if count > SENTENCE_WORDS_MAX:
            yield line, f"a sentence of {count} words, more than {SENTENCE_WORDS_MAX}: {sentence[:60]}"
        for word in re.findall(r"(?<!`)\b[a-z]+\b(?!`)", sentence):
            if word in WORDS_FORBIDDEN:
                yield line, f'"{word}": write "{WORDS_FORBIDDEN[word]}": {sentence[:60]}'


def telegrams(comment, trailing_words_max=TRAILING_WORDS_MAX):
    """Yields (line, message) for each fault that makes a comment a telegram."""
    text = " ".join(comment.text.split())
    if opener := COMMENT_OPENERS_FORBIDDEN.match(text):
        yield comment.line, f'a comment opens with "{opener[0]}", which points outside: {text[:60]}'
    count = count_words(comment.text)
    if not comment.alone and count > trailing_words_max:
        yield comment.line, f"a comment of {count} words after code, more than {trailing_words_max}: goes above"
    for phrase in PHRASES_FORBIDDEN.findall(BEHIND_A_DOOR.sub("", re.sub(r"`[^`]*`", "", text))):
        line = next((number for number, words in comment.lines() if phrase in words), comment.line)
        yield line, f'"{phrase}": write what is meant (after, below, current, a number): {text[:60]}'


def findings(path):
    """Yields (line, message) for each fault of a file's comments."""
    kind = files.kind(path)
    # In a makefile the text after code is a target's help.
    trailing_words_max = TRAILING_WORDS_MAX if kind != "mk" else 1000
    for comment in comments_of(path):
        yield from findings_of_comment(comment)
        if kind in COMMENT_KINDS:
            yield from telegrams(comment, trailing_words_max)
