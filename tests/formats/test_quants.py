"""Every block type decodes, and where the package can encode, encodes, bit for bit as the PyPI package gguf does."""
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

BUILD = Path(os.environ.get("MILLRACE_BUILD", Path(__file__).resolve().parents[2] / "build/release"))
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"]
EXACT_ENCODERS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
# Relative root mean square error on Gaussian weights that each type must stay below: a little above what a plain encoder
# of that many levels reaches.
ERROR = {"F16": 3e-4, "BF16": 2e-3, "Q8_0": 0.006, "Q5_1": 0.04, "Q5_0": 0.045, "Q4_1": 0.082, "Q4_0": 0.09, "Q2_K": 0.32, "Q3_K": 0.18, "Q4_K": 0.085,
         "Q5_K": 0.043, "Q6_K": 0.021, "IQ4_NL": 0.086}
# Where the binary16 scales of a block lie.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0]}
EXTREME_SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff]


def pipe(direction, name, data):
    r = subprocess.run([BUILD / "tests/quant_pipe", direction, name.lower()], input=data.tobytes(), capture_output=True)
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout


def decode(name, blocks):
    return np.frombuffer(pipe("decode", name, blocks), np.float32)


def reference_decode(name, blocks):
    with np.errstate(all="ignore"):
        return quants.dequantize(blocks, GGMLQuantizationType[name]).ravel()


def assert_same_bits(got, want):
    """Equal bits; a NaN has no defined payload, only its place counts."""
    assert got.shape == want.shape
    nan = np.isnan(want)
    assert np.array_equal(nan, np.isnan(got))
    assert np.array_equal(got.view(np.uint32)[~nan], want.view(np.uint32)[~nan])


def random_blocks(name, n, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (n, GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]), np.uint8)


@pytest.mark.parametrize("name", TYPES)
def test_random_blocks_decode_alike(name):
    blocks = random_blocks(name, 4096)
    assert_same_bits(decode(name, blocks), reference_decode(name, blocks))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("fill", [0x00, 0xff, 0x80, 0x7f, 0x55])
def test_constant_bytes_decode_alike(name, fill):
    blocks = np.full_like(random_blocks(name, 3), fill)
    assert_same_bits(decode(name, blocks), reference_decode(name, blocks))


@pytest.mark.parametrize("name", SCALES)
def test_extreme_scales_decode_alike(name):
    blocks = random_blocks(name, len(EXTREME_SCALES) ** len(SCALES[name]))
    grid = np.meshgrid(*[np.array(EXTREME_SCALES, np.uint16)] * len(SCALES[name]))
    for place, values in zip(SCALES[name], grid):
        blocks[:, place:place + 2] = values.reshape(-1, 1).copy().view(np.uint8)
    assert_same_bits(decode(name, blocks), reference_decode(name, blocks))


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_every_half_decodes_alike(name):
    halves = np.arange(0x10000, dtype=np.uint16).reshape(-1, 256).view(np.uint8)
    assert_same_bits(decode(name, halves), reference_decode(name, halves))


def weights(seed):
    """Rows of Gaussian weights of very different sizes, with zeros, constants, ramps and single outliers between."""
    r = np.random.default_rng(seed)
    rows = r.standard_normal((600, 256)).astype(np.float32)
    rows *= np.exp2(r.integers(-30, 15, (600, 1))).astype(np.float32)
    rows[::50] = 0
    rows[1::50] = rows[1::50, :1]
    rows[2::50] = np.linspace(-1, 1, 256, dtype=np.float32)
    rows[3::50, 7] *= 1000
    rows[4::50] = np.abs(rows[4::50])
    rows[5::50] = np.round(rows[5::50] * 4) / 4
    return rows + 0.0  # no negative zeros: which zero is the minimum of a block depends on numpy's vector code


@pytest.mark.parametrize("name", EXACT_ENCODERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_weights_encode_alike(name, seed):
    rows = weights(seed)
    with np.errstate(all="ignore"):
        want = quants.quantize(rows, GGMLQuantizationType[name]).view(np.uint8).ravel()
    got = np.frombuffer(pipe("encode", name, rows), np.uint8)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("name", ERROR)
def test_encoder_error_is_small(name):
    for scale in (1e-3, 1, 300):
        rows = (np.random.default_rng(3).standard_normal((200, 256)) * scale).astype(np.float32)
        back = decode(name, np.frombuffer(pipe("encode", name, rows), np.uint8)).reshape(rows.shape)
        error = np.sqrt(np.mean((back - rows) ** 2) / np.mean(rows ** 2))
        print(f"{name} at {scale}: {error:.4f}")
        assert error < ERROR[name]


@pytest.mark.parametrize("name", TYPES)
def test_zeros_stay_zeros(name):
    blocks = np.frombuffer(pipe("encode", name, np.zeros((2, 256), np.float32)), np.uint8)
    assert np.all(decode(name, blocks) == 0)


@pytest.mark.parametrize("name", TYPES)
def test_weights_that_are_not_finite_do_no_harm(name):
    rows = weights(4)
    rows[::3, 5] = np.nan
    rows[1::3, 6] = np.inf
    rows[2::3, 7] = -np.inf
    rows[9] = 3e38
    rows[10] = 1e-40
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    assert len(pipe("encode", name, rows)) == rows.size // size[0] * size[1]
