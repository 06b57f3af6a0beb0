#!/usr/bin/env python3
"""The long recipes of docs/compression.md, each in steps that are skipped where their result is there already; training goes on
from its checkpoint. Writes build/experiments/ and, from what is there, docs/experiments.md with its curves.

    scripts/experiments.py                   all
    scripts/experiments.py pruned --steps 340  one of them (dense, pruned, kv, eighth, draft) so long
    scripts/experiments.py --only draft --minutes 30  a piece of it; the same command goes on from there
    scripts/experiments.py --report          the page alone
"""
import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM, OUT = ROOT / "build/release/millrace", ROOT / "build/experiments"
TEACHER = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = OUT / "text.txt"
TOKENS, BATCH, ACCUMULATE = 512, 2, 8
TITLES = {
    "dense": "The model itself, trained on in f32",
    "pruned": "20 % fewer weights, chosen by gradients, then distilled",
    "kv": "Three key/value heads merged to one, then distilled",
    "eighth": "A new model of an eighth of the weights",
    "draft": "A new model of 10 M weights, to draft for the speculative decoder",
}


def run(*args, out=None):
    print("+", *map(str, args), file=sys.stderr, flush=True)
    if out is None:
        subprocess.run([*map(str, args)], check=True)
        return
    partial = out.with_suffix(".partial")
    with open(partial, "w") as f:
        subprocess.run([*map(str, args)], check=True, stdout=f)
    partial.rename(out)


def run_until(deadline, *args, out):
    """Whether the program came to its end; at the deadline (of time.monotonic; None: none) it is asked to stop and to write its checkpoint."""
    print("+", *map(str, args), file=sys.stderr, flush=True)
    partial = out.with_suffix(".partial")
    with open(partial, "w") as f:
        process = subprocess.Popen([*map(str, args)], stdout=f)
        try:
            process.wait(None if deadline is None else max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
    if process.returncode == 130:  # interrupted
        partial.unlink()
        return False
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    partial.rename(out)
    return True


def student(name):
    """The untrained student of a recipe."""
    path = OUT / f"{name}.start.gguf"
    if path.exists():
        return path
    if name == "dense":
        return TEACHER
    if name == "pruned":
        run(PROGRAM, "prune", TEACHER, path, "--ratio", 0.2, "--parts", "channels", "-f", TEXT, "--type", "f32")
    elif name == "kv":
        run(PROGRAM, "prune", TEACHER, path, "--kv-heads", 1, "--type", "f32")
    elif name == "eighth":
        run(PROGRAM, "init", "--tokenizer", TEACHER, "-o", path, "--layers", 10, "--width", 256, "--heads", 4, "--kv-heads", 2,
            "--channels", 512)
    elif name == "draft":
        run(PROGRAM, "init", "--tokenizer", TEACHER, "-o", path, "--layers", 4, "--width", 192, "--heads", 3, "--kv-heads", 1,
            "--channels", 512)
    return path


def train(name, steps, deadline):
    if (OUT / f"{name}.json").exists():
        return True
    start = student(name)
    is_new = name in ("eighth", "draft")
    return run_until(deadline, PROGRAM, "distill", "-m", start, "--teacher", TEACHER, "-f", TEXT, "-o", OUT / f"{name}.gguf", "--type", "f32",
                     "--steps", steps, "--tokens", TOKENS, "--batch", BATCH, "--accumulate", ACCUMULATE, "--rate",
                     "1e-3" if is_new else "2e-4", "--warmup", min(100, steps // 10 + 1), "--held-out", 32, "--measure-every",
                     max(1, steps // 20), "--checkpoint", OUT / f"{name}.ckpt", "--checkpoint-every", 20, "--teacher-cache",
                     OUT / "teacher.cache", "--json", out=OUT / f"{name}.json")


def curve_svg(curves):
    """Held-out next-token accuracy over training tokens, a line for each recipe."""
    w, h, colours = 640, 320, ("#1b6ca8", "#c1440e", "#2e8540", "#7a3e9d", "#946c00")
    points = {n: [(p["tokens"], p["held_out"]["accuracy"]) for p in c if "held_out" in p] for n, c in curves.items()}
    most = max(x for c in points.values() for x, _ in c)
    top = max(y for c in points.values() for _, y in c) * 1.1
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h + 40}" font-family="sans-serif" font-size="12">',
             f'<rect width="{w}" height="{h + 40}" fill="white"/>']
    for i in range(5):
        y = h - 20 - i / 4 * (h - 60)
        lines.append(f'<path d="M50 {y:.0f}H{w - 20}" stroke="#ddd"/><text x="8" y="{y + 4:.0f}">{top * i / 4:.1%}</text>')
    for i, (name, c) in enumerate(points.items()):
        path = " ".join(f"{50 + x / most * (w - 70):.1f},{h - 20 - y / top * (h - 60):.1f}" for x, y in c)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colours[i]}" stroke-width="2"/>'
                     f'<text x="{60 + 110 * i}" y="{h + 28}" fill="{colours[i]}">{name}</text>')
    lines.append(f'<text x="50" y="{h}">0</text><text x="{w - 20}" y="{h}" text-anchor="end">{most / 1e6:.2f} M tokens</text></svg>')
    return "\n".join(lines) + "\n"


