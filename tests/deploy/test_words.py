"""tools/peregrine: what is wrong with the words it was given is said with the word, before anything is done."""
import subprocess
import sys

import pytest

from fakehost import ROOT


@pytest.mark.parametrize("words, settings, quoted", [
    (("check", "host", "--ssh", "ssh 'x"), b"", "ssh 'x"), (("check", "host", "--ssh", ""), b"", "--ssh"),
    (("install", "host", "--config", "FILE"), b"feed=\xff", "no text in UTF-8"),
    (("status", "host", "--config", "FILE", "--port", "99999"), b"key=12345678", "'99999'"),
    (("status", "host", "--config", "FILE", "--address", "127.0.0.1"), b"key=12345678 control.port=x", "control.port=x"),
    (("status", "host", "--config", "FILE", "--address", "a..b"), b"key=12345678", "'a..b'"),
    (("record", "host", "--regions", "4096"), b"", "ADDRESS,BYTES"),
])
def test_bad_words_are_named(tmp_path, words, settings, quoted):
    path = tmp_path / "settings"
    path.write_bytes(settings)
    words = [str(path) if word == "FILE" else word for word in words]
    done = subprocess.run([sys.executable, ROOT / "tools/peregrine", *words], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0
    assert quoted in done.stderr and "Traceback" not in done.stderr
