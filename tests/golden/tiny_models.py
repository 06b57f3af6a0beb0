"""Small models with random weights, one for each family and trait that no real file here has: a GGUF file and what
transformers computes with the same weights in float32."""
import numpy as np
import gguf
import torch
import transformers

VOCAB, WIDTH, HEADS, KV_HEADS = 256, 64, 4, 2
PROMPTS = (1, 40, 300)      # tokens
POSITIONS = 8               # logits of so many last positions are kept
WITH_BLOCKS = ("llama3", "olmoe", "gpt2")   # these with int8 blocks, too, for the default precision
NORM_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
GEMMA_NORM_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
                    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
MATRIX_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
                "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
                "mlp.gate": "ffn_gate_inp", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}

GPT2_NAMES = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
              "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}

COMMON = dict(vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=96, num_hidden_layers=2, num_attention_heads=HEADS,
              num_key_value_heads=KV_HEADS, head_dim=16, max_position_embeddings=1024, rms_norm_eps=1e-5,
              tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64)


def rope(kind="default", theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


MODELS = {
    "llama3": (transformers.LlamaConfig(**COMMON, rope_parameters=LLAMA3_ROPE), {}),
    "llama_linear": (transformers.LlamaConfig(**COMMON, rope_parameters=rope("linear", factor=4.0)),
                     {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "llama_yarn": (transformers.LlamaConfig(**COMMON, rope_parameters=rope("yarn", factor=4.0,
                                                                            original_max_position_embeddings=64)),
                   {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}),
    "mistral": (transformers.MistralConfig(**COMMON, sliding_window=24, rope_parameters=rope()),
                {"attention.sliding_window": 24}),
    "qwen2": (transformers.Qwen2Config(**{**COMMON, "tie_word_embeddings": True}, rope_parameters=rope(theta=1e6)), {}),
    "qwen3": (transformers.Qwen3Config(**COMMON, rope_parameters=rope(theta=1e6)), {}),
    # head size 128: queries are scaled by width / heads, as in the 27B model; the second layer of two sees everything
    "gemma3": (transformers.Gemma3TextConfig(
        **{**COMMON, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2,
           "num_key_value_heads": 1, "head_dim": 128, "tie_word_embeddings": True},
        query_pre_attn_scalar=16, sliding_window=32, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        attn_logit_softcapping=None, final_logit_softcapping=None,
        rope_parameters={"full_attention": rope("linear", 1e6, factor=8.0), "sliding_attention": rope()}),
        {"attention.sliding_window": 32, "attention.sliding_window_pattern": 2, "rope.scaling.type": "linear",
         "rope.scaling.factor": 8.0}),
    "olmoe": (transformers.OlmoeConfig(
        **{**{k: v for k, v in COMMON.items() if k != "head_dim"}, "intermediate_size": 32}, num_experts=8,
        num_experts_per_tok=3, norm_topk_prob=False, rope_parameters=rope()),
        {"expert_count": 8, "expert_used_count": 3}),
    "gpt2": (transformers.GPT2Config(vocab_size=VOCAB, n_positions=1024, n_embd=WIDTH, n_layer=2, n_head=HEADS, n_inner=96), {}),
}


def randomize(model, seed):
    """Weights large enough that every part matters, rounded to what float16 holds."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=rng)
            if name.endswith("norm.weight") or (".ln_" in name and name.endswith("weight")):
                p.copy_((1 if "gemma" not in model.config.model_type else 0) + 0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.5 * noise)
            else:
                p.copy_(1.5 * noise / p.shape[-1] ** 0.5)
            p.copy_(p.half().float())


def llama3_factors(config):
    """What each wavelength is stretched by (Llama 3.1's rule), as rope_freqs.weight holds it."""
    r = LLAMA3_ROPE
    inverse = 1 / r["rope_theta"] ** (np.arange(0, config.head_dim, 2) / config.head_dim)
    turns = r["original_max_position_embeddings"] * inverse / (2 * np.pi)
    smooth = np.clip((turns - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"]), 0, 1)
    return (1 / ((1 - smooth) / r["factor"] + smooth)).astype(np.float32)


def gguf_name(name):
    name = name.removeprefix("model.")
    fixed = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    return fixed.get(name)


def layer_name(name, is_gemma):
    _, layer, rest = name.removeprefix("model.").split(".", 2)
    part, kind = rest.rsplit(".", 1)
    if part == "mlp.experts":
        return f"blk.{layer}.ffn_{kind.removesuffix('_proj')}_exps.weight"
    names = {**MATRIX_NAMES, **(GEMMA_NORM_NAMES if is_gemma else NORM_NAMES)}
    return f"blk.{layer}.{names[part]}.{kind}"


def pair_rows(w, n_head):
    """Llama files hold the rows of q and k so that the two values that turn together are neighbours."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def put_tensor(w, name, data, arch, quantise):
    if data.ndim == 1:
        w.add_tensor(name, (data + (arch == "gemma3")).astype(np.float32))
    elif "ffn_gate_inp" in name:
        w.add_tensor(name, data.astype(np.float32))
    elif quantise is not None:
        w.add_tensor(name, gguf.quantize(data, quantise), raw_dtype=quantise)
    else:
        w.add_tensor(name, data.astype(np.float16))


def write_gguf(path, model, arch, extra, quantise=None):
    c = model.config
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    head_dim = getattr(c, "head_dim", c.hidden_size // c.num_attention_heads)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    theta = c.rope_parameters.get("full_attention", c.rope_parameters)["rope_theta"]
    w.add_rope_freq_base(theta)
    for key, value in extra.items():
        add = {str: w.add_string, float: w.add_float32, int: w.add_uint32}[type(value)]
        add(f"{arch}.{key}", value)
    for name, p in model.named_parameters():
        data = p.detach().numpy()
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            data = pair_rows(data, c.num_attention_heads if "q_proj" in name else c.num_key_value_heads)
        target = gguf_name(name) or layer_name(name, arch == "gemma3")
        if "gate_up" in target:     # transformers keeps an expert's two matrices as one
            put_tensor(w, target.replace("gate_up", "gate"), data[:, :data.shape[1] // 2], arch, quantise)
            put_tensor(w, target.replace("gate_up", "up"), data[:, data.shape[1] // 2:], arch, quantise)
        else:
            put_tensor(w, target, data, arch, quantise)
    if c.rope_parameters.get("rope_type") == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(c))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_gpt2(path, model, quantise=None):
    c = model.config
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_context_length(c.n_positions)
    w.add_embedding_length(c.n_embd)
    w.add_block_count(c.n_layer)
    w.add_feed_forward_length(c.n_inner)
    w.add_head_count(c.n_head)
    w.add_layer_norm_eps(c.layer_norm_epsilon)
    for name, p in model.named_parameters():
        part, kind = name.removeprefix("transformer.").rsplit(".", 1)
        layer = ""
        if part.startswith("h."):
            _, layer, part = part.split(".", 2)
            layer = f"blk.{layer}."
        data = p.detach().numpy()
        if ".c_" in part and kind == "weight":  # kept with inputs first
            data = np.ascontiguousarray(data.T)
        put_tensor(w, f"{layer}{GPT2_NAMES[part]}.{kind}", data, "gpt2", quantise)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_model(path, name, model, extra, quantise=None):
    if name == "gpt2":
        write_gpt2(path, model, quantise)
        return
    arch = {"llama3": "llama", "llama_linear": "llama", "llama_yarn": "llama", "mistral": "llama"}.get(name, name)
    write_gguf(path, model, arch, extra, quantise)


def prompt(n):
    i = np.arange(n)
    return (i * i * 7 + i * 13 + 5) % VOCAB


def make(folder):
    """Write folder/tiny_NAME.gguf for each model and folder/tiny.npz with the logits of the last positions."""
    logits = {}
    for seed, (name, (config, extra)) in enumerate(MODELS.items()):
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        randomize(model, seed)
        write_model(folder / f"tiny_{name}.gguf", name, model, extra)
        for n in PROMPTS:
            with torch.no_grad():
                out = model(torch.tensor(prompt(n)[None])).logits[0]
            logits[f"{name}_{n}"] = out[-POSITIONS:].numpy()
        if name in WITH_BLOCKS:
            write_model(folder / f"tiny_{name}_q8_0.gguf", name, model, extra, gguf.GGMLQuantizationType.Q8_0)
    np.savez_compressed(folder / "tiny.npz", **logits)
