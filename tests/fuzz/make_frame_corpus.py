#!/usr/bin/env python3
"""Seeds of fuzz_frame: frames of each kind, and frames of zeros in the sizes that records have."""
import struct
import sys
from pathlib import Path


def frame(kind, payload=b"", ticket=0, value=0):
    head = struct.pack("<IHHQQq", 0x4D4C5243, 1, kind, len(payload), ticket, value)
    return head + payload + bytes(-len(payload) % 8)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "corpus/frame")
folder.mkdir(parents=True, exist_ok=True)
(folder / "kinds").write_bytes(b"".join(frame(kind, b"payload", 7, -1) for kind in range(1, 11)))
(folder / "zeros").write_bytes(b"".join(frame(9, bytes(n)) for n in range(224, 320)))
(folder / "cut").write_bytes(frame(3, bytes(100))[:-9])
(folder / "version").write_bytes(frame(10)[:4] + b"\x02" + frame(10)[5:])
