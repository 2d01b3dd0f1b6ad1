#!/usr/bin/python3
"""Writes the table of kernel/rescue/symbols.h from `nm` of an image on stdin. An empty input makes an empty table."""
import os
import sys

NAME_BYTES_MAX = 63             # SYMBOL_NAME_BYTES_MAX
MORE = 0x80


def distance_bytes(distance):
    """Returns a number, seven bits a byte, the lowest first; MORE in all bytes but the last."""
    encoded = bytearray()
    while distance >= MORE:
        encoded.append(distance & (MORE - 1) | MORE)
        distance >>= 7
    return bytes([*encoded, distance])


def table(symbols, begin):
    """Returns the table of {address: name}, as bytes."""
    encoded, before, at = bytearray(), "", begin
    for address, name in sorted(symbols.items()):
        name = name[:NAME_BYTES_MAX]
        shared = len(os.path.commonprefix([before, name[:-1]]))
        rest = name[shared:].encode("ascii")
        encoded += distance_bytes(address - at) + bytes([shared]) + rest[:-1] + bytes([rest[-1] | MORE])
        before, at = name, address
    return bytes(encoded)


def main():
    symbols, begin = {}, 0
    for line in sys.stdin:
        fields = line.split()
        if len(fields) == 3 and fields[2] == "image_begin":
            begin = int(fields[0], 16)
        if len(fields) == 3 and fields[1] in "tTwW" and not fields[2].startswith("trap_stub_"):
            symbols[int(fields[0], 16)] = fields[2]
    encoded = table(symbols, begin)
    print('#include "kernel/rescue/symbols.h"\n')
    print('const uint8_t symbol_table[] __attribute__((section(".symbols"))) = {')
    for at in range(0, len(encoded), 20):
        print(f"    {', '.join(map(str, encoded[at:at + 20]))},")
    print("    0,\n};")
    print(f'const size_t symbol_table_bytes __attribute__((section(".symbols"))) = {len(encoded)};')


if __name__ == "__main__":
    main()
