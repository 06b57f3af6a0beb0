"""The clients that people use, against a real server: they change the base address, and nothing else."""
import asyncio
import json
import os
import subprocess
import sys

import pytest

from server import Server, needs_smollm2

pytestmark = needs_smollm2
MODEL = "smollm2"
HI = [{"role": "user", "content": "Say hi"}]
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
        "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.", "parameters": CITY}}


@pytest.fixture(scope="module")
def server():
    with Server("--alias", MODEL) as s:
        yield s


@pytest.fixture(scope="module")
def answer(server):
    """What all clients must be told for HI."""
    body = {"messages": HI, "temperature": 0, "max_tokens": 12}
    return server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"]


@pytest.fixture(scope="module")
def openai(server):
    module = pytest.importorskip("openai")
    return module, module.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_openai_chats_whole_and_streamed(openai, answer):
    _, client = openai
    whole = client.chat.completions.create(model=MODEL, messages=HI, temperature=0, max_tokens=12)
    assert whole.choices[0].message.content == answer and whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 12
    stream = client.chat.completions.create(model=MODEL, messages=HI, temperature=0, max_tokens=12, stream=True,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == answer
    assert chunks[-1].usage.completion_tokens == 12


def test_openai_chats_asynchronously(openai, server, answer):
    module, _ = openai

    async def ask():
        async with module.AsyncOpenAI(base_url=server.url + "/v1", api_key="none") as client:
            fields = {"model": MODEL, "messages": HI, "temperature": 0, "max_tokens": 12}
            return await asyncio.gather(*(client.chat.completions.create(**fields) for _ in range(3)))
    assert [r.choices[0].message.content for r in asyncio.run(ask())] == [answer] * 3


def test_openai_calls_functions(openai):
    _, client = openai
    fields = {"model": MODEL, "messages": HI, "tools": [TOOL], "tool_choice": "required", "temperature": 0,
              "parallel_tool_calls": False}
    whole = client.chat.completions.create(**fields).choices[0]
    call = whole.message.tool_calls[0]
    assert whole.finish_reason == "tool_calls" and call.function.name == "get_weather"
    assert set(json.loads(call.function.arguments)) == {"city"}
    with client.chat.completions.stream(**fields) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.message.tool_calls[0].function.arguments == call.function.arguments
    after = [*HI, whole.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sun"}]
    assert client.chat.completions.create(model=MODEL, messages=after, max_tokens=3).choices[0].message.content


def test_openai_parses_structured_answers(openai):
    _, client = openai
    pydantic = pytest.importorskip("pydantic")

    class City(pydantic.BaseModel):
        city: str
        population: int

    parsed = client.chat.completions.parse(model=MODEL, messages=HI, temperature=0, response_format=City)
    assert isinstance(parsed.choices[0].message.parsed, City)


def test_openai_completes_and_embeds(openai):
    _, client = openai
    done = client.completions.create(model=MODEL, prompt=["a b c", "x y"], max_tokens=2, logprobs=2, echo=True)
    assert done.choices[1].text.startswith("x y") and done.choices[0].logprobs.token_logprobs[0] is None
    vectors = [client.embeddings.create(model=MODEL, input=["hello", "world"], encoding_format=f) for f in ("float", "base64")]
    assert len(vectors[0].data) == 2
    default = client.embeddings.create(model=MODEL, input="hello").data[0].embedding  # asked as base64, decoded by the client
    assert default == pytest.approx(vectors[0].data[0].embedding, abs=1e-6)
    assert sum(v * v for v in default) == pytest.approx(1, abs=1e-4)


def test_openai_responds(openai, answer):
    _, client = openai
    fields = {"model": MODEL, "input": "Say hi", "temperature": 0, "max_output_tokens": 12}
    whole = client.responses.create(**fields)
    assert whole.output_text == answer and whole.status == "incomplete"
    with client.responses.stream(**fields) as stream:
        events = list(stream)
    assert events[0].type == "response.created" and events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == answer
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == answer
    assert client.responses.retrieve(whole.id).output_text == answer
    more = client.responses.create(model=MODEL, input="More", previous_response_id=whole.id, max_output_tokens=3)
    assert more.usage.input_tokens > whole.usage.input_tokens + 12
    client.responses.delete(whole.id)
    tool = {"type": "function", "name": "get_weather", "parameters": CITY}
    called = client.responses.create(model=MODEL, input="Paris?", tools=[tool], tool_choice="required", temperature=0,
                                     parallel_tool_calls=False)
    assert any(item.type == "function_call" and json.loads(item.arguments) for item in called.output)


def test_openai_is_told_what_is_wrong(openai):
    module, client = openai
    with pytest.raises(module.NotFoundError):
        client.chat.completions.create(model="other", messages=HI)
    with pytest.raises(module.BadRequestError) as wrong:
        client.chat.completions.create(model=MODEL, messages=HI, temperature=-1, stream=True)
    assert wrong.value.param == "temperature"
    assert [m.id for m in client.models.list()] == [MODEL]


def test_anthropic_chats_and_calls(server, answer):
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
    fields = {"model": MODEL, "messages": HI, "max_tokens": 12, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**fields)
    assert whole.content[0].text == answer and whole.stop_reason == "max_tokens"
    with client.messages.stream(**fields) as stream:
        assert "".join(stream.text_stream) == answer
        assert stream.get_final_message().usage.output_tokens == 12
    assert client.messages.count_tokens(model=MODEL, messages=HI).input_tokens == whole.usage.input_tokens + \
        whole.usage.cache_read_input_tokens
    tool = {"name": "get_weather", "description": "d", "input_schema": CITY}
    fields.update(max_tokens=200, tools=[tool], tool_choice={"type": "any", "disable_parallel_tool_use": True})
    called = client.messages.create(**fields)
    with client.messages.stream(**fields) as stream:
        streamed = stream.get_final_message()
    for message in (called, streamed):
        assert message.stop_reason == "tool_use"
        assert [set(b.input) for b in message.content if b.type == "tool_use"]
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="other", messages=HI, max_tokens=1)


def test_ollama_chats_generates_and_lists(server, answer):
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host=server.url)
    options = {"temperature": 0, "num_predict": 12, "repeat_penalty": 1.0}
    assert client.chat(model=MODEL, messages=HI, options=options).message.content == answer
    pieces = list(client.chat(model=MODEL, messages=HI, options=options, stream=True, keep_alive="5m"))
    assert "".join(p.message.content for p in pieces) == answer and pieces[-1].done_reason == "length"
    assert client.generate(model=f"{MODEL}:latest", prompt="Say hi", options=options).response == answer
    shaped = client.chat(model=MODEL, messages=HI, format=CITY, options={"temperature": 0})
    assert set(json.loads(shaped.message.content)) == {"city"}
    assert [m.model for m in client.list().models] == [MODEL]
    assert client.show(MODEL).capabilities and client.ps().models[0].model == MODEL
    assert len(client.embed(model=MODEL, input=["a", "b"]).embeddings) == 2
    with pytest.raises(ollama.ResponseError):
        client.chat(model="other", messages=HI)


