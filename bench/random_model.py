#!/usr/bin/env python3
"""Write a GGUF of a well-known shape with random weights: its speed and memory can be measured, not its answers.

    random_model.py 1b q4_0 --like models/SmolLM2-135M-Instruct.Q4_1.gguf -o models/1b-q4_0.gguf

The tokenizer is that of another GGUF, so that every engine loads the file. `moe` has the shape of OLMoE: 64 experts, 8 of them used.
Needs the packages gguf and numpy.
"""
import argparse
from dataclasses import dataclass

import gguf
import numpy as np

DEVIATION = 0.02  # of the weights
CONTEXT = 16384


@dataclass
class Shape:
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    n_expert: int = 0
    n_expert_used: int = 0


SHAPES = {"135m": Shape(30, 576, 1536, 9, 3), "1b": Shape(16, 2048, 8192, 32, 8), "7b": Shape(32, 4096, 14336, 32, 8),
          "moe": Shape(16, 2048, 1024, 16, 16, 64, 8)}
TYPES = {t.name.lower(): t for t in (gguf.GGMLQuantizationType[n] for n in
                                     ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"))}


def f16_bytes(x):
    return np.array([x], np.float16).view(np.uint8)


def set_scales(block, kind):
    """Scales of the block type in every row of block[n][bytes], whose other bytes are random: weights of the deviation, around 0."""
    name = kind.name
    if name == "Q8_0":  # 256 equally likely values have a deviation of 74, 16 of 4.6, 32 of 9.2
        block[:, :2] = f16_bytes(DEVIATION / 74)
    elif name in ("Q4_0", "Q5_0"):
        block[:, :2] = f16_bytes(DEVIATION / (4.6 if name == "Q4_0" else 9.2))
    elif name in ("Q4_1", "Q5_1"):
        d = DEVIATION / (4.6 if name == "Q4_1" else 9.2)
        block[:, :2], block[:, 2:4] = f16_bytes(d), f16_bytes(-d * (7.5 if name == "Q4_1" else 15.5))
    elif name in ("Q4_K", "Q5_K"):  # the eight scales and minima, 6 bits each: all are 32
        d = DEVIATION / (4.6 if name == "Q4_K" else 9.2) / 32
        block[:, :2], block[:, 2:4] = f16_bytes(d), f16_bytes(d * (7.5 if name == "Q4_K" else 15.5))
        block[:, 4:12], block[:, 12:16] = 32, 0
    elif name == "Q6_K":  # the sixteen scales: all are 32
        block[:, 192:208], block[:, 208:] = 32, f16_bytes(DEVIATION / 18.5 / 32)


def random_matrix(rng, shape, kind):
    if kind.name in ("F32", "F16"):
        return (rng.standard_normal(shape, np.float32) * DEVIATION).astype(np.float32 if kind.name == "F32" else np.float16)
    if kind.name == "BF16":
        bits = (rng.standard_normal(shape, np.float32) * DEVIATION).view(np.uint32) >> 16
        return bits.astype(np.uint16).view(np.uint8)
    n, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    if shape[-1] % n:
        raise SystemExit(f"{shape[-1]} columns are no whole blocks of {n}, as {kind.name.lower()} has them")
    block = rng.integers(0, 256, (int(np.prod(shape)) // n, n_bytes), np.uint8)
    set_scales(block, kind)
    return block.reshape(*shape[:-1], shape[-1] // n * n_bytes)


def matrices(s, n_vocab):
    """(name, shape), norms and the router apart."""
    head = s.n_embd // s.n_head
    yield "token_embd", (n_vocab, s.n_embd)
    yield "output", (n_vocab, s.n_embd)
    of_all, suffix = ((s.n_expert,), "_exps") if s.n_expert else ((), "")
    for i in range(s.n_layer):
        layer = f"blk.{i}."
        yield layer + "attn_q", (s.n_embd, s.n_embd)
        yield layer + "attn_k", (s.n_head_kv * head, s.n_embd)
        yield layer + "attn_v", (s.n_head_kv * head, s.n_embd)
        yield layer + "attn_output", (s.n_embd, s.n_embd)
        yield f"{layer}ffn_gate{suffix}", (*of_all, s.n_ff, s.n_embd)
        yield f"{layer}ffn_up{suffix}", (*of_all, s.n_ff, s.n_embd)
        yield f"{layer}ffn_down{suffix}", (*of_all, s.n_embd, s.n_ff)


def add_shape(w, s):
    w.add_context_length(CONTEXT)
    w.add_embedding_length(s.n_embd)
    w.add_block_count(s.n_layer)
    w.add_feed_forward_length(s.n_ff)
    w.add_head_count(s.n_head)
    w.add_head_count_kv(s.n_head_kv)
    w.add_rope_dimension_count(s.n_embd // s.n_head)
    w.add_rope_freq_base(500000.0)
    w.add_layer_norm_rms_eps(1e-5)
    if s.n_expert:
        w.add_expert_count(s.n_expert)
        w.add_expert_used_count(s.n_expert_used)


def copy_tokenizer(w, like):
    """The size of its vocabulary."""
    fields = {n: f for n, f in gguf.GGUFReader(like).fields.items() if n.startswith("tokenizer.")}
    for name, field in fields.items():
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            w.add_array(name, field.contents())
        else:
            w.add_key_value(name, field.contents(), field.types[0])
    n_vocab = len(fields["tokenizer.ggml.tokens"].contents())
    w.add_vocab_size(n_vocab)
    return n_vocab


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shape", choices=SHAPES)
    p.add_argument("type", choices=TYPES)
    p.add_argument("--like", required=True, help="GGUF whose tokenizer is copied")
    p.add_argument("-o", "--output", required=True)
    a = p.parse_args()
    s, kind, rng = SHAPES[a.shape], TYPES[a.type], np.random.default_rng(1)
    w = gguf.GGUFWriter(a.output, "olmoe" if s.n_expert else "llama")
    w.add_name(f"random {a.shape}")
    add_shape(w, s)
    n_vocab = copy_tokenizer(w, a.like)

    def norm(name, n):
        w.add_tensor(f"{name}.weight", np.ones(n, np.float32))

    for name, shape in matrices(s, n_vocab):
        w.add_tensor(f"{name}.weight", random_matrix(rng, shape, kind), raw_dtype=kind)
    norm("output_norm", s.n_embd)
    for i in range(s.n_layer):
        norm(f"blk.{i}.attn_norm", s.n_embd)
        norm(f"blk.{i}.ffn_norm", s.n_embd)
        if s.n_expert:
            norm(f"blk.{i}.attn_q_norm", s.n_embd)
            norm(f"blk.{i}.attn_k_norm", s.n_head_kv * s.n_embd // s.n_head)
            w.add_tensor(f"blk.{i}.ffn_gate_inp.weight", random_matrix(rng, (s.n_expert, s.n_embd), TYPES["f32"]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
