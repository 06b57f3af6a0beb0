"""A model without a chat template, whose prompts begin with a token of their own: what other servers answer with 500, or hang on."""
import pytest

from server import GEMMA, Server, needs_gemma

pytestmark = needs_gemma
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def server():
    with Server(model=GEMMA) as s:
        yield s
        assert s.process.poll() is None, s.error_text()


def is_fine(server):
    reply = server.post("/v1/completions", {"prompt": "The Eiffel Tower stands in the city of", "max_tokens": 2, "temperature": 0})
    return "Paris" in reply.json()["choices"][0]["text"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_without_a_template_is_refused_by_that_name(server, stream):
    model = server.get("/v1/models").json()["data"][0]["id"]
    for path, body in (("/v1/chat/completions", {"messages": HI}), ("/v1/responses", {"input": "hi"}), ("/api/chat", {"messages": HI}),
                       ("/v1/messages", {"messages": HI, "max_tokens": 3})):
        reply = server.post(path, {**body, "model": model, "stream": stream})
        assert reply.status == 400 and b"template" in reply.body and not reply.body.startswith(b"data:"), (path, reply.body)
    assert is_fine(server)


@pytest.mark.parametrize("messages", [[], None, [{}], [{"role": "alien", "content": "hi"}], [{"role": "user", "content": ""}]])
def test_messages_are_refused_whatever_they_are(server, messages):
    assert server.post("/v1/chat/completions", {"messages": messages}).status == 400
    assert is_fine(server)


@pytest.mark.parametrize("prompt", ["", [""]])
def test_an_empty_prompt_is_the_token_that_texts_begin_with(server, prompt):
    reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 2, "ignore_eos": True})
    assert reply.status == 200, reply.body
    assert (reply.json()["usage"]["prompt_tokens"], reply.json()["usage"]["completion_tokens"]) == (1, 2)
    assert is_fine(server)


@pytest.mark.parametrize("fields", [{"prompt": []}, {"prompt": [[]]}, {"prompt": None}, {}, {"prompt": {}}])
def test_no_prompt_is_refused(server, fields):
    reply = server.post("/v1/completions", {"max_tokens": 2, **fields})
    assert reply.status == 400 and reply.json()["error"]["param"].startswith("prompt"), reply.body
    assert is_fine(server)


def test_a_template_of_the_deployment_s_own_serves_it():
    with Server("--chat-template", "gemma", model=GEMMA) as s:
        assert s.post("/v1/chat/completions", {"messages": HI, "max_tokens": 2}).status == 200
