#!/usr/bin/env python3
"""What fewer key/value heads cost and bring, into its part of docs/compression.md.

    scripts/experiments.py kv
    bench/kv_heads.py models/SmolLM2-135M-Instruct.Q4_1.gguf --text held-out.txt

The model, the same with its key/value heads merged to --kv-heads, and that one distilled (--distilled, or what scripts/experiments.py
left in build/experiments/kv.gguf, or --steps of training here and now), all three with weights of --type: bytes of the cache, rate of
one answer behind 4096 tokens, in turn, and what the predictions of the text are worth beside the model itself. build/kv-heads.json
keeps the figures; --page writes the page again from there."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from page import ROOT, cpu_name, write_part

KEPT = ROOT / "build/kv-heads.json"
EXPERIMENT = ROOT / "build/experiments/kv.gguf"


def millrace(a, *args):
    print("+ millrace", *map(str, args), file=sys.stderr, flush=True)
    r = subprocess.run([a.millrace, *map(str, args)], stdout=subprocess.PIPE, text=True)
    if r.returncode != 0:
        sys.exit(f"millrace {args[0]} failed")
    return r.stdout


def distilled(a, folder, merged):
    """(file, what was trained) of the distilled model; None: there is none."""
    if a.steps > 0:
        out = Path(folder, "distilled.gguf")
        curve = json.loads(millrace(a, "distill", "-m", merged, "--teacher", a.model, "-f", a.train, "-o", out, "--steps", a.steps,
                                    "--tokens", 256, "--batch", 2, "--accumulate", 2, "--rate", "5e-4", "--warmup", a.steps // 10 + 1,
                                    "--held-out", 8, "--type", "f32", "--json"))["curve"]
        return out, curve[-1]["tokens"]
    if a.distilled is not None or EXPERIMENT.exists():
        path = a.distilled or EXPERIMENT
        curve = path.with_suffix(".json")
        return path, json.loads(curve.read_text())["curve"][-1]["tokens"] if curve.exists() else 0
    return None


def measure(a, folder):
    merged = Path(folder, "merged.gguf")
    millrace(a, "prune", a.model, merged, "--kv-heads", a.kv_heads, "--type", "f32")
    files, trained = {"as it is": a.model, "merged": merged}, 0
    if found := distilled(a, folder, merged):
        files["merged, distilled"], trained = found
    rows = {}
    for i, (name, path) in enumerate(files.items()):
        out = Path(folder, f"{i}.gguf")
        millrace(a, "quantize", path, out, "--type", a.type, "--requantize")
        shape = json.loads(millrace(a, "inspect", out, "--json"))
        heads = next(v for k, v in shape["metadata"].items() if k.endswith(".head_count_kv"))
        rows[name] = {"path": out, "heads": heads, "kv": shape["needs"]["kv_bytes_per_token"], "bytes": out.stat().st_size, "rate": []}
    base = rows["as it is"]["path"]
    for row in rows.values():
        e = json.loads(millrace(a, "eval", row["path"], "--base", base, "-f", a.text, "--json"))[0]["text"]
        row.update(perplexity=e["perplexity"], base=e["base_perplexity"], same=e["same_top"]["mean"], kl=e["kl"]["mean"])
    for _ in range(a.rounds):
        for row in rows.values():
            r = json.loads(millrace(a, "bench", "-m", row["path"], "--prompt", 0, "--gen", a.gen, "--depth", a.depth, "--repeat", 1,
                                    "--json"))
            row["rate"].append(r["results"][0]["tok_s"])
    for row in rows.values():
        del row["path"]
    return {"model": a.model.stem, "type": a.type, "depth": a.depth, "rounds": a.rounds, "trained": trained, "cpu": cpu_name(),
            "cpus": os.cpu_count(), "rows": rows}


def page(m):
    base = m["rows"]["as it is"]
    trained = f", distilled over {m['trained'] / 1e6:.2f} M tokens" if m["trained"] else ""
    lines = [f"{m['model']}, weights as {m['type']}{trained}; rates of one answer behind {m['depth']} tokens on {m['cpu']}, "
             f"{m['cpus']} CPUs, in turn over {m['rounds']} rounds; predictions on held-out text beside the model as it is:", "",
             "| | key/value heads | cache, bytes a token | MB at that depth | tok/s | times | perplexity | same top token | KL, nats |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, r in m["rows"].items():
        times = statistics.median(x / y for x, y in zip(r["rate"], base["rate"])) if r["rate"] else 0
        rate = statistics.median(r["rate"]) if r["rate"] else 0
        lines.append(f"| {name} | {r['heads']} | {r['kv']} | {r['kv'] * m['depth'] / 1e6:.1f} | {rate:.1f} | {times:.2f} | "
                     f"{r['perplexity']:.2f} | {100 * r['same']:.1f} % | {r['kl']:.3f} |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path, nargs="?")
    p.add_argument("--text", type=Path, help="held-out text")
    p.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    p.add_argument("--kv-heads", type=int, default=1)
    p.add_argument("--distilled", type=Path, help="a distilled model, with its curve beside it as .json")
    p.add_argument("--steps", type=int, default=0, help="or train so many steps of 1024 tokens on --train")
    p.add_argument("--train", type=Path, help="text to train on")
    p.add_argument("--type", default="q8_0")
    p.add_argument("--depth", type=int, default=4096)
    p.add_argument("--gen", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--folder", default=None, help="for the files in between (default: the system's temporary folder)")
    p.add_argument("--page", action="store_true")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    if not a.page:
        if a.model is None or a.text is None or (a.steps > 0 and a.train is None):
            p.error("a model and --text are required, and --train for --steps")
        with tempfile.TemporaryDirectory(dir=a.folder) as folder:
            m = measure(a, folder)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(m))
    write_part(a.output / "compression.md", "bench/kv_heads.py", page(json.loads(KEPT.read_text())))


if __name__ == "__main__":
    main()
