"""`millrace bench --engine`: its JSON, on a model small enough that a load takes a moment."""
import json

from program import run
from test_bench import CONTEXT, model  # noqa: F401 (a fixture)


def load(model, *args):
    r = run("bench", "--engine", "-m", model, "-c", CONTEXT, *args)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_every_request_is_answered_in_full(model):
    a = load(model, "--requests", 20, "--prompt", 40, "--gen", 12, "--max-running", 4)
    assert a["finished"] == 20
    assert a["prompt_tokens"] == 20 * 40 and a["answer_tokens"] == 20 * 12
    assert a["engine"]["decode_rows"] == 20 * 11 and a["engine"]["prompt_rows"] == 20 * 40
    assert a["engine"]["preemptions"] == 0 and a["engine"]["prefix_hit_rate"] == 0
    for figure in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "queue_ms"):
        assert 0 <= a[figure]["p50"] <= a[figure]["p99"] <= a[figure]["max"]
    assert 0 < a["engine"]["kv_live"] <= 1 and 0 < a["engine"]["kv_use"] <= 1


def test_the_seed_decides_the_lengths(model):
    a, b, c = (load(model, "--requests", 10, "--rate", 1000, "--seed", seed) for seed in (1, 1, 2))
    assert (a["prompt_tokens"], a["answer_tokens"]) == (b["prompt_tokens"], b["answer_tokens"])
    assert (a["prompt_tokens"], a["answer_tokens"]) != (c["prompt_tokens"], c["answer_tokens"])


def test_a_shared_beginning_is_computed_once(model):
    args = ("--requests", 8, "--shared", 128, "--prompt", 20, "--gen", 4, "--max-running", 1)
    shared, alone = load(model, *args), load(model, *args, "--no-prefix-cache")
    assert alone["engine"]["prompt_rows"] == 8 * 148
    assert shared["engine"]["prompt_rows"] == 148 + 7 * 20
    assert abs(shared["engine"]["prefix_hit_rate"] - 7 * 128 / (8 * 148)) < 1e-5


def test_a_small_cache_puts_answers_aside(model):
    a = load(model, "--requests", 8, "--prompt", 20, "--gen", 200, "--max-running", 8, "--kv-tokens", CONTEXT)
    assert a["finished"] == 8 and a["answer_tokens"] == 8 * 200
    assert a["engine"]["preemptions"] > 0


def test_a_long_prompt_comes_in_the_middle(model):
    a = load(model, "--requests", 4, "--prompt", 10, "--gen", 8, "--long-prompt", 200)
    assert a["finished"] == 5 and a["long_prompt_ttft_ms"] > 0


def test_a_prompt_that_does_not_fit_is_an_error(model):
    r = run("bench", "--engine", "-m", model, "-c", CONTEXT, "--prompt", CONTEXT)
    assert r.returncode != 0 and str(CONTEXT) in r.stderr


def test_refused_requests_count_as_missed(model):
    """Many at once and a target of a millisecond: most are refused, and none of those is goodput."""
    args = ["--requests", 200, "--prompt", 40, "--gen", 8, "--gen-most", 12, "--warm-up", 12, "--max-running", 2, "--latency-target", 1]
    on, off = load(model, *args), load(model, *args, "--admission", "off")
    assert on["admission"]["refused"] > 0 and on["finished"] + on["admission"]["refused"] == 200
    assert on["slo_attainment"] <= on["finished"] / 200
    assert off["admission"]["refused"] == 0 and off["finished"] == 200
    assert 200 * 8 <= off["answer_tokens"] <= 200 * 12
    assert off["engine"]["prompt_rows"] == 200 * 40  # the warm-up does not count


def test_wrong_loads_are_refused_by_name(model):
    r = run("bench", "--engine", "-m", model, "-c", CONTEXT, "--low-load", "0.9", "--high-load", "0.5")
    assert r.returncode != 0 and "high_load" in r.stderr
