"""Each --precision against its definition (docs/forward-pass.md): the same logits, bit by bit, as from a file that the package gguf
converted to the weights' type; and near those of the converted weights in f32 throughout."""
import gguf
import numpy as np
import pytest
from test_golden import DATA, dump, sequence

T = gguf.GGMLQuantizationType
TYPES = {"fp16": T.F16, "bf16": T.BF16, "int8": T.Q8_0, "int4": T.Q4_0}
# Of the largest logit: what keys and values in f16 and bf16 cost, and int8 activations.
TOLERANCE = {"fp16": 2e-3, "bf16": 2e-2, "int8": 5e-2, "int4": 5e-2}
N = 60


def values(tensor):
    """A tensor's weights as floats; rows as numpy has them."""
    if tensor.tensor_type == T.F32:
        return np.array(tensor.data, np.float32)
    return gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)


def converted(path, name, qtype):
    """A copy of a small model with its matrices in another type; vectors and the scores of experts stay."""
    source = gguf.GGUFReader(DATA / f"tiny_{name}.gguf")
    arch = source.fields["general.architecture"].contents()
    w = gguf.GGUFWriter(path, arch)
    for key, field in source.fields.items():
        if key.startswith(f"{arch}."):
            w.add_key_value(key, field.contents(), field.types[0])
    for t in source.tensors:
        x = values(t)
        if x.ndim == 1 or "ffn_gate_inp" in t.name:
            w.add_tensor(t.name, x)
        else:
            w.add_tensor(t.name, gguf.quantize(x, qtype), raw_dtype=qtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def logits(model, precision):
    i = np.arange(N)
    return dump(model, [sequence((i * i * 7 + i * 13 + 5) % 256, 8)], range(256), precision)[3]


@pytest.mark.parametrize("name", ["llama3", "olmoe", "gpt2"])
@pytest.mark.parametrize("precision", list(TYPES))
def test_a_precision_is_what_its_table_says(tmp_path, name, precision):
    copy = converted(tmp_path / "copy.gguf", name, TYPES[precision])
    ours = logits(DATA / f"tiny_{name}.gguf", precision)
    assert (ours == logits(copy, precision)).all()
    want = logits(copy, "fp32")
    error = np.abs(ours - want).max() / np.abs(want).max()
    print(f"{name} {precision}: {error:.1e} of the largest logit")
    assert error < TOLERANCE[precision]


def test_fp16_keeps_what_bf16_would_lose():
    full = logits(DATA / "tiny_llama3.gguf", "fp32")
    loss = {p: np.abs(logits(DATA / "tiny_llama3.gguf", p) - full).max() for p in ("fp16", "bf16")}
    assert loss["fp16"] < loss["bf16"] / 4
