"""OpenAI's endpoints of a real server, over HTTP: SmolLM2 answers."""
import concurrent.futures
import json
import re

import pytest

from server import Server, needs_smollm2

pytestmark = needs_smollm2
HI = [{"role": "user", "content": "Say hi"}]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}, "required": ["city", "unit"]}}}


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


def chat(server, **fields):
    return server.post("/v1/chat/completions", {"messages": HI, "temperature": 0, **fields})


def events(reply):
    """The data of a stream; comments are passed over."""
    assert reply.headers["content-type"].startswith("text/event-stream")
    frames = [f for f in reply.body.decode("utf-8").split("\n\n") if f and not f.startswith(":")]
    assert all(f.startswith("data: ") for f in frames)
    assert frames[-1] == "data: [DONE]"
    return [json.loads(f[6:]) for f in frames[:-1]]


def joined(chunks, *path):
    text = ""
    for chunk in chunks:
        for choice in chunk["choices"]:
            value = choice["delta"]
            for name in path:
                value = (value[name] if len(value) > name else None) if isinstance(name, int) else (value or {}).get(name)
                if value is None:
                    break
            text += value or ""
    return text


def test_a_stream_joins_to_the_whole(server):
    whole = chat(server, max_tokens=24).json()
    chunks = events(chat(server, max_tokens=24, stream=True, stream_options={"include_usage": True}))
    assert joined(chunks, "content") == whole["choices"][0]["message"]["content"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1] if c["choices"][0]["finish_reason"]] == ["length"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 24
    assert len({(c["id"], c["created"]) for c in chunks}) == 1


def test_an_answer_is_the_same_alone_and_in_a_crowd(server):
    def ask(i):
        return server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": f"Count from {i}."}],
                                                    "seed": i, "max_tokens": 16}).json()["choices"][0]["message"]["content"]
    alone = [ask(i) for i in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(6))) == alone


def test_a_character_over_several_tokens_is_whole_or_one_replacement(server):
    text = "你好👨\u200d👩\u200d👧!"
    fields = {"grammar": f'root ::= "{text}"'}
    whole = chat(server, **fields).json()["choices"][0]
    assert whole["message"]["content"] == text and whole["finish_reason"] == "stop"
    assert joined(events(chat(server, stream=True, **fields)), "content") == text
    for n in range(1, 16):
        cut = chat(server, max_tokens=n, logprobs=True, **fields).json()["choices"][0]
        chunks = events(chat(server, max_tokens=n, stream=True, **fields))
        assert joined(chunks, "content") == cut["message"]["content"]
        assert "\ufffd" not in joined(chunks, "content")[:-1] and cut["finish_reason"] == "length"
        raw = bytes(b for token in cut["logprobs"]["content"] for b in token["bytes"])
        assert text.encode().startswith(raw)
        assert cut["message"]["content"].rstrip("\ufffd") == text[:len(cut["message"]["content"].rstrip("\ufffd"))]


def test_a_stop_string_is_never_told(server):
    fields = {"grammar": 'root ::= "the brown fox jumps"'}
    for stop, text in [(["own fo"], "the br"), (["fox jumps over"], "the brown fox jumps"), (" fox", "the brown")]:
        whole = chat(server, stop=stop, **fields).json()["choices"][0]
        assert (whole["message"]["content"], whole["finish_reason"]) == (text, "stop")
        assert joined(events(chat(server, stop=stop, stream=True, **fields)), "content") == text


def test_bytes_that_are_no_text_become_replacements(server):
    """0x81, which begins nothing, and 0xCC, which begins a character that never ends; then text behind such bytes."""
    behind = server.post("/tokenize", {"content": "ab"}).json()["tokens"]
    for fields, text in [({"logit_bias": {"219": 100}}, "\ufffd" * 4), ({"logit_bias": {"151": 100}}, "\ufffd" * 4),
                         ({"prompt": [219, 151, *behind], "max_tokens": 0, "echo": True}, "\ufffd\ufffdab")]:
        for scores in ({}, {"logprobs": 1}):
            body = {"prompt": "a", "max_tokens": 4, "temperature": 0, **fields, **scores}
            assert server.post("/v1/completions", body).json()["choices"][0]["text"] == text
            chunks = events(server.post("/v1/completions", {**body, "stream": True}))
            assert "".join(c["choices"][0]["text"] for c in chunks) == text


