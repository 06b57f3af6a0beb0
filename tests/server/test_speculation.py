"""Speculation over HTTP: no answer depends on it, every token is delivered and counted once, and a prediction is used."""
import json

import pytest

from server import Server, needs_smollm2

pytestmark = needs_smollm2
TEXTS = ["one two three " * 40, "word " * 60]


@pytest.fixture(scope="module")
def server():
    with Server("-c", "512") as s:
        yield s


def complete(server, **fields):
    return server.post("/v1/completions", {"prompt": TEXTS[0], "temperature": 0, "seed": 1, **fields})


def both(server, method="ngram", **fields):
    """The reply with guesses; its choices are those without."""
    plain = complete(server, speculation="off", **fields).json()
    got = complete(server, speculation=method, **fields).json()
    assert got["choices"] == plain["choices"]
    assert got["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    assert "n" in fields or got["usage"]["completion_tokens"] == got["timings"]["predicted_n"]
    assert plain["timings"]["draft_n"] == 0
    return got


def details(reply):
    return reply["usage"]["completion_tokens_details"]


def metric(server, name):
    lines = server.get("/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{") or line.startswith(name + " "))


@pytest.mark.parametrize("prompt", TEXTS)
@pytest.mark.parametrize("method", ["ngram", "auto"])
def test_each_length_is_that_of_the_plain_run(server, prompt, method):
    for n in [1, 2, 3, 5, 8, 13, 21, 40]:
        got = both(server, method, prompt=prompt, max_tokens=n, logprobs=1)
        assert got["usage"]["completion_tokens"] <= n
        assert len(got["choices"][0]["logprobs"]["tokens"]) == got["usage"]["completion_tokens"]


def test_what_repeats_is_guessed(server):
    got = both(server, max_tokens=40)
    assert details(got)["accepted_prediction_tokens"] > 10
    assert got["timings"]["draft_n_accepted"] == details(got)["accepted_prediction_tokens"]
    assert got["timings"]["draft_n"] == sum(details(got)[k + "_prediction_tokens"] for k in ("accepted", "rejected"))


@pytest.mark.parametrize("fields", [
    {"stop": ["three one"]}, {"stop": ["ee o"]}, {"temperature": 0.8}, {"temperature": 1.3, "top_p": 0.9},
    {"repeat_penalty": 1.1, "presence_penalty": 0.5}, {"grammar": 'root ::= ("one two three " | "two ")+ "."'},
    {"n": 3, "temperature": 0.8}, {"min_tokens": 30}, {"logprobs": 5}])
def test_nothing_else_changes_an_answer(server, fields):
    both(server, max_tokens=40, **fields)


def test_the_end_of_the_context_ends_a_block(server):
    got = both(server, prompt="one two three " * 165, max_tokens=400)
    assert got["usage"]["total_tokens"] <= 512
    assert got["choices"][0]["finish_reason"] == "length"


def test_every_token_is_counted_once(server):
    name = "millrace_generation_tokens_total"
    before = metric(server, name)
    n = complete(server, max_tokens=33).json()["usage"]["completion_tokens"]
    assert metric(server, name) - before == n


def test_a_stream_delivers_what_it_counts(server):
    reply = complete(server, max_tokens=40, stream=True, logprobs=0, stream_options={"include_usage": True})
    chunks = [json.loads(f[6:]) for f in reply.body.decode().split("\n\n") if f.startswith("data: {")]
    tokens = sum(len((c["choices"][0].get("logprobs") or {}).get("tokens", [])) for c in chunks if c["choices"])
    assert tokens == chunks[-1]["usage"]["completion_tokens"]


@pytest.mark.parametrize("parts", [False, True])
def test_a_prediction_is_used(server, parts):
    ask = {"messages": [{"role": "user", "content": "Tell a story of a mill."}], "temperature": 0, "max_tokens": 80}
    plain = server.post("/v1/chat/completions", {**ask, "speculation": "off"}).json()
    text = plain["choices"][0]["message"]["content"]
    content = [{"type": "text", "text": text[:50]}, {"type": "text", "text": text[50:]}] if parts else text
    got = server.post("/v1/chat/completions", {**ask, "speculation": "reference",
                                               "prediction": {"type": "content", "content": content}})
    assert got.json()["choices"] == plain["choices"]
    assert details(got.json())["accepted_prediction_tokens"] > 40
    assert "x-millrace-prediction" not in got.headers


def test_a_prediction_longer_than_the_context_is_cut_and_said(server):
    got = complete(server, max_tokens=4, prediction={"type": "content", "content": "a b c d " * 1000})
    assert got.status == 200
    assert got.headers["x-millrace-prediction"].startswith("cut to 512 of ")


@pytest.mark.parametrize("fields, param", [
    ({"speculation": "heads"}, "speculation"), ({"speculation": "fast"}, "speculation"), ({"speculation": 1}, "speculation"),
    ({"prediction": "text"}, "prediction"), ({"prediction": {"content": "a"}}, "prediction.type"),
    ({"prediction": {"type": "content"}}, "prediction.content"),
    ({"prediction": {"type": "content", "content": [{"type": "image"}]}}, "prediction.content[0]")])
def test_what_is_wrong_is_named(server, fields, param):
    reply = complete(server, max_tokens=1, **fields)
    assert reply.status == 400
    assert reply.json()["error"]["param"] == param
