"""Inputs that make_gradients.py and test_gradients.py share; they are computed, only results are kept."""
import numpy as np

VOCAB, N_SEQ, N_TOK, T, K, N_SAMPLE = 256, 2, 70, 2.0, 8, 256
WEIGHTS = (0.25, 0.75)  # of cross-entropy and divergence
MODELS = ("llama3", "llama_yarn", "mistral", "qwen3", "gemma3")
ATTENTION = {"scale": 0.3, "window": 20, "heads": 6, "kv_heads": 2, "dim": 12, "tokens": 101}
OPS = ("linear", "rms_norm", "silu", "gelu", "silu_residual", "rotary_pairs", "rotary_halves", "attention", "attention_window", "embed",
       "loss_all", "loss_best")


def tokens():
    i = np.arange(N_SEQ * N_TOK)
    token = ((i * i * 7 + i * 13 + 5) % 251).astype(np.int32).reshape(N_SEQ, N_TOK)
    label = np.concatenate([token[:, 1:], np.full((N_SEQ, 1), -1, np.int32)], 1)
    return token, label


def best_of(p, k):
    ids = np.argsort(-p, axis=-1, kind="stable")[:, :k].astype(np.int32)
    return ids, np.take_along_axis(p, ids, -1).astype(np.float32)


def distribution(seed, n_row, n):
    z = np.random.default_rng(seed).normal(size=(n_row, n)) * 2
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def teacher():
    return best_of(distribution(3, N_SEQ * N_TOK, VOCAB), K)


def op_inputs(name):
    rng = np.random.default_rng(len(name) * 31 + ord(name[0]))
    a = ATTENTION

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)
    if name == "linear":                            # x, w, dy; a sum longer than one part of it
        return [normal(53, 1100), normal(37, 1100), normal(53, 37)]
    if name == "rms_norm":
        return [normal(21, 75), normal(75), normal(21, 75)]
    if name in ("silu", "gelu"):
        return [normal(11, 77) * 4, normal(11, 77), normal(11, 77)]
    if name == "silu_residual":                     # x, u, b, dy
        return [normal(21, 75), normal(21, 75) * 3, normal(75), normal(21, 75)]
    if name.startswith("rotary"):                   # x[token][head][dim]
        return [normal(19, 3, 16), normal(19, 3, 16)]
    if name.startswith("attention"):
        shape = (2, a["tokens"])
        return [normal(*shape, a["heads"], a["dim"]), normal(*shape, a["kv_heads"], a["dim"]),
                normal(*shape, a["kv_heads"], a["dim"]), normal(*shape, a["heads"], a["dim"])]
    if name == "embed":
        return [normal(40, 70), (np.arange(33) * 7 % 19).astype(np.int32), normal(33, 70)]
    p = distribution(5, 23, 150)
    ids, known = best_of(p, 150 if name == "loss_all" else K)
    label = (np.arange(23) * 11 % 150).astype(np.int32)
    label[4] = -1
    return [normal(23, 150) * 3, label, ids, known]


def sample(g):
    flat = np.ravel(g)
    return flat[np.linspace(0, flat.size - 1, min(N_SAMPLE, flat.size)).astype(np.int64)]
