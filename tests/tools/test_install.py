"""The tools as `make install` lays them out: their names, and where they look; the archive of the source.
tests/distributions installs them."""
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from servers.contest import serve
from workshop.lints import files
from tests.tools.test_make import make


@pytest.fixture(name="installed")
def installed_tools(tmp_path):
    for name in ("deploy", "servers/contest", "servers/web"):
        shutil.copytree(files.ROOT / "tools" / name, tmp_path / name)
    for name in ("command_line.py", "latencies.py", "peregrine"):
        shutil.copy(files.ROOT / "tools" / name, tmp_path)
    (tmp_path / "VERSION").write_text("2.0.0\n")

    def run(*words):
        done = subprocess.run([tmp_path / words[0], *words[1:]], capture_output=True, text=True, timeout=20)
        return done.stdout + done.stderr
    return run


def test_the_version_beside_the_tools_is_said(installed):
    assert installed("servers/contest/contest", "serve", "--version") == "peregrine-contest serve 2.0.0\n"
    assert installed("peregrine", "--version") == "peregrine 2.0.0\n"


def test_packages_need_python_and_ssh_and_suggest_the_rest():
    """apt installs recommended packages, too: libraries of pictures and algebra were 900 MB."""
    control = (files.ROOT / "debian/control").read_text()
    lines = re.findall(r"^Depends: (.*)", control.partition("Package: peregrine-dev")[0], re.MULTILINE)
    needed = {word for line in lines for word in re.findall(r"[^, |]+", line) if "$" not in word}
    assert "Recommends" not in control
    assert needed == {"openssh-client", "libjs-chart.js", "node-chart.js", "libjs-dygraphs"}


def test_the_tree_of_the_packages_finds_all_that_a_run_needs():
    """Else `make run` in the folder of a program would have setup.sh install packages."""
    control = (files.ROOT / "debian/control").read_text().partition("Package: peregrine-dev")[2]
    depends = re.search(r"^Depends: (.*(?:\n .*)*)", control, re.MULTILINE)[1]
    given = {choice.replace(" ", "") for choice in re.split(r",\s*", depends)}
    needed = re.findall(r"^run (\S+) — ", (files.ROOT / "tools/setup.sh").read_text(), re.MULTILINE)
    assert len(needed) > 10 and set(needed) <= given, set(needed) - given


def test_images_lie_beside_the_tools(installed, tmp_path):
    assert f"{tmp_path}/images/peregrine.elf" in "".join(installed("peregrine", "check", "--help").split())


def test_every_program_is_installed_with_its_parser(installed, tmp_path):
    done = make("install")
    assert done.returncode == 0, done.stderr
    line, = (line for line in done.stdout.splitlines() if "/images/host " in line and line.startswith("install "))
    parsers = {word.rpartition("/")[2] for word in line.split() if "/check-settings" in word}
    programs = sorted(path.parent.name for path in files.ROOT.glob("app/*/program.c"))
    assert parsers == {"check-settings" if name == "player" else f"check-settings-{name}" for name in programs}
    (tmp_path / "images/host").mkdir(parents=True)
    for parser in parsers:
        (tmp_path / "images/host" / parser).touch()
    assert f"the kernel's program: {', '.join(programs)} (" in " ".join(installed("peregrine", "fly", "--help").split())


def test_every_page_that_help_and_manual_name_is_installed(installed):
    recipes = (files.ROOT / "tools/workshop/make/install.mk").read_text().replace("\\\n", "")
    pages = set(re.search(r"^INSTALLED_PAGES := (.*)", recipes, re.MULTILINE)[1].split())
    sources = [*files.ROOT.glob("app/*/*.c"), *files.ROOT.glob("net/*.c"), *files.ROOT.glob("kernel/*.c")]
    named = {name for path in sources for name in re.findall(r"\[(\w+)\.md\]\(", path.read_text())}
    for manual in ("peregrine.1", "gg.1"):
        named |= set(re.findall(r"docs/(\w+)\.md", (files.ROOT / "docs" / manual).read_text()))
    assert len(named) > 5 and named <= pages, named - pages
    for words in (("--help",), ("install", "--help"), ("capture", "--help")):
        assert "docs/" not in installed("peregrine", *words)
    assert ".md" not in (files.ROOT / "debian/changelog").read_text()


