"""Odd but frequent requests, which other servers answer with 500, with half an answer, or never again."""
import json
import threading
from contextlib import contextmanager

import pytest

from server import Server, needs_smollm2, raw_request, read_all
from test_openai_api import chat, events

pytestmark = needs_smollm2
USER = {"role": "user", "content": "Say hi"}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "rain"}
# Refuses a system message, and two of the same role in a row.
STRICT_TEMPLATE = """{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}\
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}\
{{ m.role }}: {{ m.content }}
{% endfor %}"""


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s
        assert s.process.poll() is None, s.error_text()


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "strict.jinja"
    path.write_text(STRICT_TEMPLATE)
    with Server("--chat-template-file", path) as s:
        yield s


@pytest.fixture(scope="module")
def alone(server):
    return neighbour(server)


def neighbour(server):
    return chat(server, max_tokens=30, ignore_eos=True).json()["choices"][0]["message"]["content"]


@contextmanager
def beside(server, alone):
    """Meanwhile another request runs, which is answered as it is alone."""
    got = []
    thread = threading.Thread(target=lambda: got.append(neighbour(server)))
    thread.start()
    server.wait_until(lambda: server.load() > 0 or got)
    yield
    thread.join()
    assert got == [alone]


def is_fine(server):
    return server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200


# ---- frames of a stream ----

@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": False}, None])
def test_usage_has_a_chunk_of_its_own_where_it_is_asked_for(server, options):
    more = {} if options is None else {"stream_options": options}
    chunks = events(chat(server, max_tokens=2, stream=True, **more))
    with_usage = [c for c in chunks if c.get("usage")]
    assert [c["choices"] for c in with_usage] == ([[]] if options and options["include_usage"] else [])
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    assert reasons[:-1] == [None] * (len(reasons) - 1) and reasons[-1] == "length"


def test_a_slow_prompt_s_stream_holds_comments_and_no_empty_events():
    with Server("--sse-ping-interval", "1") as s:
        body = json.dumps({"messages": [{"role": "user", "content": "word " * 1900}], "max_tokens": 2, "stream": True}).encode()
        with s.connect() as c:
            c.sendall(raw_request("POST", "/v1/chat/completions", body))
            frames = read_all(c).split(b"\n\n")
    assert any(b"\n:" in f or f.startswith(b":") for f in frames)
    assert not any(line == b"data:" or line == b"data: " for f in frames for line in f.splitlines())


# ---- messages ----

@pytest.mark.parametrize("messages, text", [
    ([USER, CALL, RESULT], ""),
    ([USER, {k: v for k, v in CALL.items() if k != "content"}, RESULT], ""),
    ([{"role": "user", "content": [{"type": "text", "text": "foo "}, {"type": "text", "text": "bar"}]}], "foo bar"),
    ([{"role": "user", "content": ""}], ""),
])
def test_contents_that_are_legal(server, messages, text):
    prompt = server.post("/apply-template", {"messages": messages}).json()["prompt"]
    assert text in prompt and "None" not in prompt and "foo \nbar" not in prompt
    assert chat(server, messages=messages, max_tokens=1).status == 200


@pytest.mark.parametrize("message", [
    {"role": "user", "content": None}, {"role": "user"}, {"role": "user", "content": [{"type": "hologram", "x": 1}]},
    {"role": "user", "content": []}, {}, {"content": "hi"}, {"role": 7, "content": "hi"}, {"role": "user", "content": 7},
    "hi", None])
def test_contents_that_are_not(server, message):
    for stream in (False, True):
        reply = chat(server, messages=[message], stream=stream, max_tokens=1)
        assert reply.status == 400 and reply.json()["error"]["param"].startswith("messages"), reply.body
    assert is_fine(server)


@pytest.mark.parametrize("messages, told", [
    ([{"role": "system", "content": "Be kind."}, USER], "no system here"),
    ([USER, USER], "roles must alternate"),
    ([{"role": "assistant", "content": "Hello"}], "roles must alternate")])
