"""Proves with Frama-C that the parsers which read a stranger's bytes have no run-time error.

    tests/prove/prove.py [NAME ...]     all proofs, or some

A proof by Eva is tests/prove/NAME.c, which calls the product's functions with any bytes. A proof by WP takes the
contracts that stand before the product's functions, for bytes of any number. Each alarm must stand in known_alarms with
its reason. Exit status 1: an alarm is not in known_alarms, or a known one no longer comes. 77: Frama-C is missing."""
import concurrent.futures
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path("tests/prove")
PROCESSOR_SECONDS_MAX = 600

SETTINGS = ("base/settings.c base/text.c base/format.c "
            "app/player/settings.c app/service/settings.c kernel/settings.c net/settings.c net/capture/capture.c")
SETTINGS_SLEVELS = ("prove_state_begin:50,settings_begin:200,set_value:200,number_fits:10,"
                    "set_choice:50,set_text:200,set_endpoint:1000,set_endpoints:2000,"
                    "add_word:5000,text_skip:200,text_is:50,text_to_string:200,text_number:50,text_duration:2000,"
                    "text_chance:5000,set_key:300,set_ip:1000,set_mac:2000,set_gwmac:50,set_nic:50,set_lease:2000,"
                    "set_dhcp_send:2000,identity_add:300,"
                    "set_blackbox:5000,set_capture:2000,set_test_methods:2000,set_m:5000")
# A part of a value keeps its own length if text_split is read in its callers. The messages have a proof of their own.
SETTINGS_OPTIONS = ("-inline-calls", "text_split,find",
                    "-eva-use-spec", "fail_value,fail_word,fail_hidden,fail_key,fail_row,mistake_in_row,text_address",
                    "-eva-split-return-function", "text_is:0,text_skip:0,text_number:0,number_fits:0")

# One row for each proof: its title, the product's files, the functions whose paths Eva keeps apart and their number,
# more options.
PROOFS = {
    "dhcp": ("DHCP messages", "net/ip/dhcp.c base/siphash.c", "dhcp_input:50,siphash:50", ()),
    "tcp": ("TCP header and options", "net/tcp/input.c net/tcp/options.c net/ip/checksum.c",
            "segment_parse:5,checksum_sum_wide:100", ()),
    "http_response": ("HTTP responses", "net/http/response.c net/http/chunks.c",
                      "step:20,between_chunks:200,http_response_step:20,step_to_body:50,head_byte:50,"
                      "chunk_bytes_usual:50,in_body:5,chunk_byte:200,http_chunks_take:50,next_state:50,"
                      "size_take:50,trailer_first:20,line_ends:10",
                      ("-eva-widening-delay", "30", "-inline-calls", "http_chunks_take", "-eva-split-return-function",
                       "chunk_bytes_usual:0,in_body:0,next_state:5:14,size_take:14,trailer_first:14,line_ends:14")),
    "control": ("control datagrams", "app/service/control.c app/service/control_text.c base/hmac.c base/sha256.c "
                "base/siphash.c",
                "datagram:10,control_datagram:20,hmac_key_set:70,sha256_add:20,sha256_finish:20,sha256_schedule:70,"
                "sha256_compress:70,sha256_block:20,transport_udp_send:200,make_challenge:5,siphash:40,"
                "length_is_right:20,take_set:10,set:200",
                ("-eva-split-return-function", "length_is_right:0")),
    "ip": ("VLAN tags, Ethernet and IPv4 headers", "net/ip/ipv4.c net/ip/ipv4_route.c net/ip/ethernet.c net/ip/vlan.c "
           "net/ip/checksum.c",
           "accept:100,vlan_strip:20,ethernet_accept:20",
           ("-eva-use-spec", "checksum_sum", "-eva-split-return-function", "ethernet_accept:0")),
    "arp": ("ARP", "net/ip/arp.c net/ip/ipv4_route.c",
            "table_any:400,arp_input:20,entry_claimed:20,arp_peek:50,held_release:400", ()),
    "virtqueue": ("virtio's used ring", "", "use:20,virtqueue_peek:20,virtqueue_take:20",
                  ("-eva-split-return-function", "virtqueue_peek:0")),
    "reassembly": ("reassembly", "net/ip/reassembly.c", "accept:20,slots_any:20", ()),
    "ip_payload": ("ICMP and UDP", "net/ip/icmp.c net/ip/udp.c net/ip/ipv4_route.c net/ip/checksum.c",
                   "accept:100,fast:100,udp_fast_receive:20",
                   ("-eva-use-spec", "checksum_sum,checksum_sum_wide",
                    "-eva-split-return-function", "udp_fast_receive:0")),
    "settings_values": ("settings: values", SETTINGS,
                        f"values:5000,bytes_max:20,long_numbers:1000,value:200,{SETTINGS_SLEVELS}", SETTINGS_OPTIONS),
    "settings_words": ("settings: words", SETTINGS, f"word:200,{SETTINGS_SLEVELS}", SETTINGS_OPTIONS),
    "settings_messages": ("settings: messages", SETTINGS, "", ("-eva-min-loop-unroll", "600")),
    "checksum": ("Internet checksum", "net/ip/checksum.c", "checksum_sum_wide:100", ()),
    "nasdaq_mold": ("MoldUDP64 datagrams", "app/nasdaq/mold.c", "mold_init:1100,take:5000",
                   ("-eva-slevel", "200", "-eva-domains", "octagon,equality", "-eva-split-return-function",
                    f"take:{':'.join(map(str, range(64)))},mold_take:full,mold_advance:full,announce:full,"
                    "gap_began:full,make_due:full,store:full,mold_next:0,blocks_are_whole:0")),
    "nasdaq_soup": ("SoupBinTCP packets", "app/nasdaq/soup.c base/text.c", "packet:5000",
                   ("-eva-slevel", "300", "-eva-split-return-function",
                    "give:0,soup_next:0:1,take_packet:0:1,next_packet:0,gather:0,text_number:0,soup_read_number:0")),
    "trade_book": ("ITCH messages", "app/trade/book.c app/trade/book_tables.c app/nasdaq/itch.c", "malformed:5000",
                   ("-eva-slevel", "60", "-eva-split-return-function", "level_add:0,order_add:0")),
    "trade_ouch": ("OUCH responses", "app/trade/ouch.c app/trade/ouch_responses.c", "orders_any:1000",
                   ("-eva-slevel", "20", "-eva-plevel", "400", "-eva-split-return-function", "has_length:0")),
    "trade_risk": ("limits of an order", "", "risk_check:100", ()),
}

