"""/metrics: a page that Prometheus reads, whose counts are those of the replies (promtool and Prometheus: test_prometheus.py)."""
import concurrent.futures
import json
import math
import re
import threading
import time

import pytest

from server import Server, needs_smollm2, raw_request

pytestmark = needs_smollm2

PROMPT = {"prompt": "The capital of France is", "n_predict": 8, "temperature": 0, "ignore_eos": True}
ALIAS = 'a "name" with \\ and\na line'
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
SERIES = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')


class Page:
    """A page read as strictly as the format allows: .value(name, **labels), .families {name: type}."""

    def __init__(self, text):
        self.families, self.samples, family = {}, {}, None
        assert text.endswith("\n")
        for line in text[:-1].split("\n"):
            if line.startswith("# HELP "):
                assert line.split(" ", 3)[3]
            elif line.startswith("# TYPE "):
                family, kind = line.split(" ")[2:]
                assert family not in self.families and kind in ("counter", "gauge", "histogram")
                self.families[family] = kind
            else:
                self.add(line, family)

    def add(self, line, family):
        name, labels, value = SERIES.fullmatch(line).groups()
        kind = self.families[family]
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        assert name in [family + s for s in suffixes], f"{name} in {family}"
        key = (name, tuple(sorted(LABEL.findall(labels or ""))))
        assert key not in self.samples
        self.samples[key] = float(value)
        if kind == "counter":
            assert float(value) >= 0

    def value(self, name, **labels):
        found = [v for (n, ls), v in self.samples.items() if n == name and set(labels.items()) <= set(ls)]
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0]

    def sum(self, name):
        return sum(v for (n, _), v in self.samples.items() if n == name)

    def check_histograms(self):
        for name in (n for n, kind in self.families.items() if kind == "histogram"):
            rows = {}
            for (n, labels), v in self.samples.items():
                if n == name + "_bucket":
                    rest = tuple(x for x in labels if x[0] != "le")
                    rows.setdefault(rest, []).append((float(dict(labels)["le"]), v))
            for rest, buckets in rows.items():
                counts = [v for _, v in sorted(buckets)]
                assert counts == sorted(counts) and sorted(buckets)[-1][0] == math.inf
                assert counts[-1] == self.samples[(name + "_count", rest)]


@pytest.fixture(scope="module")
def server():
    with Server("--alias", ALIAS) as s:
        yield s
        assert s.end() == 0


def page(server, names=None):
    reply = server.get("/metrics" + (f"?names={names}" if names else ""))
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Page(reply.body.decode())


def test_the_page_is_strict_and_names_the_model_escaped(server):
    p = page(server)
    p.check_histograms()
    assert all(NAME.fullmatch(n) for n in p.families)
    assert all(n.endswith("_total") == (kind == "counter") for n, kind in p.families.items())
    assert p.value("millrace_requests_running", model='a \\"name\\" with \\\\ and\\na line') == 0
    assert p.value("millrace_limit_read_bytes_per_second") > 1e8
    assert p.value("process_resident_memory_bytes") > 1e7


def test_counts_are_those_of_the_replies(server):
    before = page(server)
    replies = [server.post("/completion", {**PROMPT, "n_predict": n}).json() for n in (1, 5, 8)]
    assert server.post("/completion", b"{").status == 400
    # A reply is counted when it has gone out, which its client may see a moment earlier.
    wanted = before.value("millrace_requests_total", outcome="length") + 3
    server.wait_until(lambda: page(server).value("millrace_requests_total", outcome="length") == wanted)
    server.wait_until(lambda: 'path="/completion",code="400"' in server.get("/metrics").body.decode())
    after = page(server)

    def grown(name, **labels):
        return after.value(name, **labels) - before.value(name, **labels)

    assert grown("millrace_requests_total", outcome="length") == 3
    assert grown("millrace_generation_tokens_total") == 14
    assert grown("millrace_time_to_first_token_seconds_count") == 3
    assert grown("millrace_inter_token_latency_seconds_count") == 11
    assert grown("millrace_request_stage_seconds_count", stage="decode") == 3
    assert grown("millrace_prompt_tokens_total") % 3 == 0 and grown("millrace_prompt_tokens_total") > 0
    assert grown("millrace_prompt_tokens_cached_total") <= grown("millrace_prompt_tokens_total")
    assert after.value("millrace_http_requests_total", path="/completion", code="400") == 1
    assert len(replies) == 3


