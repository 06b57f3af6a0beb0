"""`millrace inspect` says what a model needs to run, and by which kernels."""
import json
import os

import pytest

from gguf_files import MILLRACE, SMOLLM2, run, write_model

pytestmark = pytest.mark.skipif(not SMOLLM2.exists(), reason="no SmolLM2 in models/: make model")


def inspect(*arguments, **env):
    r = run(MILLRACE, "inspect", "--json", SMOLLM2, *arguments, env={**os.environ, **env})
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_memory_grows_with_the_context():
    short, long = inspect("-c", "1024")["needs"], inspect("-c", "4096")["needs"]
    per_token = 30 * 3 * 64 * 2 * 2  # layers, heads, their width, keys and values, bytes
    assert short["kv_bytes_per_token"] == long["kv_bytes_per_token"] == per_token
    assert (short["kv_bytes"], long["kv_bytes"]) == (1024 * per_token, 4096 * per_token)
    assert short["weight_bytes"] == long["weight_bytes"]
    assert long["total_bytes"] == long["weight_bytes"] + long["kv_bytes"] + long["activation_bytes"]


def test_the_context_is_the_models_own_unless_told():
    assert inspect()["needs"]["n_ctx"] == inspect("-c", "0")["needs"]["n_ctx"] == 8192


def test_fp32_needs_more():
    int8, fp32 = inspect()["needs"], inspect("--precision", "fp32")["needs"]
    assert fp32["kv_bytes"] == 2 * int8["kv_bytes"]
    assert fp32["total_bytes"] > int8["total_bytes"]


def test_kernels_follow_the_instruction_set_and_the_precision():
    def kernel(*arguments):
        got = inspect(*arguments, MILLRACE_CPU="scalar")
        assert got["needs"]["isa"] == "scalar"
        return {t["name"]: t["kernel"] for t in got["tensors"]}

    int8, fp32 = kernel(), kernel("--precision", "fp32")
    assert int8["blk.0.ffn_up.weight"] == "q4_1_q8_scalar" and int8["blk.0.ffn_norm.weight"] is None
    assert fp32["blk.0.ffn_up.weight"] == "f32_f32_scalar"


def test_an_unknown_instruction_set_is_wrong_usage():
    r = run(MILLRACE, "inspect", SMOLLM2, env={**os.environ, "MILLRACE_CPU": "mmx"})
    assert r.returncode == 2 and "MILLRACE_CPU=mmx" in r.stderr


def test_text_and_json_agree():
    text = run(MILLRACE, "inspect", SMOLLM2).stdout
    got = inspect()
    for t in got["tensors"]:
        assert f"  {t['name']} " in text
    for key in got["metadata"]:
        assert f"  {key} " in text


def test_a_file_that_is_no_model_says_why(tmp_path):
    write_model(tmp_path / "m.gguf")
    r = run(MILLRACE, "inspect", tmp_path / "m.gguf")
    assert r.returncode == 0 and "No model that this build runs: key 'llama.context_length' is missing" in r.stdout
