"""A small job for `millrace batch`, and what must hold of its files whatever happened to the program."""
import json
import sqlite3
import subprocess
from contextlib import closing

from program import MILLRACE, SMOLLM2, run

OPTIONS = ("-c", 256, "--max-batch-size", 4, "-t", 1)


def request(i, **fields):
    body = {"messages": [{"role": "user", "content": f"Say {i}"}], "max_tokens": 4, "temperature": 0, **fields}
    return {"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": body}


class Job:
    """n requests, one of which is refused."""

    def __init__(self, folder, n):
        self.folder, self.n = folder, n
        self.input, self.output, self.errors = folder / "in.jsonl", folder / "out.jsonl", folder / "out.jsonl.errors"
        self.state = folder / "out.jsonl.state"
        lines = [request(i, **({"temperature": -5} if i == 2 else {})) for i in range(n)]
        self.input.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def args(self, *more):
        return ["batch", "-m", SMOLLM2, self.input, "-o", self.output, *OPTIONS, *more]

    def run(self, *more):
        return run(*self.args(*more))

    def start(self, **options):
        return subprocess.Popen([MILLRACE, *map(str, self.args())], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                **options)

    def recorded(self):
        """Results in the state, by line: what must not be computed again."""
        if not (self.state / "batch.db").exists():
            return {}
        try:
            with closing(sqlite3.connect(f"file:{self.state}/batch.db?mode=ro", uri=True)) as db:
                return dict(db.execute("SELECT line, result FROM line WHERE state > 0"))
        except sqlite3.OperationalError:  # ended before the tables were there
            return {}

    def check(self, recorded=()):
        """Every line once, in its order, and what was recorded as it was."""
        answers = [line for line in self.output.read_bytes().split(b"\n") if line]
        errors = [line for line in self.errors.read_bytes().split(b"\n") if line]
        assert [json.loads(a)["custom_id"] for a in answers] == [f"r{i}" for i in range(self.n) if i != 2]
        assert [json.loads(e)["custom_id"] for e in errors] == ["r2"]
        assert all(json.loads(a)["response"]["status_code"] == 200 for a in answers)
        assert json.loads(errors[0])["response"]["status_code"] == 400
        assert set(recorded) <= set(answers + errors)
        assert sorted(p.name for p in self.folder.iterdir()) == ["in.jsonl", "out.jsonl", "out.jsonl.errors"]
