"""Hidden states behind the last norm of SmolLM2, pooled, computed with transformers in float32: data/embeddings.npz, for
tests/cli/test_embed.py. `make references` runs this file.

  ids_I           token ids of text I
  mean_I, cls_I, last_I  vectors
"""
import numpy as np
import torch
from make_references import DATA, load

TEXTS = ["Hello", "A mill by the river, and the miller on its step.", "Wasser treibt das Rad. " * 40]


def main():
    tokenizer, model = load("smollm2")
    out = {"texts": np.array(TEXTS)}
    for i, text in enumerate(TEXTS):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
        pooled = {"mean": hidden.mean(0), "cls": hidden[0], "last": hidden[-1]}
        out |= {f"ids_{i}": np.array(ids, np.int32)} | {f"{k}_{i}": v.astype(np.float32) for k, v in pooled.items()}
    np.savez_compressed(DATA / "embeddings.npz", **out)


if __name__ == "__main__":
    main()
