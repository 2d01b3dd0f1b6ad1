"""The Makefile's own words: an image a program, its progress, and its words to a wrong target or variable."""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import termios

import pytest

from tests.lib.full_disk import full_disk
from tests.lib.paths import BUILD, ROOT

MISSPELT = "DURA" + "TON"       # in two parts: no file may have the word


CLEAN = {name: value for name, value in os.environ.items()
         if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "PROGRAM", "STACK")}


def make(*words, **variables):
    """Runs make without a command: its recipes are printed."""
    return subprocess.run(["make", "-n", *words], cwd=ROOT, env={**CLEAN, **variables}, capture_output=True, text=True,
                          timeout=60)


@pytest.mark.parametrize("program", ["echo", "time"])
def test_a_program_leaves_the_players_image_alone(program, tmp_path):
    done = make(f"PROGRAM={program}", f"BUILD={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert f" -o {tmp_path}/{program}/peregrine.elf" in done.stdout
    assert f"{tmp_path}/peregrine." not in done.stdout and f"{tmp_path}/kernel/libapp.a" not in done.stdout


def test_player_has_the_image_at_the_top(tmp_path):
    assert f" -o {tmp_path}/peregrine.elf" in make(f"BUILD={tmp_path}").stdout


@pytest.mark.parametrize("words", [[f"{MISSPELT}=3", "run"], [f"{MISSPELT}=3", "help"], [f"{MISSPELT}=a b", "test"]])
def test_a_variable_that_nothing_reads_is_refused(words):
    done = make(*words)
    assert done.returncode == 2 and f"{MISSPELT}: " in done.stderr and "tools/run.py --help" in done.stderr


@pytest.mark.parametrize("word", ["DURATION=3", "SETTINGS=n=1 m=2", "T=echo", "STORE=x.db", "CC=clang", "QUICK=1",
                                  "TEST_DEBUG=-g", "CFLAGS_EXTRA=-g", "ROUNDTRIP=1"])
def test_a_variable_that_something_reads_is_taken(word):
    done = make("help", word)
    assert done.returncode == 0, done.stderr


def test_a_machine_that_is_not_set_up_is_told_how_before_a_command_fails(tmp_path):
    for tool in ("make", "bash", "sed", "grep", "find", "nproc"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    done = make(f"BUILD={tmp_path}/build", PATH=str(tmp_path))
    assert done.returncode == 2 and "there is no nasm here; tools/setup.sh run installs" in done.stderr
    assert make("help", PATH=str(tmp_path)).returncode == 0


def test_a_program_that_lwip_cannot_serve_is_refused():
    done = make("PROGRAM=digest", "STACK=lwip")
    assert done.returncode == 2 and "PROGRAM=digest needs 264 connections" in done.stderr and "STACK=own" in done.stderr


def test_an_unknown_target_leads_to_the_list_of_targets():
    done = make("nosuch")
    assert done.returncode == 2 and "there is no target nosuch" in done.stderr and "make help" in done.stderr


@pytest.fixture(name="gate")
def gate_of_a_long_step(tmp_path):
    """Makes a FIFO: who reads it waits until the test writes."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


def start(*words):
    return subprocess.Popen(["timeout", "300", *words], cwd=ROOT, env={**os.environ, "PROGRESS_S": "1"}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def lines_until(process, pattern):
    """Reads lines of a process until one matches, and returns it."""
    for line in process.stdout:
        if re.search(pattern, line):
            return line
    raise AssertionError(f"no line with {pattern}")


def test_a_build_says_while_a_step_goes_on_what_it_makes_and_how_much_is_made(gate, tmp_path):
    (tmp_path / "make").write_text(f"""#!/bin/bash
        echo 'gcc -O2 -c -o one.o one.c'; echo 'make: a word'; echo 'gcc -O2 -c -o two.o two.c'
        echo 'gcc -O2 -c -o two.o two.c'; [ "$1" = -n ] || cat {gate}; exit 3\n""")
    (tmp_path / "make").chmod(0o755)
    with start("tools/workshop/make/progress.sh", tmp_path / "make") as process:
        assert process.stdout.readline() == "build: 2 files to compile\n"
        lines_until(process, r"^build: 2 of 2, \d+ s: two\.o$")     # on a busy machine after lines of one.o
        gate.write_text("go on")
    assert process.returncode == 3


@pytest.mark.parametrize("words", [["tools/run.py"], ["-n", "run"], ["-n", "contest"], ["-n", "trade"]])
def test_one_make_at_a_time_builds_in_a_tree(words):
    tree = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(tree, fcntl.LOCK_EX)
    with start("env", "-u", "MAKELEVEL", "-u", "MAKEFLAGS", "make", *words) as process:
        assert lines_until(process, "make: ") == "make: another make builds here, waiting\n"
        os.close(tree)
        process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_run_says_which_test_failed_and_which_one_runs_before_it_ends(gate, tmp_path, workers):
    (tmp_path / "test_one.py").write_text(
        f"def test_fails():\n    assert 0, 'the reason'\ndef test_is_long():\n    open('{gate}').read()\n")
    with start(sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", *workers,
               f"--rootdir={tmp_path}", tmp_path) as process:
        assert "FAILED: test_one.py::test_fails: AssertionError: the reason" in lines_until(process, "FAILED")
        assert "check: 1 of 2 tests, 0 min 0" in (line := lines_until(process, "check: 1 "))
        assert re.search(r" s: test_one.py::test_is_long \(\d+ s\)$", line)
        gate.write_text("go on")
        assert process.stdout.read().endswith("\n1 passed, 1 failed\n")


# As apt does: ignores SIGINT while dpkg runs, and gives dpkg a terminal of its own unless that is switched off.
UNPACKS = """trap '' INT
[[ "$*" != *Use-Pty* ]] || trap - INT
echo '0 upgraded, 1 newly installed, 0 to remove.'; echo 'Unpacking one ...'
read <gate
echo 'Setting up one ...' && touch installed"""
REACHES_NO_SERVER = "echo 'Err:1 http://a.example b InRelease'; echo 'W: Failed to fetch http://a.example/b' >&2"


def setup_with(folder, apt_get, candidate, **popen):
    """Starts tools/setup.sh on a system without any package, whose apt-get is this script, in the folder."""
    programs = {"apt-get": f"cd {folder}\n{apt_get}", "sudo": '"$@"', "dpkg": "echo amd64", "dpkg-query": "",
                "apt-cache": f"printf '%s:\\n  Candidate: {candidate}\\n' \"${{@:2}}\""}
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.Popen([ROOT / "tools/setup.sh", "run"], env={**os.environ, "PATH": path}, **popen)


def test_ctrl_c_does_not_reach_dpkg_and_setup_waits_for_it(gate, tmp_path):
    opened = os.open(gate, os.O_RDWR)
    ours, theirs = os.openpty()
    with setup_with(tmp_path, UNPACKS, "1", stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) as process:
        os.close(theirs)
        said = b""
        for key, wanted in ((b"", b"unpacking 1 of 1"), (b"\x03", b"interrupted")):
            os.write(ours, key)
            while wanted not in said:
                said += os.read(ours, 4096)
        os.write(opened, b"go on\n")
    assert process.returncode == 130 and (tmp_path / "installed").exists()


@pytest.mark.parametrize("apt_get, reason", [
    (REACHES_NO_SERVER, "apt-get update reached no server; is there a network? W: Failed to fetch http://a.example/b"),
    ("echo 'Hit:1 http://a.example b InRelease'", "no source of packages has gcc (compiles the kernel and the hosted"),
])
def test_setup_says_why_no_package_can_be_had(apt_get, reason, tmp_path):
    with setup_with(tmp_path, apt_get, "(none)", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.communicate(timeout=60)[1].startswith(f"setup: {reason}")
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["kernel", "host", "test", "lwip", "gen", "other", "tsan", "bench", "network"])
def test_a_name_of_the_build_is_no_programs(name):
    """net/settings.h has network_settings; the others are folders of build/."""
    done = subprocess.run(["tools/new-program", name], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"error: '{name}': " in done.stderr, done.stdout


@pytest.mark.slow
def test_a_program_outside_of_the_tree_is_built_and_tested(tmp_path):
    """By this tree's objects: all that its own makefile adds is another BUILD."""
    build = BUILD
    folder, made = tmp_path / "bark", [build / "outside/app/bark", build / "bark", build / "host/bark-linux",
                                       build / "host/check-settings-bark", build / "test/tests/unit/bark_test"]

    def play(*words, status=0, cwd=ROOT):
        done = subprocess.run(words, cwd=cwd, env=CLEAN, capture_output=True, text=True, timeout=600)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    play(ROOT / "tools/peregrine", "new-program", "bark", cwd=tmp_path)
    assert "there is bark already" in play(ROOT / "tools/new-program", "--here", "bark", status=2, cwd=tmp_path)
    for goal, wanted in (("all", "/bark/build/bark/peregrine.elf"), ("test", "/bark_test"), ("run", "tools/run.py")):
        assert wanted in play("make", "-n", goal, cwd=folder)
    play("make", "dist", cwd=folder)
    try:
        words = ["make", f"PROGRAM={folder}", f"BUILD={build}"]
        assert "[  PASSED  ] " in play(*words, "program-test")
        play(*words, "all", "program-linux")
        assert "| `port` |" in play(made[2], "--settings")
        (folder / "program.c").write_text("int nothing;\n")
        assert "undefined reference" in play(*words, "program-linux", status=2)
    finally:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
    for path, problem in (("/no/such", "there is no /no/such/program.c"),
                          (ROOT / "app/echo", "has a folder of this name, app/echo")):
        assert problem in play("make", f"PROGRAM={path}", status=2)


def test_a_folder_that_make_cannot_name_gets_no_program(tmp_path):
    (tmp_path / "a b").mkdir()
    done = subprocess.run([ROOT / "tools/new-program", "--here", "bark"], cwd=tmp_path / "a b", capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2 and "whose path has ' '" in done.stderr and not any((tmp_path / "a b").iterdir())
    made = subprocess.run([ROOT / "tools/new-program", "--here", "bark"], cwd=tmp_path, stdout=-1, text=True).stdout
    assert shutil.which(re.search(r"\n(\S+) install HOST ", made)[1]), "the command that is named is not there"
    done = make(f"PROGRAM={tmp_path}/a b")
    assert done.returncode == 2 and f"PROGRAM={tmp_path}/a b: make does not build in a folder whose" in done.stderr


def copy_of_the_maker(tmp_path):
    """Copies tools/new-program and what it reads to a folder. Returns the copy."""
    for name in ("tools/new-program", "tools/command_line.py", "VERSION", "app/echo/program.c",
                 "tests/unit/echo_test.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path / "tools/new-program"


def test_a_program_that_cannot_be_written_is_one_line(tmp_path):
    maker = copy_of_the_maker(tmp_path)
    (tmp_path / "app/shout").symlink_to("gone/folder")
    done = subprocess.run([maker, "shout"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr == f"tools/new-program: {tmp_path}/app/shout: File exists\n"


def test_a_program_that_finds_no_room_can_be_made_again(tmp_path):
    maker = copy_of_the_maker(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run([maker, "shout"], capture_output=True, text=True, timeout=60, **full_disk(100, CLEAN))
    assert (done.returncode, done.stderr) == (1, f"tools/new-program: {tmp_path}/app/shout/program.c: File too large\n")
    assert sorted(tmp_path.rglob("*")) == before
    assert subprocess.run([maker, "shout"], capture_output=True, text=True, timeout=60, env=CLEAN).returncode == 0
