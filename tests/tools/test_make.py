"""The Makefile's own words: an image a program, and what it says to a wrong target or variable."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MISSPELT = "DURA" + "TON"       # in two parts: no file may have the word


def make(*words, **variables):
    """Runs make without a command: its recipes are printed."""
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "PROGRAM", "STACK")}
    return subprocess.run(["make", "-n", *words], cwd=ROOT, env={**clean, **variables}, capture_output=True, text=True,
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
