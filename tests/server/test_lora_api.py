"""Adapters over HTTP: loaded, asked by name, unloaded."""
import subprocess

import pytest

from server import MILLRACE, SMOLLM2, Server, needs_smollm2
from program import ROOT

pytestmark = needs_smollm2
DATA = ROOT / "tests/golden/data"
PROMPT = {"prompt": "The mill by the river", "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    subprocess.run([MILLRACE, "adapter", DATA / "peft_smollm2", "-m", SMOLLM2, "-o", folder / "tuned.gguf"], check=True,
                   capture_output=True)
    (folder / "broken.gguf").write_bytes((folder / "tuned.gguf").read_bytes()[:100])
    (folder / "away.gguf").symlink_to(SMOLLM2.resolve())
    with Server("--alias", "base", "--lora", f"first={folder}/tuned.gguf", "--lora-dir", str(folder)) as s:
        yield s


def complete(server, **fields):
    return server.post("/v1/completions", {**PROMPT, **fields})


def text(server, **fields):
    return complete(server, **fields).json()["choices"][0]["text"]


def test_an_adapter_is_a_model_of_its_own(server):
    plain = text(server)
    assert text(server, model="first") != plain
    assert text(server, model="base") == plain
    assert complete(server, model="first").json()["model"] == "first"
    models = {m["id"]: m.get("parent") for m in server.get("/v1/models").json()["data"]}
    assert models == {"base": None, "first": "base"}


def test_a_request_may_weigh_adapters(server):
    one, = server.get("/lora-adapters").json()
    assert one["name"] == "first"
    assert text(server, lora=[{"id": one["id"], "scale": 0}]) == text(server)
    assert text(server, lora=[{"id": one["id"]}]) == text(server, model="first")
    assert complete(server, lora=[{"id": 999}]).status in (400, 404)
    assert complete(server, lora=[{"scale": 1}]).json()["error"]["param"] == "lora[0].id"


def test_vectors_of_an_adapter_are_its_own(server):
    plain, tuned, again = (server.post("/v1/embeddings", {"model": m, "input": "The mill"}).json()["data"][0]["embedding"]
                           for m in ("base", "first", "base"))
    assert plain == again != tuned


def test_scales_of_requests_that_name_none(server):
    one, = server.get("/lora-adapters").json()
    plain = text(server, model="base")
    assert one["scale"] == 0
    try:
        assert server.post("/lora-adapters", [{"id": one["id"], "scale": 1}]).status == 200
        assert server.get("/lora-adapters").json()[0]["scale"] == 1
        assert text(server) == text(server, model="first") != plain
        assert text(server, lora=[]) == plain
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 0}
        tuned, named = (server.post("/v1/chat/completions", {**chat, **m}).json()["choices"] for m in ({}, {"model": "first"}))
        assert tuned[0]["message"] == named[0]["message"]
        assert server.post("/lora-adapters", [{"id": 999, "scale": 1}]).status == 404
        for wrong in ({}, [5], [{"scale": 1}], [{"id": one["id"], "scale": "a"}]):
            assert server.post("/lora-adapters", wrong).status == 400
        assert server.get("/lora-adapters").json()[0]["scale"] == 1
    finally:
        assert server.post("/lora-adapters", []).status == 200
    assert text(server) == plain


def test_clients_load_and_unload(server):
    body = {"lora_name": "second", "lora_path": "tuned.gguf"}
    assert server.post("/v1/load_lora_adapter", body).status == 200
    assert server.post("/v1/load_lora_adapter", body).status == 400
    assert text(server, model="second") == text(server, model="first")
    assert server.post("/v1/unload_lora_adapter", {"lora_name": "second"}).status == 200
    assert server.post("/v1/unload_lora_adapter", {"lora_name": "second"}).status == 404
    assert complete(server, model="second").status == 404


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "none", "broken.gguf", "away.gguf", "."])
def test_what_is_no_adapter_of_the_folder_is_refused(server, path):
    reply = server.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": path})
    assert reply.status == 400 and reply.json()["error"]["param"] == "lora_path"


def test_without_a_folder_nobody_loads():
    with Server() as s:
        assert s.post("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "y"}).status == 403