def test_what_a_template_refuses_is_told_in_its_words(strict, messages, told):
    for stream in (False, True):
        reply = chat(strict, messages=messages, stream=stream)
        assert reply.status == 400 and told in reply.json()["error"]["message"]
    assert chat(strict, messages=[USER], max_tokens=1).status == 200


# ---- ids of tokens ----

@pytest.mark.parametrize("fields, param", [
    ({"logit_bias": {"99999999": -100}}, "logit_bias"), ({"logit_bias": {"-3": 5}}, "logit_bias"),
    ({"logit_bias": {"AI": -100}}, "logit_bias"), ({"logit_bias": {"10": 1e9}}, "logit_bias"),
    ({"logit_bias": {"10": "x"}}, "logit_bias"), ({"prompt": [-1]}, "prompt"), ({"prompt": [49152]}, "prompt"),
    ({"prompt": [4294967297]}, "prompt"), ({"prompt": [1.5]}, "prompt"), ({"prompt": [1e300]}, "prompt")])
def test_ids_beyond_the_vocabulary_are_named_and_a_neighbour_goes_on(server, alone, fields, param):
    with beside(server, alone):
        reply = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, **fields})
        assert reply.status == 400 and param in reply.json()["error"]["param"], reply.body


# ---- constraints ----

@pytest.mark.parametrize("fields", [
    {"guided_regex": "lamp**"}, {"guided_regex": "("}, {"guided_regex": "[z-a]"}, {"guided_regex": "^(?<=x)*$"},
    {"json_schema": {"type": "notatype"}}, {"json_schema": {"properties": "bar"}}, {"json_schema": False},
    {"response_format": {"type": "json_schema", "schema": {"type": "object"}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, {"response_format": {"type": "yaml"}},
    {"grammar": "root ::= other"}, {"grammar": "root ::= root \"a\""}, {"grammar": "start ::= \"a\""},
    {"grammar": "root ::= \"a\"", "response_format": {"type": "json_object"}}])
def test_a_constraint_that_cannot_be_kept_is_refused_and_a_neighbour_goes_on(server, alone, fields):
    with beside(server, alone):
        for stream in (False, True):
            reply = chat(server, stream=stream, max_tokens=5, **fields)
            assert reply.status == 400 and reply.json()["error"]["message"], reply.body


@pytest.mark.parametrize("schema", [True, {}])
def test_a_schema_that_allows_all_means_any_json(server, schema):
    choice = chat(server, max_tokens=60, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert choice.status == 200
    choice = choice.json()["choices"][0]
    if choice["finish_reason"] == "stop":
        json.loads(choice["message"]["content"])


# ---- nothing in it ----

@pytest.mark.parametrize("fields", [
    {"prompt": ""}, {"prompt": [""]}, {"prompt": []}, {"prompt": [[]]}, {"prompt": ["a", ""]}, {"prompt": None}, {}, {"prompt": {}}])
def test_a_prompt_of_nothing_is_refused(server, fields):
    reply = server.post("/v1/completions", {"max_tokens": 2, **fields})
    assert reply.status == 400 and reply.json()["error"]["param"].startswith("prompt"), reply.body
    assert is_fine(server)


@pytest.mark.parametrize("fields", [{"messages": []}, {}, {"messages": None}, {"messages": {}}, {"messages": "hi"}])
def test_messages_of_nothing_are_refused(server, fields):
    reply = server.post("/v1/chat/completions", {"max_tokens": 2, **fields})
    assert reply.status == 400 and reply.json()["error"]["param"] == "messages", reply.body
    assert is_fine(server)


@pytest.mark.parametrize("value", ["", [], ["a", ""], [[]], None, 7])
def test_an_input_of_nothing_is_refused(server, value):
    reply = server.post("/v1/embeddings", {"input": value})
    assert reply.status == 400 and reply.json()["error"]["param"].startswith("input"), reply.body
    assert is_fine(server)
