"""The openai package through the whole cycle of a batch."""
import io
import json
import time

import openai
import pytest
from batch_api import jsonl, request, serve
from server import PATIENCE_S, needs_smollm2

pytestmark = needs_smollm2


@pytest.fixture
def client(tmp_path):
    with serve(tmp_path) as server, openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as c:
        yield c


def wait(client, job, *states):
    deadline = time.monotonic() + PATIENCE_S
    while (job := client.batches.retrieve(job.id)).status not in states:
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    return job


def test_a_batch_from_its_file_to_its_answers(client):
    lines = [request(i, **({"temperature": -5} if i == 2 else {})) for i in range(5)]
    file = client.files.create(file=("in.jsonl", io.BytesIO(jsonl(lines))), purpose="batch",
                               expires_after={"anchor": "created_at", "seconds": 7200})
    assert file.expires_at == file.created_at + 7200 and file.bytes == len(jsonl(lines))
    assert client.files.content(file.id).read() == jsonl(lines)
    job = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
                                metadata={"name": "first"})
    job = wait(client, job, "completed", "failed")
    assert job.status == "completed" and job.errors is None and job.metadata == {"name": "first"}
    assert (job.request_counts.total, job.request_counts.completed, job.request_counts.failed) == (5, 4, 1)
    answers = [json.loads(line) for line in client.files.content(job.output_file_id).text.splitlines()]
    errors = [json.loads(line) for line in client.files.content(job.error_file_id).text.splitlines()]
    assert [a["custom_id"] for a in answers] == ["r0", "r1", "r3", "r4"] and [e["custom_id"] for e in errors] == ["r2"]
    assert {f.id for f in client.files.list()} == {file.id, job.output_file_id, job.error_file_id}
    assert [f.id for f in client.files.list(purpose="batch")] == [file.id]
    assert client.files.retrieve(job.output_file_id).purpose == "batch_output"
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)


def test_faults_cancelling_and_pages(client):
    file = client.files.create(file=("in.jsonl", b'{"custom_id": "a"}\n'), purpose="batch")
    job = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    failed = wait(client, job, "failed", "completed")
    assert failed.status == "failed" and failed.errors.data[0].line == 1 and failed.errors.data[0].message
    many = client.files.create(file=("in.jsonl", jsonl([request(i, max_tokens=100, ignore_eos=True) for i in range(300)])),
                               purpose="batch")
    jobs = [client.batches.create(input_file_id=many.id, endpoint="/v1/chat/completions", completion_window="24h")
            for _ in range(3)]
    with pytest.raises(openai.ConflictError):
        client.files.delete(many.id)
    for j in jobs:
        assert client.batches.cancel(j.id).status == "cancelling"
    for j in jobs:
        ended = wait(client, j, "cancelled")
        assert ended.request_counts.total in (0, 300)
        assert ended.request_counts.completed + ended.request_counts.failed == ended.request_counts.total
    seen = [j.id for j in client.batches.list(limit=1)]
    assert seen == [j.id for j in [*reversed(jobs), failed]]
    with pytest.raises(openai.BadRequestError) as wrong:
        client.batches.create(input_file_id="file-1", endpoint="/v1/chat/completions", completion_window="24h")
    assert wrong.value.param == "input_file_id"
