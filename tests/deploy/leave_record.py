"""leave_record.py STATISTICS LOG KCORE: writes a program's statistics and log as a crash record, for a host that is a
directory. The memory is that of tests/deploy/fakehost.py; the record lies in the lowest region of the settings."""
import pathlib
import re
import sys

from deploy import blackbox
from tests.deploy.test_blackbox import kcore, make, region

MEMORY, REGION = 0x1000, 0x90000


def main():
    statistics, log, core = map(pathlib.Path, sys.argv[1:])
    said = log.read_text()
    cause = re.search(r"leaving: (.*)", said)[1]
    record = make(sections=[(blackbox.CAUSE, cause.encode()), (blackbox.STATISTICS, statistics.read_bytes()),
                            (blackbox.LOG, said.encode())])
    assert len(record) <= 32768 // 2
    core.write_bytes(kcore({MEMORY: bytes(REGION - MEMORY) + region(record)}))


if __name__ == "__main__":
    main()
