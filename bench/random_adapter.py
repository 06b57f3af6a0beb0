#!/usr/bin/env python3
"""A LoRA adapter of random numbers for a model, to measure what adapters cost.

    bench/random_adapter.py MODEL.gguf OUT.gguf [--rank 16] [--products attn_q,attn_v] [--seed 1] [--type F16]
"""
import argparse

import gguf
import numpy as np

PRODUCTS = "attn_q,attn_k,attn_v,attn_qkv,attn_output,ffn_gate,ffn_up,ffn_down"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--products", default=PRODUCTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", choices=["F16", "F32"], default="F16")
    a = parser.parse_args()
    model, rng = gguf.GGUFReader(a.model), np.random.default_rng(a.seed)
    writer = gguf.GGUFWriter(a.out, model.get_field("general.architecture").contents())
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(a.rank))
    number = np.float16 if a.type == "F16" else np.float32
    for t in model.tensors:
        part = t.name.split(".")
        if len(t.shape) == 2 and len(part) == 4 and part[2] in a.products.split(","):
            n_in, n_out = (int(n) for n in t.shape)
            writer.add_tensor(t.name + ".lora_a", (0.1 * rng.standard_normal((a.rank, n_in)) / n_in ** 0.5).astype(number))
            writer.add_tensor(t.name + ".lora_b", (0.1 * rng.standard_normal((n_out, a.rank))).astype(number))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
