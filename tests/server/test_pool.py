"""Engine processes: what a client sees when one of them is killed."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from server import MILLRACE, SMOLLM2, Server, needs_smollm2, processes, raw_request, read_until
from program import ROOT

pytestmark = needs_smollm2

PROMPT = {"prompt": "The capital of France is", "n_predict": 8, "temperature": 0, "ignore_eos": True}


def value(server, name, label=""):
    for line in server.get("/metrics").body.decode().splitlines():
        if line.startswith(f"millrace_{name}{{") and label in line:
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {name}")


def wait_standby(server):
    server.wait_until(lambda: value(server, "engine_processes", 'role="standby"') == 1)


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    with open(f"/proc/{pid}/status") as status:
        return {line.split(":")[0]: int(line.split()[1]) for line in status if " kB" in line}


@pytest.fixture(scope="module")
def plain():
    with Server() as s:
        yield s.post("/completion", PROMPT).json()["content"]


@pytest.fixture
def pool():
    with Server("--warm-active", "1", "--warm-standby", "1") as s:
        wait_standby(s)
        yield s


def test_answers_are_those_of_the_server_without_processes(pool, plain):
    assert pool.post("/completion", PROMPT).json()["content"] == plain


def test_a_standby_has_no_keys_and_uses_no_cpu(pool):
    active, standby = processes(pool)
    pool.post("/completion", PROMPT)
    before = cpu_s(standby)
    pool.post("/completion", {**PROMPT, "n_predict": 200})
    assert cpu_s(standby) == before
    assert memory(standby)["VmRSS"] < memory(active)["VmRSS"] / 2
    assert memory(active)["RssShmem"] > 2 * memory(active)["RssAnon"]  # weights are shared, not copied


def test_a_killed_engine_is_replaced_and_no_request_is_lost(pool, plain):
    for _ in range(2):
        os.kill(processes(pool)[0], signal.SIGKILL)
        assert pool.post("/completion", PROMPT).json()["content"] == plain
        wait_standby(pool)
    assert value(pool, "engine_processes_died_total") == 2
    assert value(pool, "requests_lost_total") == 0
    assert pool.load() == 0
    assert pool.end() == 0


def test_a_request_without_output_goes_to_another_process(pool, plain):
    """Many wait, one after the other, while the process dies."""
    active = processes(pool)[0]
    replies = []
    long_prompt = {**PROMPT, "prompt": "Many words. " * 600}
    threads = [threading.Thread(target=lambda: replies.append(pool.post("/completion", long_prompt))) for _ in range(6)]
    os.kill(active, signal.SIGSTOP)  # it takes requests and says nothing
    for t in threads:
        t.start()
    pool.wait_until(lambda: value(pool, "requests_in_flight") == 6)
    os.kill(active, signal.SIGKILL)
    for t in threads:
        t.join()
    assert [r.status for r in replies] == [200] * 6
    assert len({r.json()["content"] for r in replies}) == 1
    assert value(pool, "requests_handed_on_total") == 6


def test_a_stream_that_has_begun_ends_with_an_error(pool):
    body = json.dumps({**PROMPT, "n_predict": 1500, "stream": True}).encode()
    with pool.connect() as s:
        s.sendall(raw_request("POST", "/completion", body))
        read_until(s, b"data: ")
        os.kill(processes(pool)[0], signal.SIGKILL)
        read_until(s, b"the engine process ended in the middle of the answer")
    assert pool.post("/completion", PROMPT).status == 200


def test_take_over_is_faster_than_a_cold_start():
    begin = time.monotonic()
    with Server("--warm-active", "1", "--warm-standby", "1") as s:
        assert s.post("/completion", PROMPT).status == 200
        cold = time.monotonic() - begin
        wait_standby(s)
        os.kill(processes(s)[0], signal.SIGKILL)
        begin = time.monotonic()
        assert s.post("/completion", PROMPT).status == 200
        assert time.monotonic() - begin < cold
        assert 0 < value(s, "take_over_seconds") < cold


def test_active_processes_divide_requests_and_cpus(plain):
    with Server("--warm-active", "2") as s:
        replies = []
        prompts = [{**PROMPT, "prompt": f"{i} and {i + 1} are", "n_predict": 40} for i in range(12)]
        threads = [threading.Thread(target=lambda p=p: replies.append(s.post("/completion", p).status)) for p in prompts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert replies == [200] * 12
        both = processes(s)
        assert len(both) == 2 and all(cpu_s(pid) > 0 for pid in both)
        if len(os.sched_getaffinity(0)) > 1:
            first, second = (os.sched_getaffinity(pid) for pid in both)
            assert first and second and not first & second
        assert s.post("/completion", PROMPT).json()["content"] == plain


def test_without_a_ready_process_the_server_is_not_ready():
    with Server("--warm-active", "1", "--warm-standby", "1") as s:
        assert s.get("/readyz").status == 200
        wait_standby(s)
        both = processes(s)
        os.kill(both[1], signal.SIGSTOP)  # the standby cannot take over
        os.kill(both[0], signal.SIGKILL)
        s.wait_until(lambda: s.get("/readyz").status == 503)
        assert "no engine process is ready" in s.get("/readyz").json()["error"]["message"]
        assert s.get("/livez").status == 200
        os.kill(both[1], signal.SIGCONT)
        s.wait_until(lambda: s.get("/readyz").status == 200)


def test_adapters_are_loaded_by_processes_that_begin_later(tmp_path):
    adapter = tmp_path / "tuned.gguf"
    subprocess.run([MILLRACE, "adapter", ROOT / "tests/golden/data/peft_smollm2", "-m", SMOLLM2, "-o", adapter], check=True, capture_output=True)
    (tmp_path / "broken.gguf").write_bytes(adapter.read_bytes()[:100])
    with Server("--alias", "base", "--lora-dir", str(tmp_path), "--warm-active", "1", "--warm-standby", "1") as s:
        def text(**fields):
            r = s.post("/v1/completions", {"prompt": "The mill by the river", "max_tokens": 12, "temperature": 0, **fields})
            return r.json()["choices"][0]["text"] if r.status == 200 else r.status

        assert s.post("/v1/load_lora_adapter", {"lora_name": "broken", "lora_path": "broken.gguf"}).status == 400
        for name in ("first", "second"):  # ids of the server and of a process that loads one alone differ
            assert s.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "tuned.gguf"}).status == 200
        plain, tuned = text(), text(model="second")
        assert plain != tuned == text(model="first")
        assert s.post("/v1/unload_lora_adapter", {"lora_name": "first"}).status == 200
        assert text(model="first") == 404
        wait_standby(s)
        os.kill(processes(s)[0], signal.SIGKILL)
        assert (text(model="second"), text(model="base")) == (tuned, plain)


def test_each_process_has_figures(pool):
    pool.post("/completion", PROMPT)
    assert value(pool, "engine_process_cpu_seconds_total", 'role="active",process="0"') > 0
    assert value(pool, "engine_process_step_seconds_total", 'role="active"') > 0
    assert value(pool, "engine_process_kv_bytes", 'role="active"') > 0
    assert value(pool, "engine_process_kv_bytes", 'role="standby"') == 0
    assert 0 < value(pool, "engine_process_resident_bytes", 'role="standby"') < value(pool, "engine_process_resident_bytes", 'role="active"')


def test_engine_processes_die_with_the_server(pool):
    engines = processes(pool)
    pool.process.kill()
    pool.process.wait()
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1][:3]
              for pid in engines):
        assert time.monotonic() < deadline, "they live on"
        time.sleep(0.02)
