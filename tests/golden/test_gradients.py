"""The backward pass against torch's autograd (data/gradients.npz, make_gradients.py): each op, and whole models."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from gradient_cases import MODELS, OPS, op_inputs, sample, teacher, tokens  # noqa: E402

DATA = Path(__file__).parent / "data"
PROGRAM = Path(os.environ.get("MILLRACE_BUILD", "build/release")) / "tests/gradient_ops"
LIMIT = 1e-4    # of a tensor's largest value


@pytest.fixture(scope="module")
def references():
    with np.load(DATA / "gradients.npz") as f:
        return dict(f)


def run(arguments, inputs, cpu):
    r = subprocess.run([PROGRAM, *map(str, arguments)], input=b"".join(np.ascontiguousarray(a).tobytes() for a in inputs),
                       capture_output=True, env=os.environ | ({"MILLRACE_CPU": cpu} if cpu else {}))
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout


def near(got, want, name):
    assert got.size == np.size(want), name
    error = np.abs(got - np.ravel(want)).max() / max(np.abs(want).max(), 1e-6)
    assert error < LIMIT, f"{name}: {error:.2e}"


@pytest.mark.parametrize("cpu", ["scalar", ""])
@pytest.mark.parametrize("op", OPS)
def test_op(references, op, cpu):
    got = np.frombuffer(run([op], op_inputs(op), cpu), np.float32)
    at = 0
    for i in range(10):
        want = references.get(f"{op}_{i}")
        if want is None:
            break
        near(got[at:at + want.size], want, f"{op}, output {i}")
        at += want.size
    assert at == got.size and at > 0


@pytest.mark.parametrize("model", MODELS)
def test_model(references, model):
    out = run(["model", DATA / f"tiny_{model}.gguf"], [*tokens(), *teacher()], "")
    loss, out = out.split(b"\n", 1)
    want = references[f"{model}_loss"]
    assert abs(float(loss) - want) < LIMIT * want
    seen = 0
    while out:
        head, out = out.split(b"\n", 1)
        name, n = head.decode().split()
        g = np.frombuffer(out[:4 * int(n)], np.float32)
        out = out[4 * int(n):]
        length = references[f"{model}_{name}_norm"]
        assert abs(np.sqrt((g.astype(np.float64) ** 2).sum()) - length) < LIMIT * length, name
        near(sample(g), references[f"{model}_{name}_sample"], f"{model} {name}")
        seen += 1
    assert seen == sum(k.startswith(f"{model}_") and k.endswith("_norm") for k in references)
