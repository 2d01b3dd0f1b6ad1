"""fly --rolling: brings one machine of a service from the kernel that runs to the one that is given. fleet.py takes the
machines one after the other."""
import contextlib
import http.client
import time

from . import boot_once, commands, control, programs
from .balancer import Balancer
from .commands import OK, Refused, say
from .ssh import RemoteError
from .verdict import GRUB

PAGE_SECONDS = 2                            # for an answer of the status page
LOOK_SECONDS = 0.2


class Failed(Exception):
    """A step ended with an exit code, and has said why."""


def renew(host, options):
    program = options.program or programs.PLAYER
    words = commands.read_config(options.config, program)
    if words.get("http.port", "0") == "0":
        raise Refused(f"{options.config}: there is no http.port=, so no status page tells that the service is up")
    address = options.address or host.address()

    def answers():
        return page_answers(address, int(words["http.port"]))
    balancer = Balancer(options.haproxy, host, options.wait) if options.haproxy else None
    try:
        with balancer.drained(answers) if balancer else contextlib.nullcontext():
            _go_home(host, options)
            if options.by == GRUB or not options.by and _is_installed(host):
                _succeed(commands.install(host, options.config, options.kernel or programs.image_of(
                    program, "peregrine.elf"), options.bzimage or programs.image_of(program, "peregrine.bzImage"),
                                          return_to=options.return_to, program=program))
            _succeed(boot_once.fly(host, options))
            _wait_page(host, answers, options.wait)
    except Failed as failed:
        return failed.args[0]
    return OK


def page_answers(address, port):
    """Returns true if the status page comes."""
    connection = http.client.HTTPConnection(address, port, timeout=PAGE_SECONDS)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _succeed(code):
    if code != OK:
        raise Failed(code)


def _go_home(host, options):
    """Brings Linux back, if the kernel runs. A roll does not end because the record of the last run is lost."""
    if host.answers():
        return
    try:
        boot_once.gg(host, options)
    except RemoteError as error:
        say(str(error))
    if not host.answers():
        raise control.NoAnswer(f"{host.name}: Linux is not back")


def _is_installed(host):
    try:
        return bool(host.run(["way", GRUB], ["look"], timeout=60))
    except RemoteError as error:
        if error.status == 1:
            return False
        raise


def _wait_page(host, answers, seconds):
    end = time.monotonic() + seconds
    while not answers():
        if time.monotonic() > end:
            raise RemoteError(f"{host.name}: the kernel answers, and its status page does not")
        time.sleep(LOOK_SECONDS)
    say("the status page is up")
