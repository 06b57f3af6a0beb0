"""Reference figures of the backward pass, computed by torch's autograd in float32 (the products in float64 where that is what
the last digits need). `make references` runs this file.

data/gradients.npz:
  OP_in_I, OP_out_I       inputs of an op of gradient_ops.c and what it gives, for each OP of OPS
  MODEL_loss              of the tiny models (tiny_models.py): cross-entropy, and divergence from random teachers, over two
                          sequences; temperature 2
  MODEL_NAME_sample, MODEL_NAME_norm   every tensor's gradient: up to N_SAMPLE of its values, evenly spaced, and its length
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
import tiny_models  # noqa: E402
from gradient_cases import (ATTENTION, K, MODELS, N_SAMPLE, N_SEQ, N_TOK, T, VOCAB, WEIGHTS, op_inputs, sample, teacher,  # noqa: E402
                            tokens)

DATA = Path(__file__).parent / "data"


def leaf(a):
    return torch.tensor(a, dtype=torch.float64, requires_grad=True)


def rms_norm(x, w, eps=1e-5):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


def turn(x, style, n_rot):
    """x[token][head][dim], angles token / 10000^(2 i / n_rot)."""
    half = n_rot // 2
    angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * torch.tensor(10000.0, dtype=torch.float64) ** (
        -torch.arange(0, n_rot, 2, dtype=torch.float64) / n_rot)
    c, s = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
    p, q = (x[..., 0:n_rot:2], x[..., 1:n_rot:2]) if style == "pairs" else (x[..., :half], x[..., half:n_rot])
    a, b = p * c - q * s, p * s + q * c
    turned = torch.stack([a, b], -1).flatten(-2) if style == "pairs" else torch.cat([a, b], -1)
    return torch.cat([turned, x[..., n_rot:]], -1)


def attention(q, k, v, window):
    """[seq][token][head][dim]; query heads share the key heads in order."""
    group = q.shape[2] // k.shape[2]
    k, v = (t.repeat_interleave(group, 2) for t in (k, v))
    score = torch.einsum("sihd,sjhd->shij", q, k) * ATTENTION["scale"]
    i, j = torch.arange(q.shape[1])[:, None], torch.arange(q.shape[1])[None]
    hidden = (j > i) | ((j <= i - window) if window else torch.zeros_like(j > i))
    return torch.einsum("shij,sjhd->sihd", score.masked_fill(hidden, float("-inf")).softmax(-1), v)


def mixed_loss(logits, label, ids, p, ce, kl):
    """Of all rows, summed: ce times cross-entropy, kl T^2 times the divergence, what the teacher leaves counting as one class."""
    rows = label >= 0
    loss = ce * F.cross_entropy(logits[rows], label[rows], reduction="sum")
    q = (logits / T).softmax(-1)
    known = q.gather(-1, ids)
    part = (p * (p.log() - known.log())).sum(-1)
    if ids.shape[-1] < logits.shape[-1]:
        rest, q_rest = 1 - p.sum(-1), 1 - known.sum(-1)
        part = part + rest * (rest / q_rest).log()
    return loss + kl * T * T * part[rows].sum()


def op(name, x):
    """Outputs of the op, and the leaves whose gradients are wanted; the last input is the gradient from above."""
    t = [leaf(a) if a.dtype == np.float32 else torch.tensor(a.astype(np.int64)) for a in x]
    if name == "linear":
        return t[0] @ t[1].T, t[:2]
    if name == "rms_norm":
        return rms_norm(t[0], t[1]), t[:2]
    if name == "silu":
        return F.silu(t[0]) * t[1], t[:2]
    if name == "gelu":
        return F.gelu(t[0], approximate="tanh") * t[1], t[:2]
    if name == "silu_residual":
        return t[0] + F.silu(t[1] + t[2]), t[1:3]
    if name.startswith("rotary"):
        return turn(t[0], name.removeprefix("rotary_"), 12), t[:1]
    if name.startswith("attention"):
        return attention(*t[:3], ATTENTION["window"] if name.endswith("window") else 0), t[:3]
    if name == "embed":
        return t[0][t[1]] * 3, t[:1]
    if name.startswith("loss"):
        return mixed_loss(t[0], t[1], t[2], t[3].detach(), *WEIGHTS), t[:1]
    raise ValueError(name)


def make_op(name):
    x = op_inputs(name)
    out, leaves = op(name, x)
    above = torch.ones((), dtype=torch.float64) if out.ndim == 0 else torch.tensor(x[-1], dtype=torch.float64)
    out.backward(above)
    return {f"{name}_{i}": a.detach().numpy().astype(np.float32) for i, a in enumerate([out, *(t.grad for t in leaves)])}


def make_model(name, seed):
    config, _ = tiny_models.MODELS[name]
    config._attn_implementation = "eager"
    model = tiny_models.transformers.AutoModelForCausalLM.from_config(config).eval()
    tiny_models.randomize(model, seed)
    model = model.double()
    token, label = tokens()
    ids, p = teacher()
    logits = model(torch.tensor(token.astype(np.int64))).logits.reshape(-1, VOCAB)
    loss = mixed_loss(logits, torch.tensor(label.astype(np.int64)).flatten(), torch.tensor(ids.astype(np.int64)),
                      torch.tensor(p.astype(np.float64)), *WEIGHTS) / (label >= 0).sum()
    loss.backward()
    out = {f"{name}_loss": np.float64(loss.item())}
    for part, weight in model.named_parameters():
        g = weight.grad.numpy()
        if config.model_type in ("llama", "mistral") and ("q_proj" in part or "k_proj" in part):
            g = tiny_models.pair_rows(g, config.num_attention_heads if "q_proj" in part else config.num_key_value_heads)
        target = tiny_models.gguf_name(part) or tiny_models.layer_name(part, name == "gemma3")
        out[f"{name}_{target}_sample"] = sample(g).astype(np.float32)
        out[f"{name}_{target}_norm"] = np.float64(np.sqrt((g * g).sum()))
    return out


def main():
    from gradient_cases import OPS
    out = {}
    for name in OPS:
        out |= make_op(name)
    for seed, name in enumerate(tiny_models.MODELS):
        if name in MODELS:
            out |= make_model(name, seed)
    np.savez_compressed(DATA / "gradients.npz", **out)


if __name__ == "__main__":
    main()
