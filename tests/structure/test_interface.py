"""docs/interface.md has each call of the public headers; the example programs of each release of this major version
compile by today's headers; and the headers are C++, too."""
import pathlib
import re
import subprocess
import tarfile

import pytest

from command_line import VERSION
from workshop.make import interface_page, settings_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = pathlib.Path(__file__).parent / "released"
PROGRAMS = [ROOT / "app/echo/program.c", *ROOT.glob("docs/tutorial/*/program.c")]
# A call that is gone, or that has other types, is an error of every compiler.
C = ("gcc", "-std=gnu11", "-fsyntax-only",
     *(f"-Werror={name}" for name in ("implicit-function-declaration", "incompatible-pointer-types", "int-conversion")))
CXX = ("g++", "-std=c++17", "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wcast-qual", "-Werror")


def compiled(*words, text=None):
    done = subprocess.run([*words, "-iquote", ROOT], input=text, capture_output=True, text=True, timeout=60)
    return done.stderr if done.returncode else ""


def test_the_page_is_that_of_the_headers():
    page = interface_page.PAGE.read_text()
    assert page == settings_page.composed(page, interface_page.table(), "interface"), "the page is old: make docs"


@pytest.mark.parametrize("header", interface_page.ALL)
def test_each_call_has_a_comment_and_an_example(header):
    text = (ROOT / header).read_text()
    _, rest, groups = interface_page.read(text)
    for comment, calls in groups:
        assert comment and interface_page.examples(calls), f"{header}: {calls}"
    # Another reading, which knows less: a name before a parenthesis in a line that begins at the margin.
    named = set(re.findall(r"^(?!extern|typedef)(?:#define |[a-z][\w ]* \**)(\w+)(?<!_COUNTERS)\(", rest, re.MULTILINE))
    found = {interface_page.name_of(call) for _, calls in groups for call in calls}
    assert found == named and (found or header == "app/program.h")


def test_the_example_programs_need_no_other_header():
    included = {header for path in PROGRAMS for header in re.findall(r'#include "(.*)"', path.read_text())}
    assert len(PROGRAMS) == 4 and included <= set(interface_page.ALL)


def test_the_example_programs_of_releases_compile(tmp_path):
    assert (RELEASED / f"{VERSION}.tar.xz").exists(), "CONTRIBUTING.md, Release"
    for archive in sorted(RELEASED.glob(f"{VERSION.split('.')[0]}.*.tar.xz")):
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path / archive.name)
        programs = sorted((tmp_path / archive.name).rglob("program.c"))
        assert len(programs) >= 4
        for program in programs:
            assert not (said := compiled(*C, program)), f"{archive.name}: {said}"


CXX_PROGRAM = """
#define X_COUNTERS(X) X(COUNT, accepted), X(DROP, drop_full)
static struct x_settings { uint16_t port; } settings;
static const struct setting rows[] = {
    { .name = "port", .kind = SETTING_NUMBER, SETTING_AT(struct x_settings, port), .min = 1, .max = UINT16_MAX },
};
static const struct settings_table table = { rows, ARRAY_COUNT(rows), &settings, sizeof settings, NULL, NULL };
static struct x_counters { uint64_t X_COUNTERS(COUNTER_MEMBER); } counters;
static const struct counter counter_rows[] = { X_COUNTERS(COUNTER_ROW) };
static const struct counter_group group = { "x.", "X", counter_rows, &counters.accepted, ARRAY_COUNT(counter_rows),
                                            NULL, 0 };
static struct settings_refusal set(void *, struct bytes) { return settings_accept(); }
static struct job { struct work work; uint64_t sum; } job;

static const char *init(const struct program_machine *machine, uint64_t)
{
    ASSERT(machine != NULL);
    stats_add_counters(&group);
    job.work.run = [](struct work *work) { reinterpret_cast<struct job *>(work)->sum++; };
    rehearsal_add_frame(TRANSPORT_REHEARSAL_DATAGRAM, settings.port, text_of("x"), [](uint64_t) { return true; });
    return set(NULL, text_of("")).reason || !transport_listen(settings.port) ? "no port" : NULL;
}

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    while (transport_poll(now_ns, &event))
        service_event(&event, now_ns);
    transport_idle(now_ns);
    return service_poll(true, now_ns);
}

const struct program program = { "x", &table, NULL, 0, 1, 0, NULL, NULL, init, turn, service_next_deadline_ns, NULL };
"""


def test_a_program_in_cxx_compiles():
    includes = "".join(f'#include "{header}"\n' for header in interface_page.ALL)
    linkage = f'extern "C" {{\n{includes}}}\n'
    assert not compiled(*CXX, "-Wpedantic", "-", text=linkage)
    # C++17 has no designated initialisers: g++ takes them as an extension.
    assert not compiled(*CXX, "-Wno-missing-field-initializers", "-", text=linkage + CXX_PROGRAM)
