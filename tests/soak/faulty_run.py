"""A guest on a faulty wire for hours: troubles by a schedule, samples of statistics, and figures that may not grow."""
import abc
import contextlib
import pathlib
import re
import secrets
import statistics
import tempfile
import time

from deploy import control
from tests.bench import bench_rows
from tests.soak import faulty_wire
from workshop.measured import commit
from workshop.vm import machine, qemu

S_NS = 10**9
REFILL_BUFFERS = 32                         # go back to the card at a time
RSS_GROWTH_MAX = 16 << 20                   # QEMU's own memory; the guest's is fixed
SAMPLE_LATE_S_MAX = 1.0                     # the largest delay of a sample
KEPT = qemu.BUILD / "soak"
DRIFT_PPM_MAX = 1000                        # the figure is reported; this bound catches a wrong frequency


class FaultyRun(abc.ABC):
    """`problems`: sentences; without one the run has passed. `samples`: (monotonic s, statistics by name)."""

    guest_address = machine.TAP_GUEST

    def __init__(self, seconds, directory, tools, seed):
        self.seconds, self.directory, self.tools = seconds, pathlib.Path(directory), tools
        self.key = "0x" + secrets.token_hex(32)
        self.begun, self.commit = time.monotonic(), commit()
        self.samples, self.problems = [], []
        self.wire = tools.enter_context(faulty_wire.Wire(
            directory, machine.TAP, bytes.fromhex(machine.MAC.replace(":", "")), seed))
        self.guest = None

    def start_guest(self, settings, image=qemu.IMAGE):
        options = [*qemu.kernel(settings, image=image), "-netdev", self.wire.netdev,
                   "-device", f"{machine.NICS['transitional']},netdev=net0,mac={machine.MAC}"]
        self.guest = self.tools.enter_context(
            qemu.Machine(options, memory=machine.Setup.memory, cpu=machine.CPUS["tcg"]))

    def client(self, key=None, timeout_s=1.0):
        return control.Client(self.guest_address, control.key_from_text(key or self.key), timeout_s=timeout_s)

    def set_faulty(self, faulty):
        self.wire.faulty = faulty

    @abc.abstractmethod
    def schedule(self):
        """Yields (seconds from the start, action) of the whole run."""

    def end_faults(self):
        """Makes the wire a good one."""
        self.set_faulty(False)

    def sample(self):
        """Keeps a sample of the guest's statistics; none if the guest does not answer."""
        try:
            values = control.parse(self.client(timeout_s=0.5).status())
        except control.ControlError:
            return
        text = pathlib.Path(f"/proc/{self.guest.process.pid}/status").read_text(encoding="ascii")
        values["rss"] = int(re.search(r"VmRSS:\s+(\d+)", text)[1]) << 10
        self.samples.append((time.monotonic(), values))

    @abc.abstractmethod
    def line(self):
        """Returns the text of each minute."""

    @abc.abstractmethod
    def end(self):
        """Ends the guest and what it played against."""

    @abc.abstractmethod
    def evaluate(self):
        """Adds the problems that the records show. Returns figures by name."""

    @abc.abstractmethod
    def keep(self):
        """Writes the records to KEPT, to find the cause of a problem."""

    def play(self):
        self.guest.wait_for(r"network: up", 60)
        actions = iter(self.schedule())
        action = next(actions, None)
        sample_s = 10 if self.seconds > 120 else 2
        next_sample, next_line = 3.0, 60.0
        while (now := time.monotonic() - self.begun) < self.seconds:
            if self.guest.process.poll() is not None:
                self.problems.append("the machine ended before the game")
                return
            if action and now >= action[0]:
                action[1]()
                action = next(actions, None)
            elif now >= next_sample:
                self.sample()
                next_sample = now + sample_s
            elif now >= next_line:
                print(f"soak: {now / 60:.0f} min: {self.line()}", flush=True)
                next_line += 60
            else:
                time.sleep(0.05)
        self.end_faults()
        time.sleep(3)
        self.sample()

    def send_home(self):
        """Orders the guest to leave, and waits for its reset."""
        if self.guest.process.poll() is None:
            try:
                self.client(timeout_s=5).gg()
                self.guest.wait_reset()
            except (control.ControlError, AssertionError) as error:
                self.problems.append(f"GG: {error}")

    # ---- the verdict

    def drift_ppm(self):
        (first_s, first), (last_s, last) = self.samples[0], self.samples[-1]
        guest_s = (last["program.uptime_ns"] - first["program.uptime_ns"]) / S_NS
        return (guest_s / (last_s - first_s) - 1) * 1e6, last_s - first_s

    def check_samples(self):
        """Adds a problem for each figure that grows, and for a wrong clock. Returns true if there are samples."""
        if len(self.samples) < 3:
            self.problems.append(f"only {len(self.samples)} samples of the statistics")
            return False
        quarter = max(1, len(self.samples) // 4)
        early, late = (statistics.median(values["rss"] for _, values in part)
                       for part in (self.samples[quarter:2 * quarter], self.samples[-quarter:]))
        if late - early > RSS_GROWTH_MAX:
            self.problems.append(f"QEMU's memory grew from {early} to {late} bytes")
        half = len(self.samples) // 2
        for name in ("pool.tx_buffers_free", "pool.rx_buffers_free"):
            first, last = (max(values[name] for _, values in part)
                           for part in (self.samples[:half], self.samples[half:]))
            if last < first - REFILL_BUFFERS:
                self.problems.append(f"{name}: {first} at most in the first half, {last} in the second")
        ppm, over_s = self.drift_ppm()
        if abs(ppm) > DRIFT_PPM_MAX and abs(ppm) * over_s > SAMPLE_LATE_S_MAX * 1e6:
            self.problems.append(f"the clock drifts by {ppm:.0f} ppm")
        return True

    def figures(self, prefixes):
        """Returns the figures of wire and samples that are kept; of the statistics those with these prefixes."""
        more = {"seconds": round(time.monotonic() - self.begun), "problems": self.problems,
                **{f"frames_{name}": count for name, count in self.wire.counts.items()}}
        if self.samples:
            last = self.samples[-1][1]
            more["drift_ppm"], more["drift_over_s"] = (round(value, 2) for value in self.drift_ppm())
            rss = [values["rss"] for _, values in self.samples]
            more["qemu_rss_bytes"] = [rss[len(rss) // 4], rss[-1]]
            more["statistics"] = {name: last[name] for name in sorted(last) if name.startswith(prefixes)}
        return more

    def rows(self, name):
        """Returns the file build/bench/NAME.json, for the commit at the start: the tree may have changed since."""
        rows = bench_rows.Rows(qemu.BUILD / f"bench/{name}.json")
        rows.commit = self.commit
        return rows

    def report(self):
        """Prints the last lines. Returns the text of the failure; none: the run has passed."""
        if len(self.samples) > 1:
            drift_ppm, over_s = self.drift_ppm()
            print(f"soak: the guest's clock is ahead of the host's by {drift_ppm:.1f} ppm over {over_s:.0f} s")
        print(f"soak: the wire: {self.wire.counts}")
        return "\n".join([*self.problems, "--- the guest's log ---", self.guest.log[-8000:]]) if self.problems else None


def run(kind, *words):
    """Plays kind(*words, its folder, an ExitStack of what ends with it) in the namespace. Returns it, and its figures.
    """
    with contextlib.ExitStack() as tools:
        directory = tools.enter_context(tempfile.TemporaryDirectory(prefix="peregrine-soak-"))
        machine.set_up_namespace()
        soak = kind(*words, directory, tools)
        try:
            soak.play()
        finally:
            soak.end()
        figures = soak.evaluate()
        soak.check_samples()
        if soak.problems:
            KEPT.mkdir(parents=True, exist_ok=True)
            soak.keep()
            print(f"soak: the records are kept in {KEPT}", flush=True)
        return soak, figures