def test_tokens_are_counted_once_however_they_come(server):
    """Several answers, cached prompts, guessed tokens, and one whose client leaves: the sums are those of the usage."""
    before = page(server)
    base = {"prompt": "one two three " * 30, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
    bodies = [base, base, {**base, "n": 3, "temperature": 1, "seed": 2}, {**base, "prompt": [base["prompt"], "another one"]},
              {**base, "speculation": "ngram", "max_tokens": 40}, {**base, "best_of": 3, "n": 2, "temperature": 1, "seed": 4},
              {**base, "max_tokens": 7, "stop": ["two"], "ignore_eos": False}]
    replies = [server.post("/v1/completions", body).json() for body in bodies]
    usage = [r["usage"] for r in replies]
    server.wait_until(lambda: page(server).value("millrace_requests_in_flight") == 0)
    after = page(server)

    def grown(name):
        return after.sum(name) - before.sum(name)

    details = [(u["prompt_tokens_details"], u["completion_tokens_details"]) for u in usage]
    assert [len(r["choices"]) for r in replies] == [1, 1, 3, 2, 1, 2, 1]
    assert usage[2]["completion_tokens"] == 3 * 24 and usage[2]["prompt_tokens"] == usage[0]["prompt_tokens"]
    assert details[1][0]["cached_tokens"] > 0 and details[4][1]["accepted_prediction_tokens"] > 0
    assert grown("millrace_prompt_tokens_total") == sum(u["prompt_tokens"] for u in usage)
    assert grown("millrace_generation_tokens_total") == sum(u["completion_tokens"] for u in usage)
    assert grown("millrace_prompt_tokens_cached_total") == sum(prompt["cached_tokens"] for prompt, _ in details)
    drafted = sum(answer[k + "_prediction_tokens"] for _, answer in details for k in ("accepted", "rejected"))
    assert grown("millrace_speculation_drafted_tokens_total") >= drafted > 0
    assert grown("millrace_speculation_accepted_tokens_total") >= sum(a["accepted_prediction_tokens"] for _, a in details)


def test_the_stages_sum_to_the_duration(server):
    server.post("/completion", PROMPT)
    server.wait_until(lambda: page(server).value("millrace_request_duration_seconds_count") > 0)
    p = page(server)
    assert p.sum("millrace_request_stage_seconds_sum") == pytest.approx(p.value("millrace_request_duration_seconds_sum"), rel=0.01)


def test_the_stages_of_one_answer_sum_to_its_time(server):
    begun = time.monotonic()
    timings = server.post("/completion", {**PROMPT, "n_predict": 30}).json()["timings"]
    whole_ms = 1000 * (time.monotonic() - begun)
    stages = timings["stages_ms"]
    assert list(stages) == ["receive", "parse", "load", "queue", "memory", "prefill", "decode", "sample", "write"]
    engine_ms = timings["queue_ms"] + timings["prompt_ms"] + timings["predicted_ms"]
    assert sum(stages[s] for s in ("parse", "queue", "memory", "prefill", "decode", "sample")) == pytest.approx(engine_ms, rel=0.01)
    assert engine_ms <= sum(stages.values()) <= whole_ms


def test_a_client_that_leaves_is_counted_as_cancelled(server):
    before = page(server)
    body = json.dumps({**PROMPT, "n_predict": 1000, "stream": True}).encode()
    with server.connect() as s:
        s.sendall(raw_request("POST", "/completion", body, ["Content-Type: application/json"]))
        s.recv(1)
    server.wait_until(lambda: server.load() == 0)
    server.wait_until(lambda: page(server).value("millrace_requests_total", outcome="cancelled")
                      == before.value("millrace_requests_total", outcome="cancelled") + 1)
    after = page(server)
    assert after.value("millrace_requests_in_flight") == 0
    assert after.value("millrace_engine_rows_lost_total") > before.value("millrace_engine_rows_lost_total")


def test_two_scrapers_take_nothing_from_each_other(server):
    pages = []

    def scrape():
        for _ in range(20):
            pages.append(page(server))

    threads = [threading.Thread(target=scrape) for _ in range(2)]
    for t in threads:
        t.start()
    server.post("/completion", PROMPT)
    for t in threads:
        t.join()
    for p in pages:
        p.check_histograms()
    last = max(p.value("millrace_generation_tokens_total") for p in pages)
    assert page(server).value("millrace_generation_tokens_total") >= last


def test_names_of_other_servers(server):
    vllm = page(server, "vllm")
    vllm.check_histograms()
    assert vllm.families["vllm:time_to_first_token_seconds"] == "histogram"
    assert vllm.value("vllm:generation_tokens_total") == page(server).value("millrace_generation_tokens_total")
    assert "llamacpp:tokens_predicted_total" in page(server, "llamacpp").families
    reply = server.get("/metrics?names=other")
    assert reply.status == 400 and reply.json()["error"]["param"] == "names"


def test_the_page_needs_no_key_and_no_model():
    with Server("--api-key", "secret", wait=False) as s:
        assert Page(s.get("/metrics").body.decode()).families
        s.wait_ready()
        assert Page(s.get("/metrics").body.decode()).value("millrace_model_load_seconds") > 0


def test_the_engine_does_not_idle_beside_64_streams():
    n_stream = 64
    with Server("--max-batch-size", str(n_stream), "-c", "512") as s:

        def ask(i):
            assert s.post("/completion", {**PROMPT, "prompt": f"{i} " * 4, "stream": True}).status == 200

        with concurrent.futures.ThreadPoolExecutor(n_stream) as pool:
            list(pool.map(ask, range(n_stream)))
        idle, step = (page(s).value(f"millrace_engine_{name}_seconds_total") for name in ("idle", "step"))
        print(f"{100 * idle / (idle + step):.3f} % of {idle + step:.1f} s")
        assert idle / (idle + step) < 0.02
