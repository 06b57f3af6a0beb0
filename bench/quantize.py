"""Our encoders beside ggml's, at the same types, with the same statistics: perplexity, KL divergence and time, into docs/compression.md.

Needs the packages gguf, numpy and xllamacpp, whose shared library exports ggml's encoders:
    scripts/sharegpt_text.py models/sharegpt.json --bytes 60KB > train.txt
    scripts/sharegpt_text.py models/sharegpt.json --skip 20MB --bytes 24KB > held-out.txt
    bench/quantize.py MODEL.gguf --calibrate train.txt --text held-out.txt
The base is the model in fp32 (dequantised, where the file has fewer bits). The peer's file is ours with the data of each quantised
tensor encoded again by ggml, so that types, sizes and everything else are the same.
"""
import argparse
import ctypes
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from gguf import GGUFReader

ROOT = Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", type=Path)
parser.add_argument("--calibrate", type=Path, required=True, help="text for the statistics")
parser.add_argument("--text", type=Path, required=True, help="held-out text")
parser.add_argument("--types", default="q2_k,q3_k_m,q4_0,q4_k_m,q5_k_m", help="mixes, with commas between")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--millrace", type=Path, default=ROOT / "build/release/millrace")
parser.add_argument("--docs", type=Path, default=ROOT / "docs/compression.md")
arguments = parser.parse_args()


def millrace(*args):
    r = subprocess.run([arguments.millrace, *map(str, args)], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stderr)
    return r.stdout


def ggml():
    import xllamacpp
    library = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    return library


def means(path):
    """Mean squares of the inputs of each tensor, as the statistics have them."""
    tensors = {t.name: np.array(t.data) for t in GGUFReader(str(path)).tensors}
    return {name.removesuffix(".in_sum2"): (sums / tensors[name.removesuffix(".in_sum2") + ".counts"].reshape(-1, 1)).astype(np.float32)
            for name, sums in tensors.items() if name.endswith(".in_sum2")}


def encode_again(library, base, ours, peer, statistics):
    """Overwrite the quantised data in a copy of our file; seconds that took."""
    shutil.copy(ours, peer)
    values = {t.name: t for t in GGUFReader(str(base)).tensors}
    seconds = 0
    for t in GGUFReader(str(peer), "r+").tensors:
        source = values[t.name]
        if t.tensor_type == source.tensor_type:
            continue
        x = np.ascontiguousarray(source.data, np.float32).reshape(-1, int(t.shape[0]))
        out, weight = np.zeros(t.data.nbytes, np.uint8), statistics.get(t.name)
        row, pieces = t.data.nbytes // len(x), np.array_split(np.arange(len(x)), arguments.threads * 4)

        def piece(rows):
            if len(rows):
                library.ggml_quantize_chunk(int(t.tensor_type), x[rows[0]:].ctypes.data, out[rows[0] * row:].ctypes.data, 0, len(rows),
                                            x.shape[1], weight.ctypes.data if weight is not None else None)

        begin = time.monotonic()
        with ThreadPoolExecutor(arguments.threads) as pool:
            list(pool.map(piece, pieces))
        seconds += time.monotonic() - begin
        t.data.reshape(-1).view(np.uint8)[:] = out
    return seconds


def main():
    library, rows = ggml(), []
    with tempfile.TemporaryDirectory() as folder:
        base, statistics = Path(folder, "base.gguf"), Path(folder, "statistics.gguf")
        millrace("quantize", arguments.model, base, "--type", "f32", "--requantize")
        millrace("calibrate", "-m", base, "-f", arguments.calibrate, statistics, "-t", arguments.threads)
        weights = means(statistics)
        for mix in arguments.types.split(","):
            ours, peer = Path(folder, f"millrace-{mix}.gguf"), Path(folder, f"ggml-{mix}.gguf")
            report = json.loads(millrace("quantize", base, ours, "--type", mix, "--imatrix", statistics, "-t", arguments.threads, "--json"))
            peer_seconds = encode_again(library, base, ours, peer, weights)
            results = json.loads(millrace("eval", ours, peer, "--base", base, "-f", arguments.text, "-t", arguments.threads, "--json"))
            for who, seconds, e in zip(("millrace", "ggml"), (report["seconds"], peer_seconds), results):
                text = e["text"]
                rows.append(f"| {mix} | {who} | {e['file_bytes'] / 1e6:.1f} | {text['perplexity']:.3f} | "
                            f"{text['kl']['mean']:.5f} ± {1.96 * text['kl']['stderr']:.5f} | "
                            f"{100 * text['same_top']['mean']:.2f} % | {seconds:.2f} |")
                print(rows[-1], flush=True)
    name = arguments.model.stem
    table = [f"<!-- quantize {name} -->", f"`bench/quantize.py` on {name}, against its fp32 form (the shipped file dequantised where it has "
             f"fewer bits: weights on a grid already); times with {arguments.threads} threads, "
             "ours with reading and writing, ggml's for encoding alone:", "",
             "| mix | encoder | file MB | perplexity | KL, nats | same top token | seconds |", "|---|---|--:|--:|--:|--:|--:|", *rows,
             f"<!-- end {name} -->"]
    docs, block = arguments.docs.read_text(), "\n".join(table)
    old = re.compile(f"<!-- quantize {re.escape(name)} -->.*?<!-- end {re.escape(name)} -->", re.S)
    arguments.docs.write_text(old.sub(lambda _: block, docs) if old.search(docs) else docs.rstrip("\n") + "\n\n" + block + "\n")


main()
