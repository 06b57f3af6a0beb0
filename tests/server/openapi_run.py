"""schemathesis over /openapi.json: requests that the description allows, and ones that it does not."""
import subprocess
import sys
import tempfile
from pathlib import Path

from server import Server

CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance"


def run(seconds, seed):
    """No reply is a server error or differs from its description; the server lives on. A small context bounds each answer."""
    program = Path(sys.executable).parent / "schemathesis"
    with (tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as folder,  # where it keeps what it saw
          Server("-c", "64", "--state-dir", state) as server):
        done = subprocess.run([program, "run", server.url + "/openapi.json", "--checks", CHECKS, "--seed", str(seed),
                               "--max-time", str(seconds), "--phases", "examples,coverage,fuzzing", "--continue-on-failure",
                               "--request-timeout", "120", "--suppress-health-check", "all", "--no-color"],
                              cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + 600)
        assert "Tested:" in done.stdout, done.stdout + done.stderr
        assert " FAILURES " not in done.stdout, done.stdout
        assert server.get("/readyz").status == 200
