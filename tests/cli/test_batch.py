"""`millrace batch`: a file of requests becomes a file of answers, whatever happens on the way."""
import json
import random
import resource
import signal
import sqlite3
import time
from contextlib import closing

import pytest
from batch_job import OPTIONS, Job, request
from program import SMOLLM2, needs_smollm2, run


def batch(folder, text, *more):
    (folder / "in.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    return run("batch", "-m", SMOLLM2, folder / "in.jsonl", "-o", folder / "out.jsonl", *OPTIONS, *more)


def lines(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def wait_for_results(job, process, n=1):
    deadline = time.monotonic() + 600
    while len(job.recorded()) < n and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_smollm2
def test_answers_are_those_of_the_server_and_in_the_order_of_the_input(tmp_path):
    job = Job(tmp_path, 9)
    r = job.run()
    assert r.returncode == 3 and "8 answered" in r.stderr and "1 failed" in r.stderr
    job.check()
    first = lines(job.output)[0]
    assert first["error"] is None and first["id"].startswith("batch_req_")
    assert first["response"]["request_id"].startswith("req_")
    assert first["response"]["body"]["object"] == "chat.completion"
    assert first["response"]["body"]["choices"][0]["message"]["content"]


@needs_smollm2
def test_a_finished_output_is_not_replaced_by_accident(tmp_path):
    text = json.dumps(request(0))
    assert batch(tmp_path, text).returncode == 0
    before = (tmp_path / "out.jsonl").read_bytes()
    r = batch(tmp_path, text)
    assert r.returncode == 1 and "--overwrite" in r.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == before
    assert batch(tmp_path, text, "--overwrite").returncode == 0
    assert (tmp_path / "out.jsonl").read_bytes() != before  # ids are new


@needs_smollm2
def test_line_ends_marks_and_blank_lines_do_not_matter(tmp_path):
    text = "\ufeff" + json.dumps(request(0)) + "\r\n\r\n" + json.dumps(request(1)) + "\r\n  \r\n" + json.dumps(request(2))
    assert batch(tmp_path, text).returncode == 0
    assert [a["custom_id"] for a in lines(tmp_path / "out.jsonl")] == ["r0", "r1", "r2"]


@needs_smollm2
def test_a_custom_id_comes_back_as_it_was(tmp_path):
    ids = ["x" * 1000, "a\u0000b\n\u001b", "\u2028ä\"\\"]
    assert batch(tmp_path, "\n".join(json.dumps({**request(0), "custom_id": i}) for i in ids)).returncode == 0
    assert [a["custom_id"] for a in lines(tmp_path / "out.jsonl")] == ids


@needs_smollm2
def test_a_refused_request_goes_to_the_errors_and_the_others_run(tmp_path):
    wrong = [request(1, stream=True), request(2, model="none"), request(3, max_tokens="many"),
             {**request(4), "body": {}}, request(5, messages=[{"role": "user", "content": "word " * 400}])]
    r = batch(tmp_path, "\n".join(json.dumps(w) for w in [request(0), *wrong, request(6)]))
    assert r.returncode == 3
    assert [a["custom_id"] for a in lines(tmp_path / "out.jsonl")] == ["r0", "r6"]
    errors = lines(tmp_path / "out.jsonl.errors")
    assert [e["custom_id"] for e in errors] == ["r1", "r2", "r3", "r4", "r5"]
    assert [e["response"]["status_code"] for e in errors] == [400, 404, 400, 400, 400]
    assert all(e["response"]["body"]["error"]["message"] for e in errors)


GOOD = json.dumps(request(0))
FAULTS = {
    "cut": (GOOD[:60], "no JSON object"),
    "value": ("[1]", "no JSON object"),
    "twice the member": ('{"custom_id":"a","custom_id":"b","method":"POST","url":"/v1/completions","body":{}}', "no JSON"),
    "not UTF-8": (b'{"custom_id":"\xff"}', "no JSON object"),
    "deep": ("[" * 100000, "no JSON object"),
    "same id": (GOOD, "custom_id"),
    "no id": (json.dumps({**request(1), "custom_id": None}), "custom_id is missing"),
    "empty id": (json.dumps({**request(1), "custom_id": ""}), "custom_id is empty"),
    "number": (json.dumps({**request(1), "custom_id": 7}), "custom_id must be a string"),
    "huge id": (json.dumps({**request(1), "custom_id": "x" * 5000}), "more than 4096 bytes"),
    "method": (json.dumps({**request(1), "method": "GET"}), "method must be POST"),
    "url": (json.dumps({**request(1), "url": "/v1/models"}), "no batch can ask '/v1/models'"),
    "no body": (json.dumps({k: v for k, v in request(1).items() if k != "body"}), "body is missing"),
    "body": (json.dumps({**request(1), "body": "text"}), "body must be an object"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_line_that_is_no_request_is_told_with_its_number_and_nothing_runs(tmp_path, name):
    fault, message = FAULTS[name]
    fault = fault if isinstance(fault, bytes) else fault.encode()
    r = batch(tmp_path, GOOD.encode() + b"\n\n" + fault + b"\n")
    assert r.returncode == 1 and "line 3: " in r.stderr and message in r.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["in.jsonl"]


def test_an_input_without_lines_is_told(tmp_path):
    r = batch(tmp_path, "\n \n")
    assert r.returncode == 1 and "no lines" in r.stderr


@needs_smollm2
def test_with_keep_going_such_lines_fail_and_the_others_run(tmp_path):
    r = batch(tmp_path, "\n".join([GOOD, FAULTS["cut"][0], GOOD, FAULTS["url"][0], json.dumps(request(5))]), "--keep-going")
    assert r.returncode == 3
    assert [a["custom_id"] for a in lines(tmp_path / "out.jsonl")] == ["r0", "r5"]
    errors = lines(tmp_path / "out.jsonl.errors")
    assert [(e["error"]["code"], e["error"]["line"]) for e in errors] == [
        ("invalid_json_line", 2), ("duplicate_custom_id", 3), ("invalid_url", 4)]


@needs_smollm2
def test_killed_at_any_moment_the_same_command_goes_on(tmp_path):
    job, draw, recorded = Job(tmp_path, 16), random.Random(5), set()
    for _ in range(3):
        process = job.start()
        wait_for_results(job, process, len(recorded) + 1)
        time.sleep(draw.uniform(0, 0.3))
        process.kill()
        process.wait()
        now = set(job.recorded().values())
        assert recorded <= now or job.output.exists()
        recorded |= now
    if not job.output.exists():
        assert job.run().returncode == 3
    job.check(recorded)


@needs_smollm2
def test_ctrl_c_ends_it_and_it_goes_on_later_with_the_same_input_alone(tmp_path):
    job = Job(tmp_path, 16)
    process = job.start()
    wait_for_results(job, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130
    recorded = set(job.recorded().values())
    assert recorded and not job.output.exists()
    text = job.input.read_text()
    job.input.write_text(GOOD)
    r = job.run()
    assert r.returncode == 1 and "another input" in r.stderr
    job.input.write_text(text)
    assert job.run().returncode == 3
    job.check(recorded)


@needs_smollm2
def test_who_looks_into_the_state_meanwhile_ends_nothing(tmp_path):
    job = Job(tmp_path, 40)
    process = job.start()
    wait_for_results(job, process)
    with closing(sqlite3.connect(job.state / "batch.db", timeout=60, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")  # and has its lock for a moment
        time.sleep(0.5)
        db.execute("ROLLBACK")
    assert process.wait(600) == 3
    job.check()


@needs_smollm2
def test_another_process_on_the_same_state_is_refused(tmp_path):
    job = Job(tmp_path, 12)
    process = job.start()
    wait_for_results(job, process)
    process.send_signal(signal.SIGSTOP)
    r = job.run()
    process.send_signal(signal.SIGCONT)
    assert r.returncode == 1 and "in use by another process" in r.stderr
    assert process.wait(600) == 3
    job.check()


@needs_smollm2
@pytest.mark.parametrize("name, keep", [("batch.db-wal", 0.5), ("batch.db", 0.5), ("batch.db", 0)])
def test_a_state_that_was_cut_costs_work_but_no_line(tmp_path, name, keep):
    job = Job(tmp_path, 12)
    process = job.start()
    wait_for_results(job, process, 4)
    process.kill()
    process.wait()
    path = job.state / name
    with open(path, "r+b") as f:
        f.truncate(int(path.stat().st_size * keep))
    assert job.run().returncode == 3
    job.check()


@needs_smollm2
@pytest.mark.parametrize("most", [20_000, 200_000])
def test_a_disk_that_is_full_ends_it_and_it_goes_on_when_there_is_room(tmp_path, most):
    """No file may pass a size: first the state's, then perhaps the output's."""
    job = Job(tmp_path, 16)
    process = job.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY)))
    status = process.wait(600)
    assert status in (1, 3)
    if status == 1:
        assert not job.output.exists()
        recorded = set(job.recorded().values())
        assert job.run().returncode == 3
        job.check(recorded)
    else:
        job.check()
