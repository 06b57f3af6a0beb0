"""vLLM's own load generator, `vllm bench serve`, on any server of OpenAI's API: a check of bench/load.py by a program that others know."""
import json
import subprocess
import sys

import load
from page import ROOT
from peers import prepare_vllm, vllm_environment, vllm_folder

CONVERSATIONS = 1000  # of which it takes those that suit it

# Runs under vLLM's Python; its command line looks for the package by another name than the CPU's wheel has.
GENERATOR = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
p = FlexibleArgumentParser()
add_cli_args(p)
main(p.parse_args())
"""


def write_conversations(source):
    """The data as a file of JSON that is whole."""
    path = ROOT / "build/sharegpt-whole.json"
    usable = [c for _, c in zip(range(10 * CONVERSATIONS), load.read_objects(source)) if load.is_usable(c["conversations"])]
    path.write_text(json.dumps(usable[:CONVERSATIONS]))
    return path


def measure(url, name, model, a, users):
    """As load.measure, of a.requests requests for a.answer tokens each. name: the server's, of the model, a GGUF file."""
    result = ROOT / "build/vllm-load.json"
    result.unlink(missing_ok=True)
    options = {"backend": "openai-chat", "base-url": url, "endpoint": "/v1/chat/completions", "model": name, "tokenizer": vllm_folder(model, "float32"),
               "dataset-name": "sharegpt", "dataset-path": write_conversations(a.conversations), "sharegpt-output-len": a.answer, "seed": 1,
               "num-prompts": a.requests, "max-concurrency": users, "temperature": 0, "percentile-metrics": "ttft,itl", "metric-percentiles": 99,
               "result-dir": result.parent, "result-filename": result.name, "ready-check-timeout-sec": 0}
    command = [prepare_vllm(), "-c", GENERATOR, *(str(x) for key, value in options.items() for x in (f"--{key}", value)), "--ignore-eos", "--save-result",
               "--disable-tqdm"]
    subprocess.run(command, check=True, stdout=sys.stderr, env=vllm_environment())
    r = json.loads(result.read_text())
    return {"users": users, "tokens_per_second": r["output_throughput"], "finished": r["completed"], "refused": 0,
            "ttft_ms": {"p50": r["median_ttft_ms"], "p99": r["p99_ttft_ms"]}, "itl_ms": {"p50": r["median_itl_ms"], "p99": r["p99_itl_ms"]},
            "errors": {"failed": a.requests - r["completed"]}}
