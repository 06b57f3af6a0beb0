"""A server with batches that is killed at random moments: while it loads, takes a file, makes a batch, runs its lines, writes its
files, and when all is done. What it had told or recorded must be there afterwards."""
import http.client
import json
import random
import shutil
import sqlite3
import threading
import time
from contextlib import closing

from batch_api import Client, jsonl, request, serve  # knows where the next two are
import byte_tokenizer
from program import run

N_LINE = 300
URL = "/v1/completions"
GONE = (OSError, http.client.HTTPException)  # what a client meets when the server is no more


def make_model(folder):
    """So small that a server is up in a moment, and a batch runs for about a second."""
    tokenizer, path = byte_tokenizer.write(folder / "tokenizer.gguf"), folder / "model.gguf"
    r = run("init", "--tokenizer", tokenizer, "-o", path, "--layers", 4, "--width", 128, "--heads", 2, "--channels", 384)
    assert r.returncode == 0, r.stderr
    return path


class Batch:
    """One batch, one of whose lines is refused, on a folder of its own."""

    def __init__(self, folder, model, draw):
        self.folder, self.model, self.draw = folder, model, draw
        self.text = jsonl(request(i, URL, messages=None, prompt=f"Say {i}", **({"temperature": -5} if i == 2 else {}))
                          for i in range(N_LINE))
        self.job = None  # as the client was told it last
        self.recorded = {}  # results in the state, by line

    def serve(self):
        return serve(self.folder, model=self.model, wait=False)

    def use(self, server):
        """What the client does: the batch is made, where none is there, and waited for."""
        client = Client(server)
        server.wait_until(lambda: server.get("/readyz").status == 200)
        there = client.ask("GET", "/v1/batches").json()["data"]
        assert len(there) <= 1 and (self.job is None or [b["id"] for b in there] == [self.job["id"]])
        known, self.job = self.job, there[0] if there else client.create(self.text, endpoint=URL)
        assert known is None or known["status"] != "completed" or self.job == known
        self.job = client.wait(self.job["id"])

    def state(self):
        """Whether the batch has ended, and the results that are recorded."""
        with closing(sqlite3.connect(f"file:{self.folder}/state/batch.db?mode=ro", uri=True)) as db:
            ended = db.execute("SELECT count(*) FROM record WHERE kind = 1 AND tag = 'completed'").fetchone()[0] > 0
            return ended, dict(db.execute("SELECT line, result FROM line WHERE state > 0"))

    def kill(self, server):
        """At any time, or a moment after so many results more than there were."""
        if self.draw.random() < 0.3:
            time.sleep(self.draw.uniform(0, 0.9))
        else:
            n = min(len(self.recorded) + self.draw.randint(1, N_LINE // 3), N_LINE)
            while not (state := self.state())[0] and len(state[1]) < n and server.process.poll() is None:
                time.sleep(0.002)
            time.sleep(self.draw.choice((0, 0.005, 0.02)))
        server.process.kill()

    def live_and_die(self):
        """One life of a server."""
        with self.serve() as server:
            killer = threading.Thread(target=self.kill, args=(server,))
            killer.start()
            try:
                self.use(server)
            except GONE:
                pass
            killer.join()
            server.process.wait()
        ended, now = self.state()
        assert ended or self.recorded.items() <= now.items()  # they are there until the files are
        self.recorded |= now

    def finish(self):
        """The last life: every line once, in its order, and what was recorded as it was."""
        with self.serve() as server:
            self.use(server)
            client = Client(server)
            assert self.job["status"] == "completed"
            assert self.job["request_counts"] == {"total": N_LINE, "completed": N_LINE - 1, "failed": 1}
            answers, errors = ([line for line in client.ask("GET", f"/v1/files/{self.job[name]}/content").body.split(b"\n") if line]
                               for name in ("output_file_id", "error_file_id"))
            files = client.ask("GET", "/v1/files").json()["data"]
        assert [json.loads(a)["custom_id"] for a in answers] == [f"r{i}" for i in range(N_LINE) if i != 2]
        assert [json.loads(e)["custom_id"] for e in errors] == ["r2"]
        assert all(json.loads(a)["response"]["status_code"] == 200 for a in answers)
        assert set(self.recorded.values()) <= set(answers + errors)
        on_disk = {f.name: f.stat().st_size for f in (self.folder / "state" / "files").iterdir()}
        assert on_disk == {f["id"]: f["bytes"] for f in files}


def kill_often(folder, n_kill, seed):
    """Batches in a row, each killed until it is done, or now and then once more."""
    draw, model, n, n_recorded = random.Random(seed), make_model(folder), 0, 0
    while n < n_kill:
        (folder / "batch").mkdir()
        batch = Batch(folder / "batch", model, draw)
        while n < n_kill and (batch.job is None or batch.job["status"] != "completed" or draw.random() < 0.3):
            batch.live_and_die()
            n += 1
        batch.finish()
        n_recorded += len(batch.recorded)
        shutil.rmtree(folder / "batch")
    assert n_recorded > 0  # it was killed in the midst of it
