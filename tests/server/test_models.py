"""Several models by name: loaded when they are asked for, kept for a while, unloaded to make room."""
import contextlib
import json
import os
import shutil
import signal
import threading
import time

import pytest

from server import GEMMA, SMOLLM2, Server, needs_gemma, needs_smollm2, processes, run

pytestmark = needs_smollm2

PROMPT = {"prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three names of one model, packed: it loads fast."""
    path = tmp_path_factory.mktemp("models")
    packed = tmp_path_factory.mktemp("packed") / "first.gguf"
    assert run("pack", SMOLLM2, packed).returncode == 0
    for name in ("ant", "bee", "cat", "first"):
        os.symlink(packed, path / f"{name}.gguf")
    (path / "notes.txt").write_text("no model")
    return path


def models(folder):
    return [option for name in ("ant", "bee", "cat") for option in ("--models", folder / f"{name}.gguf")]


def ask(server, model, path="/v1/completions", **more):
    return server.post(path, {**PROMPT, "model": model, **more})


def loaded(server):
    return sorted(m["name"] for m in server.get("/api/ps").json()["models"])


def test_a_standby_answers_soon_for_a_model_that_was_unloaded(folder):
    def load_s(server, model):
        page = server.get("/metrics").body.decode()
        return float(next(line for line in page.splitlines() if line.startswith(f'millrace_model_load_seconds{{model="{model}"')).split()[1])

    with Server(*models(folder)[:4], "--models-max", "1", "--warm-standby", "1", model=None) as s:
        reply = ask(s, "ant").json()
        cold, warm = load_s(s, "ant"), []
        for n in range(3):
            s.wait_until(lambda: len(processes(s)) == (2 if n == 0 else 3))  # the present one's two, the other's standby
            assert ask(s, "bee").status == 200 and loaded(s) == ["bee"]
            s.wait_until(lambda: len(processes(s)) == 3)
            assert ask(s, "ant").json()["choices"] == reply["choices"] and loaded(s) == ["ant"]
            warm.append(load_s(s, "ant"))
        assert min(warm) < cold
        assert s.end() == 0


def test_models_are_loaded_when_they_are_asked_for(folder):
    with Server(*models(folder), model=folder / "first.gguf") as s:
        first = "first"
        names = [m["id"] for m in s.get("/v1/models").json()["data"]]
        assert names == [first, "ant", "bee", "cat"]
        assert [m["name"] for m in s.get("/api/tags").json()["models"]] == names
        assert loaded(s) == [first]
        assert s.get("/v1/models/bee").json()["status"] == {"value": "unloaded"}
        assert s.get("/props?model=bee").status == 503
        reply = ask(s, "bee")
        assert reply.status == 200 and reply.json()["model"] == "bee"
        assert reply.json()["choices"][0]["text"] == ask(s, first).json()["choices"][0]["text"]
        assert loaded(s) == sorted([first, "bee"])
        assert s.get("/v1/models/bee").json()["meta"]["n_params"] > 0
        assert ask(s, "dog").status == 404
        assert s.post("/v1/completions", PROMPT).json()["model"] == first
        assert s.end() == 0


def test_the_time_of_loading_is_told(folder):
    with Server(*models(folder), model=folder / "first.gguf") as s:
        assert ask(s, "ant").status == 200
        page = s.get("/metrics").body.decode()
        told = [line for line in page.splitlines() if line.startswith("millrace_request_stage_seconds_sum") and
                'stage="load"' in line and 'model="ant"' in line]
        assert len(told) == 1 and float(told[0].rsplit(" ", 1)[1]) > 0


def test_requests_for_a_model_that_loads_all_wait_for_it(folder):
    with Server(*models(folder), model=folder / "first.gguf") as s:
        replies = []
        threads = [threading.Thread(target=lambda i=i: replies.append(ask(s, "cat", stream=i % 2 == 0).status))
                   for i in range(8)]
        long_body = [threading.Thread(target=lambda: replies.append(ask(s, "cat", prompt="word " * 200,
                                                                        user="x" * 20000).status))]
        for t in threads + long_body:  # the last one's body goes by a worker
            t.start()
        for t in threads + long_body:
            t.join()
        assert replies == [200] * 9


def test_the_least_recently_used_makes_room(folder):
    with Server(*models(folder), "--models-max", "2", model=folder / "first.gguf") as s:
        first = loaded(s)[0]
        for name in ("ant", "bee", "cat", "ant"):
            assert ask(s, name).status == 200
            assert loaded(s) == sorted([first, name])


def test_a_model_in_use_is_waited_for(folder):
    with Server(*models(folder), "--models-max", "2", model=folder / "first.gguf") as s:
        replies = {}

        def send(name, **more):
            replies[name] = ask(s, name, **more)

        long = threading.Thread(target=send, args=("ant",), kwargs={"max_tokens": 300, "ignore_eos": True})
        long.start()
        s.wait_until(lambda: "ant" in loaded(s) and s.load() == 1)
        assert ask(s, "bee").status == 200
        long.join()
        assert replies["ant"].json()["usage"]["completion_tokens"] == 300
        assert "ant" not in loaded(s)


def test_keep_alive(folder):
    with Server(*models(folder), "--model-keep-alive", "1", model=folder / "first.gguf") as s:
        first = loaded(s)[0]
        ask(s, "ant", "/api/generate", keep_alive="1h")
        soon = s.get("/api/ps").json()["models"]
        assert [m["name"] for m in soon] == sorted([first, "ant"], key=[first, "ant"].index)
        until = time.mktime(time.strptime(soon[1]["expires_at"], "%Y-%m-%dT%H:%M:%SZ")) - time.mktime(time.gmtime())
        assert 3000 < until <= 3600
        reply = s.post("/api/generate", {"model": "ant", "keep_alive": 0}).json()
        assert reply["done_reason"] == "unload"
        s.wait_until(lambda: loaded(s) == [first])
        reply = s.post("/api/generate", {"model": "bee"}).body.decode()
        assert json.loads(reply.splitlines()[-1])["done_reason"] == "load" and "bee" in loaded(s)
        s.wait_until(lambda: loaded(s) == [first])  # after a while nobody asks for it any more
        assert ask(s, "ant", "/api/generate", keep_alive="soon").status == 400


def test_without_a_first_model_the_server_is_ready_at_once(folder):
    with Server("--models", folder, "--models", f"two={folder}/bee.gguf", model=None) as s:
        assert [m["id"] for m in s.get("/v1/models").json()["data"]] == ["ant", "bee", "cat", "first", "two"]
        assert loaded(s) == []
        assert s.post("/v1/completions", PROMPT).status == 404
        assert ask(s, "two").status == 200
        assert loaded(s) == ["two"]


def test_a_damaged_model_fails_its_requests_alone(folder, tmp_path):
    shutil.copy(SMOLLM2, tmp_path / "bad.gguf")
    with open(tmp_path / "bad.gguf", "r+b") as f:
        f.truncate(1 << 20)
    with Server("--models", tmp_path, model=folder / "first.gguf") as s:
        reply = ask(s, "bad")
        assert reply.status == 500 and "the model 'bad' cannot be loaded" in reply.json()["error"]["message"]
        assert s.post("/v1/completions", PROMPT).status == 200


def test_the_server_ends_while_requests_wait(folder):
    with Server(*models(folder), "--models-max", "2", "--drain", "0", model=folder / "first.gguf") as s:
        def ask_in_vain(name):
            with contextlib.suppress(OSError):  # cut off, or refused
                ask(s, name, max_tokens=1500, ignore_eos=True)

        threads = [threading.Thread(target=ask_in_vain, args=(name,)) for name in ("ant", "bee", "cat")]
        for t in threads:
            t.start()
        s.wait_until(lambda: s.load() >= 1)
        assert s.end() == 0
        for t in threads:
            t.join()


def test_two_models_of_one_name_are_refused(folder):
    r = run("serve", "--port", "0", "--models", folder, "--models", f"{folder}/ant.gguf")
    assert r.returncode != 0 and "the name 'ant' stands for" in r.stderr


@needs_gemma
def test_a_draft_model_of_another_vocabulary_than_one_of_the_models_is_told_at_the_start(folder):
    for more in ((), ("--check",)):
        r = run("serve", "--port", "0", "-m", SMOLLM2, "--models", GEMMA, "--draft-model", folder / "first.gguf", *more)
        assert r.returncode != 0 and not r.stdout and "speculation.draft_model: draft model" in r.stderr
        assert str(GEMMA) in r.stderr and "token 0 is '<|endoftext|>', but '<pad>' in the model" in r.stderr
    r = run("serve", "--check", "-m", SMOLLM2, "--models", folder, "--draft-model", folder / "first.gguf")
    assert r.returncode == 0, r.stderr


def test_models_in_engine_processes(folder):
    with Server(*models(folder), "--warm-standby", "1", model=folder / "first.gguf") as s:
        assert ask(s, "ant").status == ask(s, "bee").status == 200
        assert s.end(signal.SIGTERM) == 0
