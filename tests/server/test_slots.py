"""GET /slots: what the places in the batch are busy with, as monitors of llama-server read it."""
import json

import pytest

from server import Server, needs_smollm2, raw_request, read_until

pytestmark = needs_smollm2

LONG = {"prompt": "Once upon a time", "n_predict": 1500, "ignore_eos": True, "temperature": 0.5, "top_k": 7, "seed": 3}


@pytest.fixture(scope="module")
def server():
    with Server("--max-batch-size", "3") as s:
        yield s


def slots(server, query=""):
    reply = server.get("/slots" + query)
    assert reply.status == 200, reply.body
    return reply.json()


def stream(server, path="/completion", **fields):
    """A connection on which an answer has begun."""
    c = server.connect()
    c.sendall(raw_request("POST", path, json.dumps({**LONG, **fields, "stream": True}).encode()))
    read_until(c, b"data: ")
    return c


def busy(server):
    return [s for s in slots(server) if s["is_processing"]]


def test_places_are_free_at_first():
    with Server("--max-batch-size", "2", "--speculation", "off") as s:
        assert slots(s) == [{"id": i, "n_ctx": 2048, "speculative": False, "is_processing": False} for i in range(2)]


def test_a_place_tells_what_runs_and_then_what_ran(server):
    n_prompt = len(server.post("/tokenize", {"content": LONG["prompt"]}).json()["tokens"])
    with stream(server):
        slot, = busy(server)
        assert slot["n_prompt_tokens"] == n_prompt and "prompt" not in slot and "generated" not in slot
        params = slot["params"]
        assert (params["temperature"], params["top_k"], params["seed"], params["n_predict"]) == (0.5, 7, 3, 1500)
        assert params["stream"] is True and params["ignore_eos"] is True
        token, = slot["next_token"]
        assert token["has_next_token"] and 1 <= token["n_decoded"] and token["n_decoded"] + token["n_remain"] == 1500
        server.wait_until(lambda: busy(server)[0]["next_token"][0]["n_decoded"] > token["n_decoded"])
        assert busy(server)[0]["id_task"] == slot["id_task"] and busy(server)[0]["id"] == slot["id"]
    server.wait_until(lambda: not busy(server))
    done = slots(server)[slot["id"]]
    assert done["id_task"] == slot["id_task"] and not done["next_token"][0]["has_next_token"]
    later = server.post("/completion", {**LONG, "n_predict": 4}).json()
    server.wait_until(lambda: not busy(server))
    last = max((s for s in slots(server) if "id_task" in s), key=lambda s: s["id_task"])
    assert last["id_task"] > slot["id_task"] and not last["params"]["stream"]
    assert last["next_token"] == [{"has_next_token": False, "has_new_line": "\n" in later["content"], "n_remain": 0, "n_decoded": 4}]
    assert last["n_prompt_tokens_processed"] + last["n_prompt_tokens_cache"] == last["n_prompt_tokens"] == later["tokens_evaluated"]
    assert last["n_prompt_tokens_cache"] == later["tokens_cached"]


def test_each_answer_has_a_place_and_who_waits_has_none(server):
    with stream(server, "/v1/completions", n=3, max_tokens=1500) as first, server.connect() as second:
        first.setblocking(True)
        second.sendall(raw_request("POST", "/completion", json.dumps({**LONG, "n_predict": 2, "prompt": "Twice"}).encode()))
        server.wait_until(lambda: server.load() == 4)
        seen = slots(server)
        assert [s["is_processing"] for s in seen] == [True] * 3 and len({s["id_task"] for s in seen}) == 1
        assert server.get("/slots?fail_on_no_slot=1").status == 503
        first.close()
        read_until(second, b'"tokens_predicted":2')
    server.wait_until(lambda: not busy(server))
    assert server.get("/slots?fail_on_no_slot=1").status == 200


def test_texts_are_told_where_the_deployment_says_so():
    with Server("--slots-debug") as s:
        with stream(s):
            s.wait_until(lambda: busy(s)[0]["generated"])
            assert busy(s)[0]["prompt"] == LONG["prompt"]
        s.wait_until(lambda: s.load() == 0)
        s.wait_until(lambda: not busy(s))
        assert not any("prompt" in x or "generated" in x for x in slots(s))


def test_a_model_that_is_not_there(server):
    assert server.get("/slots?model=other").status == 404