def test_litellm_chats(server, answer):
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else importing it asks a site for prices
    litellm = pytest.importorskip("litellm")
    fields = {"messages": HI, "temperature": 0, "max_tokens": 12, "api_key": "none"}
    whole = litellm.completion(model=f"openai/{MODEL}", api_base=server.url + "/v1", **fields)
    assert whole.choices[0].message.content == answer
    stream = litellm.completion(model=f"openai/{MODEL}", api_base=server.url + "/v1", stream=True, **fields)
    assert "".join(c.choices[0].delta.content or "" for c in stream) == answer


def test_langchain_chats_and_parses(server, answer):
    langchain = pytest.importorskip("langchain_openai")
    fields = {"model": MODEL, "base_url": server.url + "/v1", "api_key": "none", "temperature": 0}
    chat = langchain.ChatOpenAI(max_tokens=12, **fields)
    assert chat.invoke("Say hi").content == answer
    assert "".join(c.content for c in chat.stream("Say hi")) == answer
    schema = {"title": "place", **CITY}
    shaped = langchain.ChatOpenAI(**fields).with_structured_output(schema, method="json_schema")
    assert set(shaped.invoke("Name a city.")) == {"city"}


def test_llm_prompts(server, answer, tmp_path):
    pytest.importorskip("llm")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: mill\n  model_name: {MODEL}\n  api_base: {server.url}/v1\n")
    command = [sys.executable, "-m", "llm", "-m", "mill", "-o", "temperature", "0", "-o", "max_tokens", "12", "Say hi"]
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == answer.strip(), done.stderr


def test_curl_asks_without_any_header(server, answer):
    body = json.dumps({"messages": HI, "temperature": 0, "max_tokens": 12})
    done = subprocess.run(["curl", "-s", server.url + "/v1/chat/completions", "-d", body], capture_output=True, timeout=60)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == answer
