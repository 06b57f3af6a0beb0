#!/usr/bin/env python3
"""Write a GGUF of the shape of GPT-2 (124 M) with random weights: its speed and memory can be measured, not its answers.

    random_gpt2.py -o gpt2-q8_0.gguf

Needs the packages gguf and numpy.
"""
import argparse

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, POSITIONS, VOCABULARY = 12, 768, 12, 1024, 50257
TYPES = {"f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--type", choices=TYPES, default="q8_0")
    p.add_argument("-o", "--output", required=True)
    a = p.parse_args()
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(a.output, "gpt2")
    w.add_context_length(POSITIONS)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(4 * WIDTH)
    w.add_head_count(HEADS)
    w.add_layer_norm_eps(1e-5)

    def matrix(name, n_out, n_in):
        x = rng.standard_normal((n_out, n_in), np.float32) * 0.02
        w.add_tensor(f"{name}.weight", gguf.quantize(x, TYPES[a.type]), raw_dtype=TYPES[a.type])

    def vector(name, n, value):
        w.add_tensor(name, np.full(n, value, np.float32))

    def norm(name):
        vector(f"{name}.weight", WIDTH, 1)
        vector(f"{name}.bias", WIDTH, 0.01)

    matrix("token_embd", VOCABULARY, WIDTH)
    matrix("position_embd", POSITIONS, WIDTH)
    norm("output_norm")
    for i in range(LAYERS):
        layer = f"blk.{i}."
        norm(layer + "attn_norm")
        norm(layer + "ffn_norm")
        for name, n_out, n_in in (("attn_qkv", 3 * WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH), ("ffn_up", 4 * WIDTH, WIDTH),
                                  ("ffn_down", WIDTH, 4 * WIDTH)):
            matrix(layer + name, n_out, n_in)
            vector(f"{layer}{name}.bias", n_out, 0.01)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
