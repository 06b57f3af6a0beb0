#!/usr/bin/env python3
"""Writes the seeds of fuzz_gguf to tests/fuzz/corpus/gguf: small whole files, and some that are wrong in one place."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats"))
import struct  # noqa: E402

from gguf_files import array, header, tensor, text, with_data  # noqa: E402

CORPUS = Path(__file__).resolve().parent / "corpus/gguf"
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
          12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 30: (1, 2)}


def scalar(key, kind, code, value):
    return text(key) + struct.pack("<I" + code, kind, value)


VALUES = [scalar("a", 0, "B", 1), scalar("b", 1, "b", -1), scalar("c", 2, "H", 2), scalar("d", 3, "h", -2), scalar("e", 4, "I", 3),
          scalar("f", 5, "i", -3), scalar("g", 6, "f", 0.5), scalar("h", 7, "B", 1), text("i") + struct.pack("<I", 8) + text("hi"),
          scalar("j", 10, "Q", 4), scalar("k", 11, "q", -4), scalar("l", 12, "d", 1.5)]
ARRAYS = [array("m", 4, 2) + struct.pack("<2I", 1, 2), array("n", 8, 3) + text("x") + text("") + text("yz"),
          array("o", 7, 2) + b"\0\1", array("p", 6, 1) + struct.pack("<f", 1), array("q", 0, 0)]


def all_types():
    infos, data = b"", 0
    for kind, (block, size) in BLOCKS.items():
        infos += tensor(f"t{kind}", [block, 2], kind, data)
        data += (2 * size + 31) // 32 * 32
    return with_data(header(3, len(BLOCKS)) + infos, data)


def alignment(value):
    return with_data(header(3, 1, 1) + scalar("general.alignment", 4, "I", value) + tensor("t", [4, 1, 2, 1], 0, 0), 64)


FILES = {
    "empty": b"", "magic": b"GGUF", "header": header(), "version2": header(2),
    "values": header(3, 0, len(VALUES)) + b"".join(VALUES), "arrays": header(3, 0, len(ARRAYS)) + b"".join(ARRAYS),
    "types": all_types(), "alignment64": alignment(64), "alignment7": alignment(7),
    "split": header(3, 0, 2) + scalar("split.count", 2, "H", 2) + scalar("split.no", 2, "H", 0),
    "overlap": with_data(header(3, 2) + tensor("a", [16], 0, 0) + tensor("b", [16], 0, 32), 128),
    "huge_dims": with_data(header(3, 1) + tensor("a", [2**62, 8], 0, 0), 64),
    "huge_array": header(3, 0, 1) + array("k", 4, 2**62) + bytes(32),
    "nested": header(3, 0, 1) + array("k", 9, 1) + struct.pack("<IQB", 0, 1, 1),
    "twice": header(3, 0, 2) + scalar("k", 0, "B", 1) * 2,
}

if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (CORPUS / name).write_bytes(content)
