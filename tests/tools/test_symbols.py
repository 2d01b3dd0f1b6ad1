"""The table of function names in the image. tests/unit/symbols_test.c reads the same table."""
import subprocess

from workshop.vm import qemu

NM = """0000000001000000 R image_begin
00000000010041b0 T matcher_push
0000000001000010 T start
0000000001000020 t startle
00000000010001b0 t star
0000000001000300 t trap_stub_14
0000000001000310 d data
"""
TABLE = (b"\x10\0star" + bytes([ord("t") | 128]) + b"\x10\5l" + bytes([ord("e") | 128]) + b"\x90\3\3"
         + bytes([ord("r") | 128]) + b"\x80\x80\1\0matcher_pus" + bytes([ord("h") | 128]))


def symbols(nm):
    program = qemu.ROOT / "tools/workshop/make/symbols.py"
    done = subprocess.run([program], input=nm, capture_output=True, text=True, check=True)
    body = done.stdout.partition("{")[2].partition("}")[0]
    count = int(done.stdout.rpartition("= ")[2].rstrip(";\n"))
    return bytes(map(int, body.replace(",", " ").split()))[:count]


def test_names_share_what_they_have_in_common():
    assert symbols(NM) == TABLE


def test_empty_input_makes_an_empty_table():
    assert symbols("") == b""
