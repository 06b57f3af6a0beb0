"""Random LoRA adapters made with PEFT, and what PEFT computes with them in float32. `make references` runs this file.

data/peft_NAME/     an adapter as PEFT saves it, of float16 numbers, for data/tiny_NAME.gguf or SmolLM2
data/adapters.npz   NAME_prompt, NAME_plain, NAME_adapted: token ids, and logits of the last positions without and with it;
                    of SmolLM2 at the ids NAME_ids
"""
import copy
import shutil
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

import make_references
import tiny_models

DATA = Path(__file__).parent / "data"
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CONFIGS = {
    "llama3": dict(r=4, lora_alpha=6, target_modules=LLAMA),
    "qwen3": dict(r=5, lora_alpha=3, target_modules=LLAMA, use_rslora=True),
    "gemma3": dict(r=4, lora_alpha=8, target_modules=LLAMA, rank_pattern={"q_proj": 7}),
    "gpt2": dict(r=4, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
    "smollm2": dict(r=8, lora_alpha=16, target_modules=LLAMA, layers_to_transform=[0, 13, 29]),
}


def base_model(name):
    if name == "smollm2":
        return make_references.load(name)[1]
    seed = list(tiny_models.MODELS).index(name)
    config = tiny_models.MODELS[name][0]
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config)).eval()
    tiny_models.randomize(model, seed)
    return model


def randomize(model, seed):
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                size = 1 / p.shape[1] ** 0.5 if "lora_A" in name else 0.2
                p.copy_((size * torch.randn(p.shape, generator=rng)).half().float())


def save(model, folder):
    """Without the name of the base model, which is a path of this machine, and without the page about it."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file({k: v.half() for k, v in tensors.items()}, folder / "adapter_model.safetensors")


def main():
    out = {}
    for seed, (name, settings) in enumerate(CONFIGS.items()):
        model = base_model(name)
        prompt = (np.arange(40) ** 2 * 7 + np.arange(40) * 13 + 5) % 250
        ids = np.arange(256) if name != "smollm2" else np.arange(0, 49152, 768)
        with torch.no_grad():
            plain = model(torch.tensor(prompt[None])).logits[0, -8:, ids].numpy()
            model.config.name_or_path = ""
            adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
            adapted.peft_config["default"].base_model_name_or_path = ""
            randomize(adapted, seed)
            got = adapted.eval()(torch.tensor(prompt[None])).logits[0, -8:, ids].numpy()
        save(adapted, DATA / f"peft_{name}")
        out |= {f"{name}_prompt": prompt.astype(np.int32), f"{name}_ids": ids.astype(np.int32), f"{name}_plain": plain,
                f"{name}_adapted": got}
        print(name, "moves logits by", np.abs(got - plain).max(), "of", np.abs(plain).max(), flush=True)
    np.savez_compressed(DATA / "adapters.npz", **out)


if __name__ == "__main__":
    main()
