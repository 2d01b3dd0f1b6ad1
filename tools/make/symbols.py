#!/usr/bin/python3
"""Writes the table of kernel/rescue/symbols.h from `nm` of an image on stdin. An empty input makes an empty table."""
import sys

symbols = []
for line in sys.stdin:
    fields = line.split()
    if len(fields) == 3 and fields[1] in "tTwW" and not fields[2].startswith("trap_stub_"):
        symbols.append((int(fields[0], 16), fields[2]))
symbols.sort()

print('#include "kernel/rescue/symbols.h"\n')
print('const uint32_t symbol_addresses[] __attribute__((section(".symbols"))) = {')
for address, _ in symbols:
    print(f"    {address:#x},")
print("    0,\n};")
print(f'const size_t symbol_count __attribute__((section(".symbols"))) = {len(symbols)};')
print('const char symbol_names[] __attribute__((section(".symbols"))) =')
for _, name in symbols:
    print(f'    "{name}\\0"')
print('    "";')
