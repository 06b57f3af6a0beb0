#!/usr/bin/env python3
"""What dropping half of the weights costs and brings, into its part of docs/compression.md.

    bench/sparse.py --quality model.gguf --calibrate text.txt --text held-out.txt --speed 1b-q8_0.gguf 1b-bf16.gguf 1b-q4_0.gguf

Quality: each pattern and method against the model itself, at the same type of values. Speed: each model and its 2:4 and 4:8 forms
in turn, round by round; the ratio is the median of those of the rounds. build/sparse.json keeps both: without an option its part is
written again from there."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from page import ROOT, cpu_name, write_part

KEPT = ROOT / "build/sparse.json"
PATTERNS = ("2:4", "4:8")
METHODS = ("magnitude", "wanda", "sparsegpt")


def millrace(a, *args):
    r = subprocess.run([a.millrace, *map(str, args)], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(r.stderr)
    return r.stdout


def quality(a, folder):
    rows, base = [], Path(folder, "base.gguf")
    millrace(a, "quantize", a.quality, base, "--type", "bf16", "--requantize")
    for pattern in (*PATTERNS, "unstructured"):
        for method in METHODS:
            out = Path(folder, "out.gguf")
            text = [] if method == "magnitude" else ["--calibrate", a.calibrate, "--tokens", a.tokens]
            store = ["--store", "dense"] if pattern == "unstructured" else []
            report = json.loads(millrace(a, "sparsify", base, out, "--pattern", pattern, "--method", method, *text, *store, "--json"))
            e = json.loads(millrace(a, "eval", out, "--base", base, "-f", a.text, "--json"))[0]["text"]
            rows.append({"pattern": pattern, "method": method, "seconds": report["seconds"], "mb": report["bytes_out"] / 1e6,
                         "perplexity": e["perplexity"], "base": e["base_perplexity"], "kl": e["kl"], "same": e["same_top"]["mean"]})
            print(rows[-1], flush=True)
    return {"model": a.quality.stem, "tokens": a.tokens, "rows": rows}


def rates(a, model):
    r = json.loads(millrace(a, "bench", "-m", model, "--prompt", a.prompt, "--gen", a.gen, "--repeat", 1, "--json"))
    return {x["test"]: x["tok_s"] for x in r["results"]}, r["machine"]["other_load_share"]


def speed(a, folder, model):
    forms = {"dense": model}
    for pattern in PATTERNS:
        forms[pattern] = Path(folder, f"{model.stem}-{pattern.replace(':', 'of')}.gguf")
        millrace(a, "sparsify", model, forms[pattern], "--pattern", pattern, "--method", "magnitude")
    runs, other = {form: [] for form in forms}, []
    for _ in range(a.rounds):
        for form, path in forms.items():
            measured, load = rates(a, path)
            runs[form].append(measured)
            other.append(load)
    out = {"model": model.stem, "other": statistics.median(other), "forms": {}}
    for form, path in forms.items():
        pairs = {t: [r[t] / d[t] for r, d in zip(runs[form], runs["dense"])] for t in ("decode", "prefill")}
        out["forms"][form] = {"mb": path.stat().st_size / 1e6,
                              **{t: statistics.median(r[t] for r in runs[form]) for t in pairs},
                              **{f"{t}_ratio": statistics.median(pairs[t]) for t in pairs}}
        if path != model:
            path.unlink()
    print(out, flush=True)
    return out


def page(m):
    lines = []
    if q := m.get("quality"):
        lines += [f"{q['model']}, kept weights as bf16, {q['tokens']} tokens of calibration; beside the model itself, whose perplexity "
                  f"is {q['rows'][0]['base']:.3f}, on held-out text:", "",
                  "| pattern, 50 % | method | perplexity | KL, nats | same top token | MB | seconds |", "|---|---|--:|--:|--:|--:|--:|"]
        lines += [f"| {r['pattern']} | {r['method']} | {r['perplexity']:.2f} | {r['kl']['mean']:.4f} ± {1.96 * r['kl']['stderr']:.4f} | "
                  f"{100 * r['same']:.1f} % | {r['mb']:.0f} | {r['seconds']:.0f} |" for r in q["rows"]] + [""]
    if m.get("speed"):
        other = max(s["other"] for s in m["speed"])
        lines += [f"Speed in turn, {m['rounds']} rounds, {m['cpu']}; other processes took {100 * other:.0f} % of the CPUs:", "",
                  "| model | stored | file MB | answer, tok/s | times dense | prompt, tok/s | times dense |", "|---|---|--:|--:|--:|--:|--:|"]
        lines += [f"| {s['model']} | {form} | {f['mb']:.0f} | {f['decode']:.2f} | {f['decode_ratio']:.2f} | {f['prefill']:.1f} | "
                  f"{f['prefill_ratio']:.2f} |" for s in m["speed"] for form, f in s["forms"].items()]
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    p.add_argument("--quality", type=Path, help="model whose quality is measured")
    p.add_argument("--calibrate", type=Path, help="text for wanda and sparsegpt")
    p.add_argument("--text", type=Path, help="held-out text")
    p.add_argument("--tokens", type=int, default=16384, help="of the calibration")
    p.add_argument("--speed", type=Path, nargs="*", default=[], help="models whose speed is measured")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--prompt", type=int, default=128)
    p.add_argument("--gen", type=int, default=32)
    p.add_argument("--folder", default=None, help="for the files in between (default: the system's temporary folder)")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    m = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        if a.quality is not None:
            m["quality"] = quality(a, folder)
            KEPT.write_text(json.dumps(m))
        if a.speed:
            m.update(speed=[speed(a, folder, model) for model in a.speed], rounds=a.rounds, cpu=cpu_name())
            KEPT.write_text(json.dumps(m))
    write_part(a.output / "compression.md", "bench/sparse.py", page(m))


if __name__ == "__main__":
    main()