def test_a_call_that_was_cut_is_not_told_as_one(server):
    ask = {"tools": [TOOL], "tool_choice": "required"}
    for n in (1, 4, 9, 14, 20, 40, 200):
        whole = chat(server, max_tokens=n, **ask).json()["choices"][0]
        chunks = events(chat(server, max_tokens=n, stream=True, **ask))
        arguments = joined(chunks, "tool_calls", 0, "function", "arguments")
        calls = whole["message"].get("tool_calls") or []
        assert arguments == "".join(c["function"]["arguments"] for c in calls)
        assert [c["choices"][0]["finish_reason"] for c in chunks][-1] == whole["finish_reason"]
        pieces = [p for c in chunks for p in c["choices"][0]["delta"].get("tool_calls") or []]
        for index in {p["index"] for p in pieces}:
            first, *rest = [p for p in pieces if p["index"] == index]
            assert first["id"] and first["type"] == "function" and first["function"]["name"] == "get_weather"
            assert not any(p.get("id") or p["function"].get("name") for p in rest)
        assert whole["finish_reason"] in ("length", "tool_calls")
        if whole["finish_reason"] == "tool_calls":
            assert all(set(json.loads(c["function"]["arguments"])) == {"city", "unit"} for c in calls)
            assert whole["message"]["content"] is None


STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')
INTEGER = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
    "type": "object", "properties": {"v": {"type": "integer", "minimum": -99, "maximum": 99}}, "required": ["v"],
    "additionalProperties": False}}}


def longest_blank(text):
    """The most blanks in a row outside of strings."""
    return max((len(blank) for blank in re.findall(r"\s+", STRING.sub("s", text))), default=0)


@pytest.mark.parametrize("prompt", ["Reply with an example object.", "\n\n\n"])
@pytest.mark.parametrize("newlines", [{"198": 20}, {"198": 100}], ids=["bias 20", "bias 100"])
def test_blanks_in_json_are_few_and_it_ends_with_its_brace(server, prompt, newlines):
    """However much the model would like to go on with line breaks."""
    body = {"messages": [{"role": "user", "content": prompt}], "seed": 5, "logit_bias": newlines}
    for temperature, n in ((0, 1), (1, 3)):
        for shape, tokens in ((INTEGER, 300), ({"type": "json_object"}, 60)):
            reply = server.post("/v1/chat/completions", {**body, "temperature": temperature, "n": n, "response_format": shape,
                                                         "max_tokens": tokens, "logprobs": True}).json()
            for choice in reply["choices"]:
                text = choice["message"]["content"]
                assert longest_blank(text) <= 20, text
                if shape is INTEGER or choice["finish_reason"] == "stop":
                    assert choice["finish_reason"] == "stop" and text.endswith("}") and json.loads(text) is not None
            told = sum(len(c["logprobs"]["content"]) for c in reply["choices"])
            ended = sum(c["finish_reason"] == "stop" for c in reply["choices"])  # the token that ends has no text
            assert told <= reply["usage"]["completion_tokens"] <= told + ended


@pytest.mark.parametrize("fields, param", [
    ({"guided_regex": "lamp**"}, "guided_regex"),
    ({"guided_regex": "("}, "guided_regex"),
    ({"json_schema": {"type": "notatype"}}, "json_schema"),
    ({"json_schema": False}, "json_schema"),
    ({"grammar": "root ::= other"}, "grammar"),
    ({"response_format": {"type": "json_schema", "schema": {}}}, "response_format.json_schema"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"messages": []}, "messages"),
    ({"n": 0}, "n"),
])
def test_what_is_wrong_is_named_before_a_stream_begins(server, fields, param):
    for stream in (False, True):
        reply = chat(server, stream=stream, **fields)
        assert reply.status == 400
        assert reply.json()["error"]["param"] == param
    assert chat(server, max_tokens=1).status == 200


def test_a_prompt_too_long_tells_the_numbers(server):
    reply = server.post("/v1/completions", {"prompt": "word " * 5000})
    assert reply.status == 400
    error = reply.json()["error"]
    assert error["type"] == "exceed_context_size_error" and error["n_ctx"] == 2048 and error["n_prompt_tokens"] > 4999


def test_an_unknown_model_is_not_found(server):
    reply = chat(server, model="gpt-17")
    assert reply.status == 404 and reply.json()["error"]["code"] == "model_not_found"


def test_a_cached_prompt_is_told(server):
    body = {"messages": [{"role": "user", "content": "A fairly long text about rivers and mills. " * 8}], "max_tokens": 2}
    server.post("/v1/chat/completions", body)
    usage = server.post("/v1/chat/completions", body).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] // 2


def test_scores_of_a_prompt_are_those_of_the_answer(server):
    """What a harness measures: a text's log probability, whether the model wrote it or was given it."""
    wrote = server.post("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 6, "temperature": 0,
                                            "logprobs": 1}).json()["choices"][0]
    given = server.post("/v1/completions", {"prompt": "The capital of France is" + wrote["text"], "max_tokens": 0,
                                            "echo": True, "logprobs": 1}).json()["choices"][0]
    n = len(wrote["logprobs"]["tokens"])
    assert given["logprobs"]["tokens"][-n:] == wrote["logprobs"]["tokens"]
    assert given["logprobs"]["token_logprobs"][-n:] == pytest.approx(wrote["logprobs"]["token_logprobs"], abs=1e-5)
