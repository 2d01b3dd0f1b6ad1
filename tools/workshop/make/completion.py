#!/usr/bin/python3
"""completion.py COMMAND FILE FUNCTION SHARE PREFIX: writes the completion of bash and of zsh for an installed tool. The
function of the file gives its parser. PREFIX stands in place of the folder that holds SHARE, where they differ."""
import importlib.machinery
import importlib.util
import pathlib
import sys

import shtab

PLACES = {"bash": "bash-completion/completions/{}", "zsh": "zsh/site-functions/_{}"}


def load(path):
    loader = importlib.machinery.SourceFileLoader("tool", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tool", loader))
    loader.exec_module(module)
    return module


def main(command, file, function, share, prefix):
    parser = getattr(load(file), function)()
    parser.prog = command
    for shell, place in PLACES.items():
        path = pathlib.Path(share, place.format(command))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shtab.complete(parser, shell).replace(f"{pathlib.Path(share).parent}/", f"{prefix}/"))


if __name__ == "__main__":
    main(*sys.argv[1:])
