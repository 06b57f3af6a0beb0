#!/usr/bin/env python3
"""Which share of heads and of feed-forward channels a model can lose at equal loss, layer by layer, into its part of
docs/compression.md, with docs/redundancy.svg.

    bench/redundancy.py models/SmolLM2-135M-Instruct.Q4_1.gguf --text held-out.txt

build/redundancy.json keeps the figures; --page writes the page again from there."""
import argparse
import json
import subprocess
from pathlib import Path

from page import ROOT, draw, write_part

KEPT = ROOT / "build/redundancy.json"
PUBLISHED = (0.30, 0.40)  # more in feed-forward blocks than in attention

PLOT = """
fig, ax = plt.subplots(figsize=(8, 3.2))
layers = range(len(d["layers"]))
for kind, colour, name, by in (("heads", "#1b6ca8", "attention", -0.2), ("channels", "#c1440e", "feed-forward", 0.2)):
    ax.bar([l + by for l in layers], [100 * l[kind]["share"] for l in d["layers"]], 0.4, color=colour, label=name)
    ax.axhline(100 * d["all_layers"][kind]["share"], color=colour, linestyle="--", linewidth=1, label=f"{name}, all layers at once")
ax.set_xlabel("layer")
ax.set_ylabel("removable at equal loss, %")
ax.set_ylim(0, 105)
ax.legend(fontsize=7, ncols=2)
fig.tight_layout()
"""


def ratio(channels, heads):
    return f"{100 * (channels / heads - 1):+.0f} %" if heads > 0 else "more, of none"


def page(m):
    r, layers = m["measured"], m["measured"]["layers"]
    mean = {kind: sum(layer[kind]["share"] for layer in layers) / len(layers) for kind in ("heads", "channels")}
    once = {kind: r["all_layers"][kind]["share"] for kind in mean}

    def row(name, a, b):
        return f"| {name} | {100 * a:.0f} % | {100 * b:.0f} % | {ratio(b, a)} |"

    found = mean["channels"] / mean["heads"] - 1 if mean["heads"] > 0 else None
    verdict = ("no head can go here, so that there is nothing to compare" if found is None else
               f"here the feed-forward blocks have {100 * found:+.0f} %, layer by layer, "
               + ("within" if PUBLISHED[0] <= found <= PUBLISHED[1] else "outside") + " that")
    lines = [f"{m['model']}, {m['windows']} windows of {m['tokens']} tokens, loss {r['loss']:.3f} nats a token, which may rise by "
             f"{r['rise']:g}. The account says 30 to 40 % more in feed-forward blocks; {verdict}.", "",
             "![share of the parameters of each layer that can go](redundancy.svg)", "",
             "| layer | attention | feed-forward | the latter has |", "|---|--:|--:|--:|"]
    lines += [row(i, layer["heads"]["share"], layer["channels"]["share"]) for i, layer in enumerate(layers)]
    return "\n".join([*lines, row("mean", mean["heads"], mean["channels"]), row("all at once", once["heads"], once["channels"])])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path, nargs="?")
    p.add_argument("--text", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    p.add_argument("--rise", type=float, default=0.01)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--windows", type=int, default=8)
    p.add_argument("--page", action="store_true")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    if not a.page:
        if a.model is None or a.text is None:
            p.error("a model and --text are required")
        out = subprocess.run([a.millrace, "redundancy", a.model, "-f", a.text, "--rise", str(a.rise), "--tokens", str(a.tokens),
                              "--windows", str(a.windows), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps({"model": a.model.stem, "tokens": a.tokens, "windows": a.windows, "measured": json.loads(out)}))
    m = json.loads(KEPT.read_text())
    draw(PLOT, m["measured"], a.output / "redundancy.svg")
    write_part(a.output / "compression.md", "bench/redundancy.py", page(m))


if __name__ == "__main__":
    main()
