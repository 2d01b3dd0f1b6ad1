"""The tools as `make install` lays them out: their names, and where they look. tests/distributions installs them."""
import shutil
import subprocess

import pytest

from lints import files
from tests.tools.test_make import make


@pytest.fixture(name="installed")
def installed_tools(tmp_path):
    for name in ("deploy", "contest", "web"):
        shutil.copytree(files.ROOT / "tools" / name, tmp_path / name)
    for name in ("command_line.py", "latencies.py", "peregrine"):
        shutil.copy(files.ROOT / "tools" / name, tmp_path)
    (tmp_path / "VERSION").write_text("2.0.0\n")

    def run(*words):
        done = subprocess.run([tmp_path / words[0], *words[1:]], capture_output=True, text=True, timeout=20)
        return done.stdout + done.stderr
    return run


def test_the_version_beside_the_tools_is_said(installed):
    assert installed("contest/contest", "serve", "--version") == "peregrine-contest serve 2.0.0\n"
    assert installed("peregrine", "--version") == "peregrine 2.0.0\n"


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


def test_a_message_names_the_installed_command(installed, tmp_path):
    (tmp_path / "game.conf").write_text("feed=192.0.2.7:1\n")
    said = installed("peregrine", "install", "host", "--config", str(tmp_path / "game.conf"))
    assert f"Make one with: peregrine key {tmp_path}/game.conf" in said


def test_the_contest_is_kept_where_the_service_looks(installed):
    unit = (files.ROOT / "debian/peregrine-contest.service").read_text()
    place, = {word for word in unit.split() if word.startswith("/var/lib/")}
    for command in ("init", "plan", "serve", "board", "replay", "export"):
        said = installed("contest/contest", command, "--help")
        assert said.startswith(f"usage: peregrine-contest {command} "), said
        assert place in said.replace("\n", "").replace(" ", ""), said


def test_a_contest_is_named_by_the_installed_command(installed, tmp_path):
    said = installed("contest/contest", "init", str(tmp_path / "cup.db"))
    assert f"`peregrine-contest serve {tmp_path}/cup.db` plays it" in said
