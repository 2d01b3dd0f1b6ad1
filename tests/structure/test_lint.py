"""tools/lint finds nothing in the rooms that each lint is held for. A finding is printed as file:line."""
import pytest

from workshop.lints import lints


@pytest.mark.parametrize("name", lints.LINTS)
def test_lint(name):
    lines = list(lints.LINTS[name](()))
    print("\n".join(lines))
    if lines and lines[0].startswith("skipped, "):
        pytest.skip(lines[0])
    findings = [line for line in lines if ": " in line]
    assert not findings, "\n".join(findings)
