#!/usr/bin/env python3
"""Rates of an answer under a JSON Schema and of a free one, beside llama.cpp's server, into its part of docs/constraints.md.

    bench/constrained.py models/SmolLM2-135M-Instruct.Q4_1.gguf [MODEL...] [--rounds 3]

One stream, greedy, the same schema and prompt for both engines, which run in turn; medians of the rounds. llama.cpp is the PyPI package that
bench/peers.py installs."""
import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

from page import ROOT, cpu_name, write_part
from peers import hand_back, run_in_venv

TIMEOUT_S = 300
PROMPT = "A person, described as a JSON object with name, age, email, tags, role, score and address:\n"
SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags", "role", "score"], "properties": {
    "name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
    "role": {"enum": ["administrator", "maintainer", "contributor"]}, "score": {"type": "number"}}}


def run_millrace(a, model, schema, n):
    command = [a.millrace, "run", "-m", str(model), "-p", PROMPT, "--raw", "--temp", "0", "-n", str(n), "-t", str(a.threads), "--json"]
    command += ["--json-schema", json.dumps(schema)] if schema else ["--ignore-eos"]
    t = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout)["timings"]
    return t["predicted_per_second"], t["predicted_n"]


def run_llama_cpp(a):
    """In a process of its own, under the peers' Python: the rate of each request."""
    import urllib.request

    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path = str(a.models[0])
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
    p.n_ctx = 1024
    server = xllamacpp.Server(p)

    def complete(schema, n):
        body = {"prompt": PROMPT, "n_predict": n, "temperature": 0, "cache_prompt": False}
        body.update({"json_schema": schema} if schema else {"ignore_eos": True})
        request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        t = json.load(urllib.request.urlopen(request))["timings"]
        return t["predicted_per_second"], t["predicted_n"]

    complete(None, 8)
    constrained, n = complete(SCHEMA, a.gen)
    return {"constrained": constrained, "free": complete(None, n)[0]}


def in_venv(a, model):
    return run_in_venv(__file__, model, "--only-llama-cpp", "--gen", a.gen, "--threads", a.threads, timeout=TIMEOUT_S)


def measure(a, model):
    rounds = []
    for _ in range(a.rounds):
        constrained, n = run_millrace(a, model, SCHEMA, a.gen)
        peer = in_venv(a, model)
        rounds.append([run_millrace(a, model, None, n)[0], constrained, peer["free"], peer["constrained"]])
    return [statistics.median(r[i] for r in rounds) for i in range(4)]


def table(rows, rounds):
    lines = [f"Tokens a second of one stream, free and under a schema of five members; medians of {rounds} rounds in turn, {cpu_name()}.", "",
             "| model | millrace, free | under the schema | llama.cpp, free | under the schema |", "|---|---|---|---|---|"]
    return "\n".join(lines + [f"| {name} | " + " | ".join(f"{x:,.0f}" for x in figures) + " |" for name, figures in rows.items()])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--gen", type=int, default=128)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    p.add_argument("--only-llama-cpp", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.only_llama_cpp:
        hand_back(lambda: run_llama_cpp(a))
    write_part(a.output / "constraints.md", "bench/constrained.py", table({m.name: measure(a, m) for m in a.models}, a.rounds))


if __name__ == "__main__":
    main()
