"""One engine, one model, one process: speed of a prompt and of answers, as one line of JSON.

    engines.py ENGINE --model FILE --threads N --prompt N --gen N --answers 1x0,8x0,1x4096

--answers: sequences at a time x tokens in the cache before the first generated one. --prompt 0: no prompt.
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


def by_depth(answers):
    """{depth: [sequences at a time]}, in the order in which they were asked for."""
    depths = {}
    for batch, depth in answers:
        depths.setdefault(depth, []).append(batch)
    return depths


def run_millrace(a):
    """A run for each depth: its prompt would otherwise be computed for every number of sequences."""
    out, cases = None, by_depth(a.answers) or {0: []}
    for i, (depth, batches) in enumerate(cases.items()):
        command = [a.millrace, "bench", "-m", a.model, "--threads", a.threads, "--prompt", a.prompt if i == 0 else 0, "--gen",
                   a.gen if batches else 0, "--batch", ",".join(map(str, batches or [1])), "--depth", depth, "--repeat", 3, "--json"]
        report = json.loads(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout)
        if out is None:
            out = {"load_s": report["model"]["load_s"], "limits": report["limits"], "machine": report["machine"], "results": []}
        out["results"] += report["results"]
    return out


def run_llama_cpp(a):
    """llama.cpp behind its server, on the loopback device."""
    import threading
    import urllib.request

    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path = a.model
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
    p.n_parallel = max([b for b, _ in a.answers], default=1)
    p.n_ctx = p.n_parallel * max([a.prompt + 8, *(depth + a.gen + 8 for _, depth in a.answers)])
    begin = time.perf_counter()
    server = xllamacpp.Server(p)
    load_s = time.perf_counter() - begin

    def complete(prompt, n):
        body = {"prompt": prompt, "n_predict": n, "ignore_eos": True, "temperature": 0, "cache_prompt": False}
        request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))["timings"]

    def answers(batch, depth):
        prompts = [[token(i + k, a.vocab) for i in range(max(depth, 1))] for k in range(batch)]
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
        seconds -= sum(d["prompt_ms"] for d in done) / 1000 if depth > 0 else 0
        return sum(d["predicted_n"] for d in done) / seconds

    prompt = [token(i, a.vocab) for i in range(a.prompt)]
    complete(prompt[:16], 2)
    results = prefill_result(complete(prompt, 1)["prompt_per_second"]) if prompt else []
    results += [decode_result(b, depth, answers(b, depth)) for b, depth in a.answers]
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
    results = prefill_result(a.prompt / metrics(a.prompt, 1).get_ttft().mean * 1000) if a.prompt else []
    results += [decode_result(1, depth, 1000 / metrics(max(depth, 1), a.gen).get_tpot().mean) for b, depth in a.answers if b == 1]
    return {"load_s": load_s, "results": results}


def run_vllm(a):
    """vLLM in the same process, without its server. --model is the folder of its form of the model. What an answer's first token takes
    is measured alone and taken off."""
    from vllm import LLM, SamplingParams, TokensPrompt
    begin = time.perf_counter()
    longest = max([a.prompt + 8, *(depth + a.gen + 8 for _, depth in a.answers)])
    llm = LLM(model=a.model, dtype=a.dtype, max_model_len=longest, max_num_seqs=max([b for b, _ in a.answers], default=1),
              enable_prefix_caching=False, disable_log_stats=True, skip_tokenizer_init=True)
    load_s = time.perf_counter() - begin

    def seconds(batch, n_prompt, n):
        prompts = [TokensPrompt(prompt_token_ids=[token(i + k, a.vocab) for i in range(max(n_prompt, 1))]) for k in range(batch)]
        begin = time.perf_counter()
        llm.generate(prompts, SamplingParams(max_tokens=n, temperature=0, ignore_eos=True, detokenize=False), use_tqdm=False)
        return time.perf_counter() - begin

    seconds(1, 16, 2)
    results = prefill_result(a.prompt / seconds(1, a.prompt, 1)) if a.prompt else []
    for b, depth in a.answers:
        first = seconds(b, depth, 1)
        results.append(decode_result(b, depth, b * (a.gen - 1) / (seconds(b, depth, a.gen) - first)))
    return {"load_s": load_s, "results": results}


def prefill_result(tok_s):
    return [{"test": "prefill", "batch": 1, "depth": 0, "tok_s": tok_s}]


def decode_result(batch, depth, tok_s):
    return {"test": "decode", "batch": batch, "depth": depth, "tok_s": tok_s}


ENGINES = {"millrace": run_millrace, "llama.cpp": run_llama_cpp, "openvino": run_openvino, "vllm": run_vllm}


def answer(text):
    batch, _, depth = text.partition("x")
    return int(batch), int(depth)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=ENGINES)
    p.add_argument("--model", required=True)
    p.add_argument("--millrace", default="build/millrace")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--prompt", type=int, required=True)
    p.add_argument("--gen", type=int, required=True)
    p.add_argument("--answers", type=lambda s: [answer(x) for x in s.split(",") if x], required=True)
    p.add_argument("--dtype", default="bfloat16", help="of vllm")
    p.add_argument("--vocab", type=int, default=32000)
    a = p.parse_args()
    out = os.dup(1)
    os.dup2(2, 1)  # engines write to standard output as they please
    result = ENGINES[a.engine](a)
    os.write(out, (json.dumps(result) + "\n").encode())
    os._exit(0)  # a server's threads need not end in order


if __name__ == "__main__":
    sys.exit(main())
