"""The parts of tools/peregrine: reach HOST, gather its facts, judge them, hand them to the kernel, read its record."""
