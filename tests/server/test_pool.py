"""Engine processes: what a client sees when one of them is killed."""
import json
import os
import signal
import threading
import time

import pytest

from server import Server, needs_smollm2, raw_request, read_until

pytestmark = needs_smollm2

PROMPT = {"prompt": "The capital of France is", "n_predict": 8, "temperature": 0, "ignore_eos": True}


def processes(server):
    """Ids of the engine processes, in the order in which they were started."""
    found = []
    for task in os.listdir(f"/proc/{server.pid}/task"):
        with open(f"/proc/{server.pid}/task/{task}/children") as children:
            found += map(int, children.read().split())
    return sorted(found)


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


def test_engine_processes_die_with_the_server(pool):
    engines = processes(pool)
    pool.process.kill()
    pool.process.wait()
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1][:3]
              for pid in engines):
        assert time.monotonic() < deadline, "they live on"
        time.sleep(0.02)
