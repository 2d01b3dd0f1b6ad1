"""The quickest proofs of `make prove`, if Frama-C is here. Without it: nothing that a proof takes is missing."""
import re
import subprocess
import sys

import pytest

from tests.prove import prove

QUICK = ("dhcp", "tcp", "control", "ip", "arp", "virtqueue", "ip_payload", "trade_ouch", "trade_risk")
# A contract before a function: its clauses, and the function's name.
CONTRACT = re.compile(r"/\*@((?:(?!\*/).)*)\*/\n[^\n(]*?(\w+)\(", re.DOTALL)
PROVED = {function for _, _, functions in prove.CONTRACTS.values() for function in functions.split()}
# Frama-C's functions, and the one that Eva knows by its contract.
OF_EVA = {"Frama_C_make_unknown", "Frama_C_unsigned_long_interval", "Frama_C_show_each_assertion", "prove_holds"}


@pytest.mark.slow
@pytest.mark.parametrize("proof", QUICK)
def test_parser_has_no_run_time_error(proof):
    done = subprocess.run([sys.executable, prove.__file__, proof], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("proof", prove.CONTRACTS)
def test_proof_proves_each_postcondition_that_it_takes(proof):
    sources = prove.CONTRACTS[proof][1].split()
    texts = [(prove.ROOT / path).read_text() for source in sources for path in (source, source[:-1] + "h")]
    taken = {function for text in texts for clauses, function in CONTRACT.findall(text)
             if "ensures" in clauses and "admit ensures" not in clauses}
    assert taken and taken <= PROVED, f"postconditions that nothing proves: {taken - PROVED}"


@pytest.mark.parametrize("proof", prove.PROOFS)
def test_proof_has_the_code_of_each_function_that_it_reaches(proof, tmp_path):
    """An `else` that belongs to another `if` than its indent says would leave paths out."""
    command = ["gcc", "-Werror=dangling-else", "-I.", "-include", "tests/prove/include/prove.h", "-o",
               tmp_path / "proof", "-no-pie", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
               *(f"-Wl,--defsym={function}=0" for function in OF_EVA | PROVED), *prove.files_of(proof)]
    done = subprocess.run(command, cwd=prove.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
