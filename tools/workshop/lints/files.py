"""The files of the tree that lints read, by kind."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Data of foreign formats, which no rule of ours covers.
BINARY = (".bin", ".raw", ".crash", ".seed")


# These are no sources: those of .gitignore, and of git itself.
MADE = (".git", "build", "__pycache__", ".pytest_cache", ".hypothesis")
MADE_AT_ROOT = ("*.conf", "crash-*")


def has_history():
    """Returns false in a tree that was unpacked from the source archive."""
    return (ROOT / ".git").exists()


def is_made(name):
    """Returns true for the path of a file that the owner of the tree, a build or a test has made."""
    return bool(set(MADE) & set(name.parts)) or (len(name.parts) == 1 and any(map(name.match, MADE_AT_ROOT)))


def unpacked(paths):
    """Returns the files below the paths without asking git."""
    starts = [ROOT / path for path in paths or (".",)]
    found = [file for start in starts for file in (start, *start.rglob("*")) if file.is_file()]
    names = {file.relative_to(ROOT) for file in found}
    return sorted(str(name) for name in names if not is_made(name))


def tracked(*paths):
    """Returns the files that git knows below the paths, or all of them: new files as well, deleted ones not."""
    if not has_history():
        return unpacked(paths)
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    return sorted({name for name in done.stdout.splitlines() if (ROOT / name).is_file()})


def first_line(name):
    with open(ROOT / name, "rb") as file:
        return file.readline(200)


def kind(name):
    """Returns "c", "asm", "py", "sh", "mk", "md", "man", "wire", or "" for a file of another kind."""
    suffix = pathlib.PurePath(name).suffix
    if suffix in (".c", ".h"):
        return "c"
    if suffix in (".asm", ".py", ".sh", ".mk", ".md", ".wire"):
        return suffix[1:]
    if suffix == ".1":
        return "man"
    if pathlib.PurePath(name).name == "Makefile":
        return "mk"
    if suffix:
        return ""
    first = first_line(name)
    if first.startswith(b"#!"):
        return "py" if b"python" in first else "mk" if first.startswith(b"#!/usr/bin/make") else "sh"
    return ""


def of_kind(paths, *kinds):
    return [name for name in tracked(*paths) if kind(name) in kinds]
