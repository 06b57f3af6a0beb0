"""GGUF files for the tests: written with the PyPI package gguf, or byte by byte."""
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release"))
MILLRACE = os.environ.get("MILLRACE", str(BUILD / "millrace"))
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*command, **kwargs):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1800, **kwargs)


def write_model(path, **kwargs):
    """A small file with every kind of value and several tensors."""
    w = GGUFWriter(path, "llama", **kwargs)
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -100)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -30000)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -2000000000)
    w.add_uint64("t.u64", 2**64 - 1)
    w.add_int64("t.i64", -(2**63))
    w.add_float32("t.f32", 0.1)
    w.add_float64("t.f64", 0.1)
    w.add_bool("t.yes", True)
    w.add_bool("t.no", False)
    w.add_string("t.text", "grüße \U0001f44d\n")
    w.add_string("t.empty", "")
    w.add_array("t.ints", [1, -2, 3])
    w.add_array("t.floats", [0.5, -1.5])
    w.add_array("t.bools", [True, False])
    w.add_array("t.words", ["a", "", "ccc"])
    r = np.random.default_rng(1)
    w.add_tensor("token_embd.weight", r.standard_normal((7, 64)).astype(np.float32))
    w.add_tensor("norm", r.standard_normal(5).astype(np.float32))
    w.add_tensor("half", r.standard_normal((3, 2, 9)).astype(np.float16))
    w.add_tensor("cube", r.standard_normal((2, 3, 4, 5)).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def contents(paths):
    """What the PyPI reader finds: values by key, and tensors by name as (type, shape, bytes)."""
    values, tensors = {}, {}
    for i, path in enumerate(paths):
        r = GGUFReader(path)
        if i == 0:
            values = {k: (f.types, f.contents()) for k, f in r.fields.items() if not k.startswith("GGUF.")}
        for t in r.tensors:
            tensors[t.name] = (t.tensor_type.name, t.shape.tolist(), t.data.tobytes())
    return values, tensors


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(s)) + s


def header(version=3, n_tensors=0, n_values=0):
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_values)


def array(key, kind, n):
    return text(key) + struct.pack("<IIQ", 9, kind, n)


def tensor(name, dims, kind, offset, n_dims=None):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims) if n_dims is None else n_dims, *dims, kind, offset)


def with_data(head, n):
    return head + bytes(-len(head) % 32) + bytes(n)