# The title, the product's files, and the functions whose contracts WP proves.
CONTRACTS = {
    "http_request": ("HTTP requests", "net/http/request.c base/text.c",
                     "http_request_head_bytes http_request_parse http_is_token has_control has_no_tab is_authority "
                     "is_blank line_split target_split lower same_name token_bytes trimmed length_take connection_take "
                     "field_take fields_take framing_refused version_take text_of text_is text_to_string text_skip "
                     "text_starts text_split text_digit_is text_hex_digit text_number text_address text_duration "
                     "text_chance"),
    "settings_text": ("settings: a text into words", "base/settings.c base/format.c", "settings_add is_space"),
}
# Preconditions of this name are not proved: they say that a C string ends, and each such argument is a literal.
TERMINATED = "terminated"
GOAL_SECONDS_MAX = 60

MISSING_SPEC = ["-kernel-warn-key", "annot:missing-spec=error"]
COMMON = ["-c11", "-machdep", "gcc_x86_64", "-cpp-extra-args=-I. -include tests/prove/include/prove.h",
          *MISSING_SPEC, "-eva", "-eva-precision", "0", "-eva-widening-delay", "10", "-eva-ilevel", "32"]


def run(command):
    """Returns the exit code and the output of Frama-C, whose processor time is bounded: the machine may be busy."""
    bound = f"--cpu={PROCESSOR_SECONDS_MAX}:{PROCESSOR_SECONDS_MAX + 1}"
    done = subprocess.run(["prlimit", bound, *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == -signal.SIGXCPU:
        return 1, f"no end after {PROCESSOR_SECONDS_MAX} s of processor time"
    return done.returncode, done.stdout + done.stderr


def failure(text):
    """Returns the functions that Frama-C knows nothing of, and its last lines."""
    unknown = sorted(set(re.findall(r"Neither code nor specification for function (\w+)", text)))
    return "\n".join([f"neither code nor contract: {function}" for function in unknown] + text.splitlines()[-15:])


def files_of(name):
    """Returns the files of a proof by Eva: its own, and those of the product's that it does not include."""
    harness = HERE / f"{name}.c"
    included = set(re.findall(r'#include "([^"]+\.c)"', (ROOT / harness).read_text()))
    return [str(harness), "tests/prove/include/assertion.c", *sorted(set(PROOFS[name][1].split()) - included)]


def eva(name, csv_path):
    """Runs one proof by Eva. Returns its exit code and its output."""
    _, _, slevels, options = PROOFS[name]
    return run(["frama-c", *COMMON, *options, "-eva-slevel-function", ",".join(filter(None, ["main:5000", slevels])),
                *files_of(name), "-then", "-report-csv", str(csv_path)])


def prove_contracts(name):
    """Runs one proof by WP. An alarm is a goal that no prover reached."""
    began = time.monotonic()
    _, sources, functions = CONTRACTS[name]
    subprocess.run(["why3", "config", "detect"], capture_output=True)
    code, text = run(["frama-c", "-c11", "-machdep", "gcc_x86_64",
                      "-cpp-extra-args=-I. -DPROVE_CONTRACTS -include tests/prove/include/prove.h",
                      "-wp", "-wp-rte", "-wp-model", "Typed+Cast", "-wp-prover", "z3", "-wp-par", "2",
                      "-wp-timeout", str(GOAL_SECONDS_MAX), f"-wp-prop=-{TERMINATED}",
                      "-wp-fct", ",".join(functions.split()), *MISSING_SPEC, *sources.split()])
    goals = re.search(r"Proved goals:\s+(\d+) / (\d+)", text)
    if code or not goals:
        return {"name": name, "failed": failure(text)}
    alarms = re.findall(r"Goal typed_cast_(\w+) : (?!Valid)\w+", text)
    return {"name": name, "failed": None, "alarms": [("goal", alarm) for alarm in alarms],
            "functions": sorted(re.findall(r"annotating function (\w+)", text)),
            "reached": goals.groups(), "seconds": time.monotonic() - began}


def is_proved_by_wp(row):
    """Returns true if the property is a postcondition of a contract that WP proves."""
    function = re.sub(r"_\d+$", "", row["function"])
    return row["property kind"] == "postcondition" and any(function in c[2].split() for c in CONTRACTS.values())


def alarms_of(csv_path, text):
    """Returns the properties and assertions that Eva could not prove: (function, assertion) each, without
    repetition."""
    with open(csv_path) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    proved = ("Valid", "Considered valid", "Dead", "Unreachable")
    alarms = {(row["function"], " ".join(row["property"].split())) for row in rows
              if row["function"] != "Frama_C_show_each_assertion" and not row["status"].startswith(proved)
              and not is_proved_by_wp(row)}
    failed = re.findall(r'Frama_C_show_each_assertion:\s+{{ "(.*)" }}', text)
    return sorted(alarms | {("ASSERT", condition) for condition in failed})


def functions_of(name, text):
    """Returns the product's functions that Eva went through, without the harness's and the stubs'."""
    own = (ROOT / HERE / f"{name}.c").read_text()
    found = {re.sub(r"_\d+$", "", function) for function in re.findall(r"Values at end of function (\w+):", text)}
    return sorted(function for function in found if not function.startswith(("Frama_C_", "prove_", "assert_failed"))
                  and not re.search(rf"^\w[\w *]*\b{function}\(", own, re.M))


def prove(name):
    return prove_contracts(name) if name in CONTRACTS else prove_any_input(name)


def prove_any_input(name):
    """Runs one proof by Eva."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        csv_path = Path(folder) / "properties.csv"
        code, text = eva(name, csv_path)
        if code or not csv_path.exists():
            return {"name": name, "failed": failure(text)}
        alarms = alarms_of(csv_path, text)
    reached = re.search(r"(\d+) statements reached \(out of (\d+)\)", text)
    return {"name": name, "failed": None, "alarms": alarms, "functions": functions_of(name, text),
            "reached": reached.groups() if reached else ("0", "0"), "seconds": time.monotonic() - began}


def known_alarms():
    """Returns {(proof, function, assertion): reason}."""
    known = {}
    for line in (ROOT / HERE / "known_alarms").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            proof, function, assertion, reason = (part.strip() for part in line.split(" | "))
            known[proof, function, assertion] = reason
    return known


def find_faults(results, known):
    """Returns the faults of all proofs as lines."""
    wrong = []
    for result in results:
        name = result["name"]
        if result["failed"]:
            wrong.append(f"{name}: Frama-C failed:\n{result['failed']}")
            continue
        alarms = {(name, *alarm) for alarm in result["alarms"]}
        listed = {key for key in known if key[0] == name}
        wrong += [f"{name}: new alarm in {key[1]}: {key[2]}" for key in sorted(alarms - listed)]
        wrong += [f"{name}: listed alarm is gone in {key[1]}: {key[2]}" for key in sorted(listed - alarms)]
    return wrong


def main(names):
    if not shutil.which("frama-c"):
        print("prove: Frama-C is missing; as root: apt-get install --no-install-recommends frama-c-base")
        return 77
    titles = {name: row[0] for name, row in (PROOFS | CONTRACTS).items()}
    unknown = [name for name in names if name not in titles]
    if unknown:
        print(f"prove: no proof {', '.join(unknown)}; there are {', '.join(titles)}")
        return 2
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = list(pool.map(prove, names or titles))
    known = known_alarms()
    print(f"{'proof':<28}{'functions':>10}{'statements or goals':>20}{'alarms':>8}{'seconds':>9}")
    for result in results:
        if not result["failed"]:
            print(f"{titles[result['name']]:<28}{len(result['functions']):>10}{' of '.join(result['reached']):>20}"
                  f"{len(result['alarms']):>8}{result['seconds']:>9.1f}")
    for result in results:
        print(f"\n{result['name']}: {' '.join(result.get('functions', ()))}")
    reasons = [(key, reason) for key, reason in known.items() if key[0] in [result["name"] for result in results]]
    if reasons:
        print("\nAlarms that stand, and why:")
        for (proof, function, assertion), reason in reasons:
            print(f"  {proof}, {function}: {assertion}\n      {reason}")
    wrong = find_faults(results, known)
    print("\n" + "\n".join(wrong) if wrong else f"\nno alarm beyond the table, {time.monotonic() - began:.0f} s in all")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
