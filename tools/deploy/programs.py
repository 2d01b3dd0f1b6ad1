"""The programs that a kernel can be built with, and where the build or `make install` puts their files. A program of
one's own, outside of the tree, is given by the path of its folder, and has its builds there."""
import pathlib

from command_line import BUILD, INSTALLED, ROOT

PLAYER, SURVEY = "player", "survey"


def names():
    if INSTALLED:
        parsers = (BUILD / "host").glob("check-settings*")
        return sorted(path.name.partition("check-settings-")[2] or PLAYER for path in parsers)
    return sorted(path.parent.name for path in ROOT.glob("app/*/program.c"))


def name_of(program):
    return program.rpartition("/")[2]


def build_of(program):
    return pathlib.Path(program, "build") if "/" in program else BUILD


def image_of(program, file):
    return build_of(program) / ("" if program == PLAYER else name_of(program)) / file


def parser_of(program):
    """Returns the file of the program's own parser of settings: host/check_settings.c."""
    return build_of(program) / "host" / ("check-settings" + ("" if program == PLAYER else f"-{name_of(program)}"))


def make_of(program):
    """Returns the command that builds a program's image and its parser of settings."""
    if "/" in program:
        return f"make -C {program}"
    return "make" if program == PLAYER else f"make PROGRAM={program}"


def option_of(program):
    """Returns the words that choose a program in a command of tools/peregrine."""
    return "" if program == PLAYER else f" --program {program}"
