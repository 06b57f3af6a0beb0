"""One engine, one model, one process: speed of a prompt and of answers, as one line of JSON.

    engines.py ENGINE --model FILE --threads N --prompt N --gen N --batch 1,8 --depth 0

{"load_s", "results": [{"test", "batch", "depth", "tok_s"}]}; for millrace also its limits and counts. bench/peers.py
runs this again and again. Speeds are the engine's own figures where it gives any; answers of several sequences count from
the first request to the last answer."""
import argparse
import json
import os
import subprocess
import sys
import time


def token(i, n_vocab):
    """Any ids will do, the same for every engine."""
    return (i * 2654435761 % 2**32 >> 8) % n_vocab


def run_millrace(a):
    command = [a.millrace, "bench", "-m", a.model, "--threads", str(a.threads), "--prompt", str(a.prompt), "--gen", str(a.gen),
               "--batch", ",".join(map(str, a.batch)), "--depth", str(a.depth), "--repeat", "3", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {"load_s": report["model"]["load_s"], "limits": report["limits"], "machine": report["machine"],
            "results": report["results"]}


def run_llama_cpp(a):
    """llama.cpp behind its server, on the loopback device."""
    import threading
    import urllib.request

    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path = a.model
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
    p.n_parallel = max(a.batch)
    p.n_ctx = p.n_parallel * max(a.prompt + 8, a.depth + a.gen + 8)
    begin = time.perf_counter()
    server = xllamacpp.Server(p)
    load_s = time.perf_counter() - begin

    def complete(prompt, n):
        body = {"prompt": prompt, "n_predict": n, "ignore_eos": True, "temperature": 0, "cache_prompt": False}
        request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))["timings"]

    def answers(batch):
        prompts = [[token(i + k, a.vocab) for i in range(max(a.depth, 1))] for k in range(batch)]
        if batch == 1:
            return complete(prompts[0], a.gen)["predicted_per_second"]
        done = []
        threads = [threading.Thread(target=lambda q=q: done.append(complete(q, a.gen))) for q in prompts]
        begin = time.perf_counter()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        seconds = time.perf_counter() - begin
        # prompts come first and are no part of it; with depth 0 they are a token each
        seconds -= sum(d["prompt_ms"] for d in done) / 1000 if a.depth > 0 else 0
        return sum(d["predicted_n"] for d in done) / seconds

    prompt = [token(i, a.vocab) for i in range(a.prompt)]
    complete(prompt[:16], 2)
    results = [{"test": "prefill", "batch": 1, "depth": 0, "tok_s": complete(prompt, 1)["prompt_per_second"]}]
    results += [{"test": "decode", "batch": b, "depth": a.depth, "tok_s": answers(b)} for b in a.batch]
    return {"load_s": load_s, "results": results}


def run_openvino(a):
    """OpenVINO GenAI reads GGUF itself. Its pipeline answers one sequence at a time."""
    import numpy as np
    import openvino
    import openvino_genai
    begin = time.perf_counter()
    pipe = openvino_genai.LLMPipeline(a.model, "CPU", INFERENCE_NUM_THREADS=a.threads)
    load_s = time.perf_counter() - begin
    config = openvino_genai.GenerationConfig()
    config.ignore_eos = True
    config.do_sample = False

    def metrics(n_prompt, n):
        config.max_new_tokens = n
        ids = np.array([[token(i, a.vocab) for i in range(n_prompt)]], dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        return pipe.generate(inputs, config).perf_metrics

    metrics(16, 2)
    results = [{"test": "prefill", "batch": 1, "depth": 0, "tok_s": a.prompt / metrics(a.prompt, 1).get_ttft().mean * 1000}]
    if 1 in a.batch:
        tpot_ms = metrics(max(a.depth, 1), a.gen).get_tpot().mean
        results.append({"test": "decode", "batch": 1, "depth": a.depth, "tok_s": 1000 / tpot_ms})
    return {"load_s": load_s, "results": results}


ENGINES = {"millrace": run_millrace, "llama.cpp": run_llama_cpp, "openvino": run_openvino}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=ENGINES)
    p.add_argument("--model", required=True)
    p.add_argument("--millrace", default="build/millrace")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--prompt", type=int, required=True)
    p.add_argument("--gen", type=int, required=True)
    p.add_argument("--batch", type=lambda s: [int(b) for b in s.split(",")], required=True)
    p.add_argument("--depth", type=int, required=True)
    p.add_argument("--vocab", type=int, default=32000)
    a = p.parse_args()
    out = os.dup(1)
    os.dup2(2, 1)  # engines write to standard output as they please
    result = ENGINES[a.engine](a)
    os.write(out, (json.dumps(result) + "\n").encode())
    os._exit(0)  # a server's threads need not end in order


if __name__ == "__main__":
    sys.exit(main())
