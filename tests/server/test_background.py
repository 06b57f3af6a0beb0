"""Responses in the background: created, asked for by their id, cancelled in the queue and while they run."""
import pytest

from server import Server, needs_smollm2, run

pytestmark = needs_smollm2
LONG = {"input": "Tell me a story", "max_output_tokens": 1900, "ignore_eos": True, "background": True}


@pytest.fixture(scope="module")
def server():
    with Server("--max-batch-size", "1") as s:
        yield s


def create(server, **fields):
    reply = server.post("/v1/responses", fields)
    assert reply.status == 200, reply.body
    return reply.json()


def wait_for(server, id, *statuses):
    server.wait_until(lambda: server.get(f"/v1/responses/{id}").json()["status"] in statuses)
    return server.get(f"/v1/responses/{id}").json()


def wait_idle(server):
    server.wait_until(lambda: server.load() == 0)


def test_an_answer_comes_to_where_it_is_kept(server):
    fields = {"input": "Say hi", "max_output_tokens": 12, "temperature": 0}
    begun = create(server, background=True, **fields)
    assert (begun["status"], begun["background"], begun["output"]) == ("queued", True, [])
    ended = wait_for(server, begun["id"], "completed", "incomplete")
    whole = create(server, **fields)
    assert ended["status"] == whole["status"] and ended["usage"] == {**whole["usage"], "input_tokens_details": ended["usage"]["input_tokens_details"]}
    assert [i["content"] for i in ended["output"]] == [i["content"] for i in whole["output"]]
    more = create(server, previous_response_id=begun["id"], input="More", max_output_tokens=2, background=True)
    assert wait_for(server, more["id"], "completed", "incomplete")["usage"]["input_tokens"] > ended["usage"]["input_tokens"]


def test_one_that_runs_and_one_that_waits_are_cancelled(server):
    runs, waits = create(server, **LONG), create(server, **LONG)
    wait_for(server, runs["id"], "in_progress")
    assert server.get(f"/v1/responses/{waits['id']}").json()["status"] == "queued"
    for id in (waits["id"], runs["id"]):
        assert server.post(f"/v1/responses/{id}/cancel", {}).json()["status"] == "cancelled"
    wait_idle(server)
    for id in (waits["id"], runs["id"]):
        assert server.get(f"/v1/responses/{id}").json()["status"] == "cancelled"
        assert server.post(f"/v1/responses/{id}/cancel", {}).json()["status"] == "cancelled"


def test_what_is_deleted_does_not_run_on(server):
    runs = create(server, **LONG)
    assert server.request("DELETE", f"/v1/responses/{runs['id']}").json()["deleted"]
    wait_idle(server)
    assert server.get(f"/v1/responses/{runs['id']}").status == 404


def test_many_come_and_go(server):
    ids = [create(server, **LONG)["id"] for _ in range(12)]
    for id in ids:
        server.post(f"/v1/responses/{id}/cancel", {})
    wait_idle(server)


def test_what_fails_says_so(server):
    begun = create(server, input="x", background=True, text={"format": {"type": "json_schema", "name": "a", "schema": {"$ref": "#/$defs/none"}}})
    failed = wait_for(server, begun["id"], "failed")
    assert "text.format" in failed["error"]["message"] and failed["error"]["code"]


@pytest.mark.parametrize("fields, param", [({"stream": True}, "stream"), ({"store": False}, "store")])
def test_what_excludes_the_background_is_named(server, fields, param):
    reply = server.post("/v1/responses", {"input": "x", "background": True, **fields})
    assert reply.status == 400 and reply.json()["error"]["param"] == param


def test_a_key_s_limit_holds_while_the_answer_is_made(tmp_path):
    keys = tmp_path / "keys"
    made = run("key", "tester", "--concurrency", "1")
    keys.write_text(made.stdout)
    token = made.stderr.strip()
    with Server("--api-key-file", keys, "--max-batch-size", "1") as s:
        own = {"Authorization": f"Bearer {token}"}
        begun = s.post("/v1/responses", LONG, headers=own)
        assert begun.status == 200
        assert s.post("/v1/responses", LONG, headers=own).status == 429
        id = begun.json()["id"]
        assert s.post(f"/v1/responses/{id}/cancel", {}, headers=own).json()["status"] == "cancelled"
        s.wait_until(lambda: s.post("/v1/responses", {"input": "x", "max_output_tokens": 2}, headers=own).status == 200)
        s.post("/v1/responses", LONG, headers=own)  # the server ends while it runs
