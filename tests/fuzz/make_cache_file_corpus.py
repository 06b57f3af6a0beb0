#!/usr/bin/env python3
"""Writes the seeds of fuzz_cache_file to tests/fuzz/corpus/cache_file: records of blocks, whole and wrong in one place."""
import hashlib
import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus/cache_file"
MODEL, KEY = bytes([1]) + bytes(31), bytes([2]) + bytes(31)
MAGIC = b"MRBLOCK\n"


def record(contents, version=1, model=MODEL):
    group = MAGIC[0] % 8  # as the fuzz target chooses it
    head = MAGIC + struct.pack("<IIQ", version, group, len(contents)) + hashlib.sha256(model + KEY).digest()
    return head + hashlib.sha256(head + contents).digest() + contents


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    whole = record(bytes(range(64)))
    seeds = {"whole": whole, "empty_contents": record(b""), "cut": whole[:-1], "header_alone": whole[:88], "short": whole[:40],
             "other_version": record(b"x" * 16, version=2), "other_model": record(b"x" * 16, model=KEY), "nothing": b""}
    for name, seed in seeds.items():
        (CORPUS / name).write_bytes(seed)


if __name__ == "__main__":
    main()
