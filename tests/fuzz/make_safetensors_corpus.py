"""The corpus of fuzz_safetensors: small files, good ones and ones with a single fault."""
import json
import struct
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus/safetensors"


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HEADERS = {
    "empty": ({}, 0),
    "one": ({"a": entry([2, 3], 0, 24)}, 24),
    "two": ({"__metadata__": {"format": "pt"}, "a": entry([2], 0, 8), "b": entry([4, 2], 8, 24, "F16")}, 24),
    "scalar": ({"a": entry([], 0, 4)}, 4),
    "no_values": ({"a": entry([0, 5], 0, 0), "b": entry([1], 0, 4)}, 4),
    "hole": ({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, 12),
    "overlap": ({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12),
    "short": ({"a": entry([2], 0, 8)}, 4),
    "long": ({"a": entry([2], 0, 8)}, 12),
    "huge": ({"a": entry([2 ** 40, 2 ** 40], 0, 8)}, 8),
    "type": ({"a": entry([2], 0, 8, "Q4")}, 8),
    "backwards": ({"a": entry([2], 8, 0)}, 8),
    "dims": ({"a": entry([1] * 9, 0, 4)}, 4),
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (header, n) in HEADERS.items():
        text = json.dumps(header).encode()
        (FOLDER / name).write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(n)))
    (FOLDER / "length").write_bytes(struct.pack("<Q", 2 ** 63) + b"{}")
    (FOLDER / "nested").write_bytes(struct.pack("<Q", 3000) + b'{"a":' * 600)


if __name__ == "__main__":
    main()
