"""A child process that ends when its parent does, even by SIGKILL."""
import ctypes
import signal

PR_SET_PDEATHSIG = 1                # linux/prctl.h
LIBC = ctypes.CDLL(None)


def die_with_parent(by=signal.SIGTERM):
    """Ends this process by a signal when its parent ends. For `preexec_fn`."""
    LIBC.prctl(PR_SET_PDEATHSIG, by)