def report():
    curves = {n: json.loads((OUT / f"{n}.json").read_text())["curve"] for n in TITLES if (OUT / f"{n}.json").exists()}
    if not curves:
        return
    (ROOT / "docs/experiments.svg").write_text(curve_svg(curves))
    page = ["# Experiments", "", "Written by `scripts/experiments.py`, which also runs them; see [compression.md](compression.md).",
            "The teacher is SmolLM2-135M-Instruct as shipped, already on a grid of 4 bits. Accuracy is that of the next token on",
            "held-out ShareGPT text; nothing is claimed beyond the tokens trained on.", "",
            "![held-out accuracy over training tokens](experiments.svg)", "",
            "| recipe | tokens | hours | accuracy | as the teacher | cross-entropy | tokens/s | MFU |", "|---|---|---|---|---|---|---|---|"]
    for name, curve in curves.items():
        last = curve[-1]
        held = last["held_out"]
        rates = sorted(p["tokens_per_s"] for p in curve)
        mfu = sorted(p["mfu"] for p in curve)
        page.append(f"| {TITLES[name]} | {last['tokens'] / 1e6:.2f} M | {last['seconds'] / 3600:.2f} | {held['accuracy']:.2%} | "
                    f"{held['agreement']:.2%} | {held['cross_entropy']:.3f} | {rates[len(rates) // 2]:.0f} | "
                    f"{mfu[len(mfu) // 2]:.1%} |")
    (ROOT / "docs/experiments.md").write_text("\n".join(page) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("recipe", nargs="*", help="default: all of them")
    p.add_argument("--steps", type=int, default=340, help=f"of {TOKENS * BATCH * ACCUMULATE} tokens (340: 2.8 M tokens)")
    p.add_argument("--only", metavar="NAME", action="append", default=[], help="the same as NAME alone")
    p.add_argument("--minutes", type=float, help="stop behind the step under way then; the same command goes on")
    p.add_argument("--report", action="store_true")
    a = p.parse_args()
    recipes = [*a.recipe, *a.only]
    if unknown := [r for r in recipes if r not in TITLES]:
        p.error(f"no recipe {unknown[0]}; there are {', '.join(TITLES)}")
    deadline = None if a.minutes is None else time.monotonic() + 60 * a.minutes
    OUT.mkdir(parents=True, exist_ok=True)
    if not TEXT.exists():
        run(sys.executable, ROOT / "scripts/sharegpt_text.py", ROOT / "models/sharegpt.json", "--bytes", "20MB", out=TEXT)
    for recipe in [] if a.report else recipes or TITLES:
        if not train(recipe, a.steps, deadline):
            print(f"{recipe} is not at its end; the same command goes on", file=sys.stderr)
            break
        report()
    report()


if __name__ == "__main__":
    main()
