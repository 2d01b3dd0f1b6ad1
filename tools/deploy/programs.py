"""The programs that a kernel can be built with, and where the build or `make install` puts their files."""
from command_line import BUILD, INSTALLED, ROOT

PLAYER, SURVEY = "player", "survey"
PARSERS = BUILD / "host"


def names():
    if INSTALLED:
        return sorted(path.name.partition("check-settings-")[2] or PLAYER for path in PARSERS.glob("check-settings*"))
    return sorted(path.parent.name for path in ROOT.glob("app/*/program.c"))


def image_of(program, file):
    return (BUILD if program == PLAYER else BUILD / program) / file


def parser_of(program):
    """Returns the file of the program's own parser of settings: host/check_settings.c."""
    return PARSERS / ("check-settings" if program == PLAYER else f"check-settings-{program}")


def make_of(program):
    """Returns the command that builds a program's image and its parser of settings."""
    return "make" if program == PLAYER else f"make PROGRAM={program}"


def option_of(program):
    """Returns the words that choose a program in a command of tools/peregrine."""
    return "" if program == PLAYER else f" --program {program}"
