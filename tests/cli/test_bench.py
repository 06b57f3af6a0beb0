"""`millrace bench`: its JSON, its counts against a model small enough to count by hand, its errors."""
import json

import gguf
import jsonschema
import numpy as np
import pytest
from program import SMOLLM2, Terminal, needs_smollm2, run

LAYERS, WIDTH, FFN, HEADS, KV_HEADS, VOCAB, CONTEXT = 2, 64, 96, 4, 2, 160, 256
HEAD_DIM = WIDTH // HEADS
# multiply-accumulates of one row in one layer's products, and of the output
LAYER_MACS = WIDTH * (HEADS + 2 * KV_HEADS) * HEAD_DIM + HEADS * HEAD_DIM * WIDTH + 3 * WIDTH * FFN
OUTPUT_MACS = WIDTH * VOCAB


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "tiny.gguf"
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HEAD_DIM)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(["t", "t1", "1"] + [f"t{i}" for i in range(3, VOCAB)])
    w.add_token_types([1] * VOCAB)
    w.add_token_merges(["t 1"])

    def put(name, *shape):
        q = gguf.quants.quantize(rng.standard_normal(shape, np.float32) * np.float32(0.05), gguf.GGMLQuantizationType.Q8_0)
        w.add_tensor(name, q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)

    put("token_embd.weight", VOCAB, WIDTH)
    put("output.weight", VOCAB, WIDTH)
    w.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(LAYERS):
        b = f"blk.{i}."
        w.add_tensor(b + "attn_norm.weight", np.ones(WIDTH, np.float32))
        w.add_tensor(b + "ffn_norm.weight", np.ones(WIDTH, np.float32))
        put(b + "attn_q.weight", HEADS * HEAD_DIM, WIDTH)
        put(b + "attn_k.weight", KV_HEADS * HEAD_DIM, WIDTH)
        put(b + "attn_v.weight", KV_HEADS * HEAD_DIM, WIDTH)
        put(b + "attn_output.weight", WIDTH, HEADS * HEAD_DIM)
        put(b + "ffn_gate.weight", FFN, WIDTH)
        put(b + "ffn_up.weight", FFN, WIDTH)
        put(b + "ffn_down.weight", WIDTH, FFN)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def bench(*args):
    return run("bench", *args)


PROMPT, GEN, DEEP = 50, 6, 100


@pytest.fixture(scope="module")
def report(model):
    """One run that most tests look at: it measures the machine's limits, which takes a while."""
    r = bench("-m", model, "--prompt", PROMPT, "--prompt-chunk", PROMPT, "--gen", GEN, "--batch", "1,5", "--depth", f"1,{DEEP}",
              "--repeat", 2, "--profile", "--json")
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def case(report, test, batch, depth):
    return next(c for c in report["results"] if (c["test"], c["batch"], c["depth"]) == (test, batch, depth))


RATE = {"type": "number", "exclusiveMinimum": 0}
RATE_OR_NONE = {"anyOf": [RATE, {"type": "null"}]}
NOT_NEGATIVE = {"type": "number", "minimum": 0}
COUNT = {"type": "integer", "minimum": 0}
RESULT = {
    "test": {"enum": ["prefill", "decode"]}, "batch": COUNT, "n_tokens": COUNT, "depth": COUNT, "tok_s": RATE,
    "tok_s_min": RATE, "tok_s_max": RATE, "gops": RATE, "gb_s": RATE, "mfu": RATE, "mbu": RATE}
LIMITS = {
    "isa": {"type": "string"}, "threads": COUNT, "int8_gops": RATE, "bf16_gops": RATE_OR_NONE, "f32_gops": RATE,
    "read_gb_s": RATE, "l1_read_gb_s": RATE_OR_NONE, "l2_read_gb_s": RATE_OR_NONE, "l3_read_gb_s": RATE_OR_NONE,
    "clock_ghz": RATE}
MACHINE = {
    "clock_ghz": RATE, "clock_ghz_min": RATE, "clock_ghz_max": RATE, "throttled": {"type": "boolean"},
    "steal_share": NOT_NEGATIVE, "other_load_share": NOT_NEGATIVE}
MODEL = {
    "file": {"type": "string"}, "family": {"const": "llama"}, "n_parameters": COUNT, "weight_bytes": COUNT, "load_s": NOT_NEGATIVE,
    "memory_bytes": COUNT, "memory_peak_bytes": COUNT}


