"""docs/settings.md and --help against the settings' tables, as build/host/peregrine-linux prints them."""
import os
import pathlib
import subprocess

import pytest

from make import settings_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
PROGRAM = BUILD / "host/peregrine-linux"


def test_the_page_holds_the_tables():
    page = (ROOT / "docs/settings.md").read_text()
    assert page == settings_page.composed(page, settings_page.table_of(PROGRAM)), "docs/settings.md is old: make docs"


PAGES = [path.parent.name for path in sorted(ROOT.glob("app/*/README.md")) if settings_page.BEGIN in path.read_text()]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_a_program_holds_its_table(name):
    page = (ROOT / f"app/{name}/README.md").read_text()
    table = settings_page.own_keys(settings_page.table_of(BUILD / f"host/{name}-linux"))
    assert page == settings_page.composed(page, table), f"app/{name}/README.md is old: make docs"


def test_help_names_every_key():
    text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, timeout=20).stdout
    keys = [line.split("`")[1] for line in settings_page.table_of(PROGRAM).splitlines()[2:]]
    assert len(keys) > 30 and keys[0] == "feed"
    for key in keys:
        assert f"\n  {key}= " in text, f"--help says nothing of {key}="
    assert max(map(len, text.splitlines())) <= 120


def test_help_that_cannot_be_written_is_a_failure():
    """The pages are of different lengths: a failed write shows at the end or before."""
    for name in ("peregrine", "echo"):
        with open("/dev/full", "w", encoding="ascii") as full:
            assert subprocess.run([BUILD / f"host/{name}-linux", "--help"], stdout=full, timeout=20).returncode == 1
