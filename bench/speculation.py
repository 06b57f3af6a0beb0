#!/usr/bin/env python3
"""What guessed tokens bring, by method and task, and under load, into docs/speculation.md and docs/speculation.svg.

    bench/speculation.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--draft-model FILE] [--cases tasks,load,acceptance] [--rounds 3] [--requests 300]

tasks: one stream at a time, greedy, each task by every method in turn; what a method brings is the median over the rounds of its rate over
that of the plain run beside it. The tokens must be the same: the script ends where they are not. load: first questions of real
conversations, asked by 1, 4, 16 and 32 clients, by a server with `--speculation auto` and by one without, in turn. Every question comes to a server once, so
that no answer is guessed from itself, but for the task that is about that. acceptance: `millrace bench --replay`, guesses that are right in so many of a
hundred tokens, for one answer at a time, and for more at 70; any model, whose figures stand beside those of others. build/speculation.json keeps the
figures: without a model the page is written again from it."""
import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from batch import Online, questions
from page import ROOT, cpu_name, draw, write_part
from serving import ask, running

TEXT = """The water wheel of a mill turns because the stream that is led to it through the millrace is heavy and falls. A breastshot wheel is met at the height of
its axle, an overshot one at its top, and an undershot one dips its paddles into the stream. The miller opens the sluice in the morning, lets the wheel
gather speed, and only then lowers the stones on each other, because stones without grain between them strike fire."""
CODE = """def total(prices, tax):
    result = 0
    for price in prices:
        if price < 0:
            raise ValueError("a price is negative")
        result = result + price
    return result * (1 + tax)


def mean(prices):
    if len(prices) == 0:
        raise ValueError("there are no prices")
    return total(prices, 0) / len(prices)
"""
RECORDS = "\n".join(f"{name}, {age} years old, lives in {city} and works as a {job}." for name, age, city, job in (
    ("Ada Miller", 34, "Bergen", "carpenter"), ("Tom Weir", 51, "Utrecht", "teacher"), ("Ines Costa", 28, "Porto", "nurse"),
    ("Karl Bauer", 45, "Graz", "baker"), ("Mia Virtanen", 39, "Turku", "pilot")))
