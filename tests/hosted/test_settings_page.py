"""docs/settings.md and --help against the settings' tables, as build/host/peregrine-linux prints them."""
import subprocess

import pytest

from tests.lib.paths import BUILD, ROOT
from workshop.make import settings_page
from workshop.vm import ports

PROGRAM = BUILD / "host/peregrine-linux"


def test_the_page_holds_the_tables():
    page = (ROOT / "docs/settings.md").read_text()
    assert page == settings_page.composed(page, settings_page.table_of(PROGRAM)), "docs/settings.md is old: make docs"


PAGES = [path.parent.name for path in sorted(ROOT.glob("app/*/README.md")) if "settings: made by" in path.read_text()]


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
    assert "`" not in text and "](" not in text and "the control channel (control.md)" in " ".join(text.split())


def test_output_that_finds_no_place_is_a_failure():
    """The pages of help are of different lengths: a failed write shows at the end or before."""
    run = f"port={ports.free_port()} deadline=0.1 wait=sleep".split()
    for name, *words in ["peregrine", "--help"], ["echo", "--help"], ["echo", "--ports"], ["echo", *run]:
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([BUILD / f"host/{name}-linux", *words], stdout=full, stderr=-1, text=True, timeout=20)
        assert done.returncode == 1 and done.stderr.endswith("linux: standard output: No space left on device\n"), words
    lines = subprocess.run(f"{BUILD}/host/echo-linux {' '.join(run)} | :; echo $PIPESTATUS", shell=True,
                           executable="bash", stdout=-1, text=True, timeout=20).stdout
    assert lines == "0\n", "a reader that has enough is no failure"


GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=a passwd=b n=9 m=11"
TRADE = "feed.a=0.0.0.0:1 feed.b=0.0.0.0:2 user=a passwd=b orders=10.0.2.2:3 symbols=ACME strategy=join"
REQUIRED = {"peregrine": GAME, "trade": TRADE}
# A value of each key that every program's kernel has. Some go together with others.
KERNEL = """net.timeout=5 deadline=60 idle.timeout=30 key=a-key-of-a-test control.port=18248 http.port=8090
    log=10.0.2.2:514 capture=600,2048 capture.http=on wait=sleep cpus=64 ip=10.0.2.15/24 gw=10.0.2.2
    gwmac=52:55:0a:00:02:02 nic=52:54:00:12:34:56 lease=43200@10.0.2.2 mtu=1400 rto.min=5ms ecn=off watchdog=9
    tsc.khz=2000000 blackbox=0x100000,8192 test.trap=panic test.after=9
    test.resets=none virtio_mmio.device=4K@0xd0000000:5 acpi_rsdp=0xe0000 dhcp.send=61:ff0102""".split()


# These refuse to stand alone.
IN_COMPANY = ("idle.timeout", "capture.http", "gw", "gwmac", "lease", "dhcp.send")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("app/*/program.c")))
def test_a_program_says_its_ports_whatever_the_kernel_is_to_do(name):
    """`make PROGRAM=NAME run SETTINGS=` asks the program on Linux, for the kernel."""
    name = name.replace("player", "peregrine")
    table = settings_page.table_of(PROGRAM)
    every, own = ({line.split("`")[1] for line in text.splitlines()[2:]}
                  for text in (table, settings_page.own_keys(table)))
    assert {word.partition("=")[0] for word in KERNEL} == every - own - {"agent.port"}      # digest's alone
    for words in (KERNEL, *([word] for word in KERNEL if word.partition("=")[0] not in IN_COMPANY)):
        done = subprocess.run([BUILD / f"host/{name}-linux", "--ports", *REQUIRED.get(name, "").split(), *words],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stderr}"