def test_a_message_names_the_installed_command(installed, tmp_path):
    (tmp_path / "game.conf").write_text("feed=192.0.2.7:1\n")
    said = installed("peregrine", "install", "host", "--config", str(tmp_path / "game.conf"))
    assert f"Make one with: peregrine key {tmp_path}/game.conf" in said


def test_the_contest_is_kept_where_the_service_looks(installed):
    unit = (files.ROOT / "debian/peregrine-contest.service").read_text()
    place, = {word for word in unit.split() if word.startswith("/var/lib/") and word.endswith(".db")}
    for command in ("init", "plan", "serve", "board", "replay", "export"):
        said = installed("servers/contest/contest", command, "--help")
        assert said.startswith(f"usage: peregrine-contest {command} "), said
        assert place in said.replace("\n", "").replace(" ", ""), said


def test_the_service_of_the_contest_is_confined():
    unit = files.ROOT / "debian/peregrine-contest.service"
    words = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and line[0] != "#")
    assert {"MemoryMax", "TasksMax"} <= set(words) and words["MemoryDenyWriteExecute"] == "yes"
    assert int(words["RestartPreventExitStatus"]) == serve.REFUSED
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=17", str(unit)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


def test_a_contest_is_named_by_the_installed_command(installed, tmp_path):
    said = installed("servers/contest/contest", "init", str(tmp_path / "cup.db"))
    assert f"`peregrine-contest serve {tmp_path}/cup.db` plays it" in said


def make_in(tree, *words, **variables):
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "BUILD")}
    return subprocess.run(["make", *words], cwd=tree, env={**clean, **variables}, capture_output=True, text=True,
                          timeout=60)


@pytest.fixture(name="tree")
def tree_without_git(tmp_path):
    """Copies the source, as an unpacked archive has it, into a folder of another repository."""
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
    made = shutil.ignore_patterns(".git", "build", "__pycache__", "*.pyc", ".pytest_cache", ".hypothesis")
    return shutil.copytree(files.ROOT, tmp_path / "tree", ignore=made, symlinks=True)


def test_an_unpacked_archive_makes_its_like(tree, tmp_path):
    names = {str(path.relative_to(tree)) for path in tree.rglob("*")}
    for name in ("me.conf", "build/key.conf", "tools/__pycache__/x.pyc", "debian/tmp/usr/bin/x", ".hypothesis/x"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("made here")
    assert make_in(tree, "dist").returncode == 0
    first, = (tree / "build").glob("*.gz")
    with tarfile.open(first) as archive:
        assert {name.partition("/")[2] for name in archive.getnames()} == names | {""}
        archive.extractall(tmp_path)
    again = tmp_path / first.name.removesuffix(".tar.gz")
    assert make_in(again, "dist").returncode == 0
    assert (again / "build" / first.name).read_bytes() == first.read_bytes()


@pytest.mark.skipif(not shutil.which("git"), reason="no git here")
def test_an_archive_that_cannot_be_made_is_a_failure_and_leaves_no_file(tree):
    subprocess.run(["git", "init", "-q", tree], check=True)         # without a commit
    done = make_in(tree, "dist")
    assert done.returncode == 2 and "HEAD" in done.stderr and not list((tree / "build").iterdir())


@pytest.mark.parametrize("goal, lacking", [("install", "help2man"), ("install", "xz"), ("deb", "dpkg-buildpackage"),
                                           ("iso", "grub-mkrescue"), ("fuzz", "clang")])
def test_a_tool_that_lacks_is_named_before_anything_is_built(goal, lacking, tmp_path):
    (tmp_path / "bin").mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in os.scandir(folder) if os.path.isdir(folder) else ():
            if tool.name != lacking and not os.path.lexists(tmp_path / "bin" / tool.name):
                os.symlink(tool.path, tmp_path / "bin" / tool.name)
    for tool in ("help2man", "shtab"):
        if tool != lacking and not os.path.lexists(tmp_path / "bin" / tool):
            os.symlink("/bin/true", tmp_path / "bin" / tool)
    done = make_in(files.ROOT, goal, f"BUILD={tmp_path}/build", PATH=f"{tmp_path}/bin")
    assert done.returncode == 2 and f"there is no {lacking} here" in done.stderr, done.stderr
    assert not (tmp_path / "build").exists()
