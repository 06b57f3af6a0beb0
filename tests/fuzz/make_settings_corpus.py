"""Deployment files to begin with: whole ones, and each thing that YAML has and settings refuse."""
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus/settings"
WHOLE = """model: a.gguf
alias: "a \\"b\\" \\u00e4"
device: auto
precision: int8
max_batch_size: auto
memory_pool: {cpu: 2.0, gpu: 0.9}
scheduler: {latency_target_ms: 500, latency_metric: ttft, itl_target_ms: 50, low_load: 0.6, high_load: 0.8}
prompt_cache: {pin: [a, 'b c'], file_bytes: 500M, dir: ~}
speculation: {method: none, draft_model: null}
server: {host: 127.0.0.1, port: 0, insecure: true}
"""
CASES = {
    "whole": WHOLE,
    "published": 'deployment: {device: "cuda:0", precision: "fp16", max_batch_size: 8, memory_pool: {gpu: 0.9, cpu: 2.0}}',
    "fraction": "memory_pool: {cpu: 2.20}",
    "block": "deployment:\n  prompt_cache:\n    pin:\n    - a\n    - |\n      b\n      c\n    - >-\n      d\n",
    "refused": "alias: &x !!str a\nmodel: *x\n---\n? [a]\n: b\n...\n%YAML 1.1\n",
}

FOLDER.mkdir(parents=True, exist_ok=True)
for name, text in CASES.items():
    (FOLDER / name).write_text(text)