SCHEMA = {"type": "array", "minItems": 5, "maxItems": 5, "items": {"type": "object", "required": ["name", "age", "city", "job"], "additionalProperties": False, "properties": {
    "name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}, "job": {"type": "string"}}}}
QUESTION = "Explain in some paragraphs how a water mill works and what a millrace is for."
# name: (question, tokens, further fields)
TASKS = {
    "quote": (f"Repeat this text word for word, twice:\n\n{TEXT}", 256, {}),
    "edit code": (f"Rewrite this code with the variable `result` renamed to `amount`. Answer with the code only.\n\n{CODE}", 200, {}),
    "JSON from a document": (f"Write these people as JSON:\n\n{RECORDS}", 256, {"response_format": {"type": "json_schema", "json_schema": {"name": "people", "schema": SCHEMA}}}),
    "prediction, 90 % right": (QUESTION, 256, {"prediction": None}),  # made of the plain answer
    "asked again": (QUESTION + " Be brief.", 256, {"again": True}),
    "chat": ("What should I look at when I buy a used bicycle?", 256, {}),
    "long answer": ("Write a long story about a miller and a river.", 1000, {"ignore_eos": True}),
}
METHODS = ["ngram", "reference", "lookahead", "layers", "draft", "auto"]
CLIENTS = [1, 4, 16, 32]
ACCEPTANCE = [0, 30, 50, 70, 80, 90, 100]
STREAMS, OFTEN = [1, 2, 4, 8, 16, 32], 70
WRONG = 10  # of so many words of a prediction one is another


def methods_of(task, a):
    """Those that have something to guess from."""
    usual = ["ngram", "lookahead", "layers", *(["draft"] if a.draft_model else []), "auto"]
    return ["reference", "auto"] if task.startswith(("prediction", "asked")) else usual


def answer(url, model, task, method, plain):
    question, tokens, more = TASKS[task]
    body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": tokens, "temperature": 0, "speculation": method,
            **{key: value for key, value in more.items() if key not in ("prediction", "again")}}
    if "prediction" in more and plain is not None:
        words = plain.split(" ")
        words[WRONG // 2::WRONG] = ["mistaken"] * len(words[WRONG // 2::WRONG])
        body["prediction"] = {"type": "content", "content": " ".join(words)}
    reply = ask(url, "/v1/chat/completions", body, timeout=600)
    t = reply["timings"]
    drafted, accepted = t.get("draft_n", 0), t.get("draft_n_accepted", 0)
    return reply["choices"][0]["message"]["content"], {"tok_s": t["predicted_per_second"], "n": t["predicted_n"], "drafted": drafted, "accepted": accepted}


def task_rounds(a, options, names):
    found = {}
    with running("millrace", a, options) as (url, model, _):
        for number in range(a.rounds):
            for task in names:
                plain, base = answer(url, model, task, "off", None)
                for method in methods_of(task, a):
                    if TASKS[task][2].get("again") and number == 0:
                        answer(url, model, task, method, plain)  # somebody asked before
                    text, f = answer(url, model, task, method, plain)
                    if text != plain:
                        sys.exit(f"{task}, {method}: the answer is not that of the plain run")
                    found.setdefault(task, {}).setdefault(method, []).append({**f, "plain": base["tok_s"]})
            print(f"  round {number + 1} of {a.rounds}", file=sys.stderr)
    return found


def tasks(a):
    drafts = ["--draft-model", a.draft_model] if a.draft_model else []
    again = [name for name, task in TASKS.items() if "again" in task[2]]
    found = task_rounds(a, [*drafts, "--reference-bytes", "0"], [name for name in TASKS if name not in again])
    return {"rounds": a.rounds, "found": {**found, **task_rounds(a, drafts, again)}}


def under_load(a):
    asked, found = questions(a, a.requests), {}
    for number in range(a.load_rounds):
        for n in CLIENTS:
            for method in ("off", "auto"):
                with running("millrace", a, ["--speculation", method]) as (url, model, _):
                    crowd = Online(url, model, a, 0, 3600)
                    asyncio.run(crowd.crowd(asked, a.gen, n))
                if crowd.errors:
                    sys.exit(f"requests failed: {crowd.errors}")
                found.setdefault(n, {}).setdefault(method, []).append(crowd.n_tokens / crowd.took)
                print(f"  {n} clients, {method}: {found[n][method][-1]:.0f} tokens/s", file=sys.stderr)
    return {"requests": a.requests, "gen": a.gen, "rounds": a.load_rounds, "found": found}


def replay(a, *options):
    r = subprocess.run([a.millrace, "bench", "--replay", ROOT / "README.md", "-m", a.model, "-t", str(a.threads), "--gen", str(a.gen), "--repeat", str(a.rounds),
                        *options, "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(r.stdout)["results"]


def listed(numbers):
    return ",".join(map(str, numbers))


def acceptance(a):
    """{"gen", "rounds", "by_acceptance": [...], "by_streams": [...]}"""
    found = {"gen": a.gen, "rounds": a.rounds, "by_acceptance": replay(a, "--acceptance", listed(ACCEPTANCE)),
             "by_streams": replay(a, "--acceptance", str(OFTEN), "--batch", listed(STREAMS))}
    print(f"  {[round(f['ratio'], 2) for f in found['by_acceptance']]}, {[round(f['ratio'], 2) for f in found['by_streams']]}", file=sys.stderr)
    return found


def ratio(runs):
    return statistics.median(r["tok_s"] / r["plain"] for r in runs)


def tasks_text(m):
    lines = [f"One stream, greedy, {m['rounds']} round(s) in turn: the rate over that of the plain run, tokens that come in a step, and the share of guesses that stay.", "",
             "| task | plain, tok/s | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 2) + "|"]
    for task, methods in m["found"].items():
        cells = []
        for method in METHODS:
            if method not in methods:
                cells.append("-")
                continue
            last = methods[method][-1]
            kept = f", {100 * last['accepted'] / last['drafted']:.0f} %" if last["drafted"] else ""
            cells.append(f"**{ratio(methods[method]):.2f}** ({last['n'] / max(1, last['n'] - last['accepted']):.1f}{kept})")
        plain = statistics.median(r["plain"] for runs in methods.values() for r in runs)
        lines.append(f"| {task} | {plain:,.0f} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def gains(m):
    """{clients: median of auto over off}"""
    return {int(n): statistics.median(x / y for x, y in zip(f["auto"], f["off"])) for n, f in m["found"].items()}


def load_text(m):
    lines = [f"{m['requests']} first questions of conversations, answers of {m['gen']} tokens, greedy, {m['rounds']} round(s) in turn, output tokens a second:", "",
             "| clients | `off` | `auto` | |", "|---|---|---|---|"]
    for n, gain in gains(m).items():
        f = m["found"][str(n)]
        lines.append(f"| {n} | {statistics.median(f['off']):,.0f} | {statistics.median(f['auto']):,.0f} | {100 * (gain - 1):+.1f} % |")
    return [*lines, "", "![what guesses bring by the number of clients](speculation.svg)"]


def acceptance_text(found):
    lines = ["The speed-up with guesses that are right in so many of a hundred tokens (`millrace bench --replay`), one answer at a time, and the tokens that come in a step:", "",
             "| model | plain, tok/s | " + " | ".join(f"{n} %" for n in ACCEPTANCE) + " |", "|---" * (len(ACCEPTANCE) + 2) + "|"]
    for name, m in found.items():
        cells = [f"**{f['ratio']:.2f}** ({1 / (1 - min(f['accepted_per_token'], 0.999)):.1f})" for f in m["by_acceptance"]]
        lines.append(f"| {name} | {statistics.median(f['plain_tok_s'] for f in m['by_acceptance']):,.1f} | " + " | ".join(cells) + " |")
    lines += ["", f"The same at {OFTEN} %, by the number of answers at a time:", "", "| model | " + " | ".join(map(str, STREAMS)) + " |", "|---" * (len(STREAMS) + 1) + "|"]
    for name, m in found.items():
        lines.append(f"| {name} | " + " | ".join(f"{f['ratio']:.2f}" for f in m["by_streams"]) + " |")
    return [*lines, "", "![the speed-up by the share of right guesses, and by answers at a time](speculation-acceptance.svg)", ""]


def text(m):
    lines = [f"{m['model']}, {m['cpu']}, {m['threads']} threads" + (f", draft model {m['draft']}" if m.get("draft") else "") + ".", ""]
    return "\n".join(lines + (tasks_text(m["tasks"]) if "tasks" in m else []) + (acceptance_text(m["acceptance"]) if m.get("acceptance") else []) +
                     (load_text(m["load"]) if "load" in m else []))


PLOT = """
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
clients = list(d)
ax.plot(clients, [100 * (d[n] - 1) for n in clients], "o-")
ax.axhline(0, color="0.6", linewidth=1)
ax.axhline(-2, color="0.8", linewidth=1, linestyle="--")
ax.set_xlabel("clients at a time")
ax.set_ylabel("auto over off, %")
ax.spines[["top", "right"]].set_visible(False)
"""


ACCEPTANCE_PLOT = """
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharey=True)
for name, m in d.items():
    left.plot([100 * f["acceptance"] for f in m["by_acceptance"]], [f["ratio"] for f in m["by_acceptance"]], "o-", label=name)
    right.plot([f["streams"] for f in m["by_streams"]], [f["ratio"] for f in m["by_streams"]], "o-")
left.set_xlabel("right guesses, %")
left.set_ylabel("times the plain rate")
left.legend(fontsize=7)
right.set_xscale("log", base=2)
right.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
right.set_xlabel("answers at a time, 70 % right")
for ax in (left, right):
    ax.axhline(1, color="0.6", linewidth=1)
    ax.spines[["top", "right"]].set_visible(False)
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--draft-model", help="a smaller model of the same vocabulary")
    p.add_argument("--cases", type=lambda s: s.split(","), default=["tasks", "load"])
    p.add_argument("--rounds", type=int, default=3, help="of the tasks")
    p.add_argument("--load-rounds", type=int, default=1)
    p.add_argument("--requests", type=int, default=300)
    p.add_argument("--gen", type=int, default=64)
    p.add_argument("--places", type=int, default=32)
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--conversations", type=Path, default=ROOT / "models/sharegpt.json")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = ROOT / "build/speculation.json"
    if a.model is not None:
        m = {"model": a.model.name, "cpu": cpu_name(), "threads": a.threads, "draft": Path(a.draft_model).name if a.draft_model else None}
        old = json.loads(kept.read_text()) if kept.exists() else {}
        if all(old.get(key) == m[key] for key in m) or a.cases == ["acceptance"]:
            m = old or m
        m.setdefault("acceptance", old.get("acceptance", {}))
        for name in a.cases:
            print(f"{name}:", file=sys.stderr)
            if name == "acceptance":
                m[name][a.model.name] = acceptance(a)
            else:
                m[name] = {"tasks": tasks, "load": under_load}[name](a)
            kept.write_text(json.dumps(m, indent=1))
    m = json.loads(kept.read_text())
    write_part(a.output / "speculation.md", "bench/speculation.py", text(m))
    if m.get("acceptance"):
        draw(ACCEPTANCE_PLOT, m["acceptance"], a.output / "speculation-acceptance.svg")
    if "load" in m:
        draw(PLOT, gains(m["load"]), a.output / "speculation.svg")


if __name__ == "__main__":
    main()
