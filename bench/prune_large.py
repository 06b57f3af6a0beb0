#!/usr/bin/env python3
"""What it takes to prune and quantise a model that does not fit into memory as floats, into its part of docs/compression.md.

    bench/prune_large.py 7b-q4_0.gguf --folder /somewhere/with/room

Two commands, one after the other, each with its time and the peak of its memory as the system counts it (resident set); then both
models in turn, round by round, for the rate of one answer."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from page import ROOT, cpu_name, write_part


def measure(*command):
    """(seconds, peak bytes, standard output) of a command that succeeds."""
    print("+", *map(str, command), file=sys.stderr, flush=True)
    begin = time.monotonic()
    p = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    out = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    if status != 0:
        sys.exit(f"{command[1]} failed")
    return time.monotonic() - begin, usage.ru_maxrss * 1024, out


def rate(a, model):
    r = json.loads(measure(a.millrace, "bench", "-m", model, "--prompt", 0, "--gen", a.gen, "--repeat", 1, "--json")[2])
    return next(x["tok_s"] for x in r["results"] if x["test"] == "decode")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    p.add_argument("--ratio", type=float, default=0.2)
    p.add_argument("--parts", default="heads,channels")
    p.add_argument("--quantise", default="q4_0")
    p.add_argument("--rounds", type=int, default=3, help="of both models; 0: no rates")
    p.add_argument("--gen", type=int, default=16)
    p.add_argument("--folder", default=None, help="for the files in between (default: the system's temporary folder)")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    rows, pairs = [], []
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        pruned, small = Path(folder, "pruned.gguf"), Path(folder, "small.gguf")
        seconds, peak, out = measure(a.millrace, "prune", a.model, pruned, "--ratio", a.ratio, "--parts", a.parts, "--importance", "weight",
                                     "--json")
        shape = json.loads(out)
        rows.append(("prune", seconds, peak, pruned.stat().st_size))
        seconds, peak, _ = measure(a.millrace, "quantize", pruned, small, "--type", a.quantise)
        rows.append(("quantize", seconds, peak, small.stat().st_size))
        pruned.unlink()
        for _ in range(a.rounds):
            pairs.append((rate(a, a.model), rate(a, small)))
    before, after = shape["before"], shape["after"]
    lines = [f"A model of {before['weights'] / 1e9:.2f} G weights ({4 * before['weights'] / 1e9:.0f} GB as floats) on {cpu_name()}, "
             f"{os.cpu_count()} CPUs: {100 * (1 - after['weights'] / before['weights']):.0f} % of its weights pruned (key/value heads "
             f"{before['kv_heads']} to {after['kv_heads']}, channels {before['channels']} to {after['channels']}), then quantised to "
             f"`{a.quantise}`:", "", "| command | seconds | peak memory, GB | file, GB |", "|---|--:|--:|--:|",
             f"| as it was | | | {a.model.stat().st_size / 1e9:.2f} |"]
    lines += [f"| `millrace {name}` | {seconds:.0f} | {peak / 1e9:.2f} | {size / 1e9:.2f} |" for name, seconds, peak, size in rows]
    if pairs:
        ratio = statistics.median(after / before for before, after in pairs)
        lines += ["", f"One answer: {statistics.median(p[0] for p in pairs):.2f} tok/s before, {statistics.median(p[1] for p in pairs):.2f} "
                  f"after, in turn over {a.rounds} rounds: {ratio:.2f} times; its bytes say {a.model.stat().st_size / rows[-1][3]:.2f}."]
    write_part(a.output / "compression.md", "bench/prune_large.py", "\n".join(lines))


if __name__ == "__main__":
    main()