def record(properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMA = record({"limits": record(LIMITS), "machine": record(MACHINE), "model": record(MODEL),
                 "results": {"type": "array", "items": record(RESULT)}})


def test_json_holds_every_case_in_the_documented_form(report):
    jsonschema.validate(report, SCHEMA)
    cases = [(c["test"], c["batch"], c["n_tokens"], c["depth"]) for c in report["results"]]
    assert cases == [("prefill", 1, PROMPT, 0), ("decode", 1, GEN, 1), ("decode", 5, GEN, 1), ("decode", 1, GEN, DEEP),
                     ("decode", 5, GEN, DEEP)]
    for c in report["results"]:
        assert c["tok_s_min"] <= c["tok_s"] <= c["tok_s_max"]


def ops_per_token(result):
    return result["gops"] * 1e9 / result["tok_s"]


def attention_ops(n_visible):
    return 4 * n_visible * HEADS * HEAD_DIM * LAYERS


@pytest.mark.parametrize("batch, depth", [(1, 1), (5, 1), (1, DEEP), (5, DEEP)])
def test_decode_counts_the_operations_of_a_model_counted_by_hand(report, batch, depth):
    products = 2 * (LAYERS * LAYER_MACS + OUTPUT_MACS)
    attention = sum(attention_ops(depth + 1 + i) for i in range(GEN)) / GEN
    assert ops_per_token(case(report, "decode", batch, depth)) == pytest.approx(products + attention, rel=1e-4)


def test_prefill_counts_the_output_once_for_its_last_row(report):
    attention = sum(attention_ops(i + 1) for i in range(PROMPT)) / PROMPT
    want = 2 * LAYERS * LAYER_MACS + 2 * OUTPUT_MACS / PROMPT + attention
    assert ops_per_token(case(report, "prefill", 1, 0)) == pytest.approx(want, rel=1e-4)


def test_decode_reads_weights_once_a_step_and_each_rows_keys_and_values(report):
    batch = 5

    def bytes_per_step(depth):
        c = case(report, "decode", batch, depth)
        return c["gb_s"] * 1e9 / c["tok_s"] * batch

    kv_token = 2 * KV_HEADS * HEAD_DIM * 2 * LAYERS  # f16
    assert bytes_per_step(DEEP) - bytes_per_step(1) == pytest.approx(batch * (DEEP - 1) * kv_token, rel=1e-3)
    weights = bytes_per_step(1) - batch * (2 + (GEN - 1) / 2) * kv_token
    assert weights >= (LAYERS * LAYER_MACS + OUTPUT_MACS) * 34 / 32 * 0.99  # q8_0, padded to whole panels


def test_profile_names_each_op_and_layer_and_loses_no_time(report):
    p = case(report, "prefill", 1, 0)["profile"]
    assert {"embed", "norm", "matmul", "rope_store", "attention", "glu"} <= {o["op"] for o in p["ops"]}
    assert [layer["layer"] for layer in p["layers"]] == [None, 0, 1]
    seconds = [o["seconds"] for o in p["ops"]]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(seconds) == pytest.approx(p["ops_seconds"], abs=1e-5)
    assert sum(layer["seconds"] for layer in p["layers"]) == pytest.approx(p["ops_seconds"], abs=1e-5)
    assert p["ops_seconds"] <= p["seconds"] * 1.001
    products = sum(o["ops"] for o in p["ops"] if o["op"] == "matmul")
    assert products == pytest.approx(2 * (PROMPT * LAYERS * LAYER_MACS + OUTPUT_MACS), rel=1e-5)


def test_tables_show_the_same_for_people(model):
    r = bench("-m", model, "--prompt", 8, "--gen", 2, "--repeat", 1, "--profile")
    assert r.returncode == 0, r.stderr
    assert r.stderr == ""
    lines = r.stdout.splitlines()
    assert lines[0].startswith("limits ")
    for word in ("GOP/s", "GB/s", "MFU %", "MBU %", "loaded in", "clock"):
        assert word in r.stdout
    assert sum(line.startswith(("prefill", "decode")) for line in lines) == 2
    assert sum(line.startswith("profile of") for line in lines) == 2


@pytest.mark.parametrize("args, message", [
    (["--frobnicate"], "unknown option '--frobnicate'"),
    ([], "-m, --model: a model file is required"),
    (["--batch", "0"], "--batch: '0' is not a list of integers from 1 to"),
    (["--batch", "1,,2"], "--batch: '1,,2' is not a list"),
    (["--batch", "1,x"], "--batch: '1,x' is not a list"),
    (["--batch", ",".join("1" * 17)], "more than 16 entries"),
    (["--depth", "-1"], "--depth: '-1' is not a list"),
    (["--repeat", "0"], "--repeat: '0' is not an integer from 1 to"),
    (["--threads", "0"], "--threads: '0' is not an integer from 1 to"),
    (["-m", "x.gguf", "--prompt", "0", "--gen", "0"], "leave nothing to measure"),
    (["extra"], "unexpected argument 'extra'"),
])
def test_usage_errors_name_the_option_and_exit_with_2(args, message):
    r = bench(*args)
    assert r.returncode == 2
    assert message in r.stderr
    assert r.stderr.count("\n") == 1
    assert r.stdout == ""


def test_cases_beyond_the_context_are_refused_with_both_numbers(model):
    r = bench("-m", model, "--prompt", 0, "--depth", 250, "--gen", 20)
    assert r.returncode == 2
    assert "270" in r.stderr and str(CONTEXT) in r.stderr


@needs_smollm2
def test_cases_beyond_the_memory_are_refused_before_loading():
    r = bench("-m", SMOLLM2, "--prompt", 0, "--gen", 4, "--batch", 512, "--depth", 500000, "--ctx-size", 1000000)
    assert r.returncode == 2
    assert "GB are free" in r.stderr and "513 sequences of 500004 tokens" in r.stderr


def test_a_missing_model_is_one_line():
    r = bench("-m", "no-such-model.gguf")
    assert r.returncode == 1
    assert "no-such-model.gguf" in r.stderr and r.stderr.count("\n") == 1


def interrupted(stage, *args):
    """Ctrl-C once the terminal shows the stage; the exit status, and what was printed after."""
    with Terminal("bench", *args) as t:
        t.expect(stage)
        t.type("\x03")
        return t.wait(), t.output


@pytest.mark.parametrize("stage", ["measuring the limits", "decode, batch 1"])
def test_interrupt_ends_a_run_without_a_report(model, stage):
    code, out = interrupted(stage, "-m", model, "--prompt", 0, "--gen", 250, "--repeat", 1000)
    assert code == 130 and "millrace bench: interrupted" in out and "MFU" not in out


def test_kernels_are_timed_alone_without_a_model():
    r = bench("--kernel", "q4_0", "--json")
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    keys = {"n_in": COUNT, "n_out": COUNT, "n_row": COUNT, "seconds": RATE, "gops": RATE, "gb_s": RATE, "mfu": RATE, "mbu": RATE}
    jsonschema.validate(report["kernels"], {"type": "array", "minItems": 9, "items": record(keys)})
    assert all(k["kernel"].startswith("q4_0_") for k in report["kernels"])
    assert report["results"] == [] and report["model"] is None


def test_a_kernel_that_is_not_there_is_named():
    r = bench("--kernel", "q9_9")
    assert r.returncode == 2 and r.stdout == "" and "--kernel" in r.stderr and "q9_9" in r.stderr and r.stderr.count("\n") == 1


def test_interrupt_ends_the_kernels_too():
    code, out = interrupted("kernel ", "--kernels")
    assert code == 130 and "millrace bench: interrupted" in out and "MFU" not in out


def test_ablation_adds_one_technique_after_the_other(model):
    r = bench("-m", model, "--ablate", "--prompt", 8, "--gen", 2, "--repeat", 1, "--threads", 2, "--json")
    assert r.returncode == 0, r.stderr
    stages = json.loads(r.stdout)["ablation"]
    assert [s["stage"] for s in stages] == ["scalar", "+ SIMD", "+ tiles", "+ threads", "+ fusion"]
    assert [s["threads"] for s in stages] == [1, 1, 1, 2, 2]
    assert [(s["tiling"], s["fusion"]) for s in stages] == [(False, False)] * 2 + [(True, False)] * 2 + [(True, True)]
    assert stages[0]["isa"] == "scalar"
    assert all([c["test"] for c in s["results"]] == ["prefill", "decode"] for s in stages)


def test_ablation_refuses_a_setting_that_it_turns_itself(model):
    r = bench("-m", model, "--ablate", "--fusion", "off")
    assert r.returncode == 2 and "--fusion" in r.stderr
