"""The processor and the commit that figures are of."""
import pathlib
import platform
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def processor():
    """Returns the name with the family and the model, as a cloud calls several generations by one name."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    words = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.M))
    if "model name" not in words:
        return platform.processor()
    return "{model name}, family {cpu family}, model {model}".format_map(words)


def commit():
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True,
                          text=True).stdout.strip()
