"""A full disk, for a program that a test starts."""
import os
import resource


def full_disk(most_bytes, environment=os.environ):
    """Returns options of subprocess: no file that the program writes becomes longer. Python keeps no module then, since
    it would leave a part of it, by which each later import fails."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
            "env": {**environment, "PYTHONDONTWRITEBYTECODE": "1"}}
