"""What rounding activations to int8 in blocks of 32 costs, simulated in torch: data/rounding.json has, for each real model, the
mean Kullback-Leibler divergence from float32 over all positions of the golden prompts named there. `make references` runs this
file after make_references.py."""
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import make_references as golden  # noqa: E402

PROMPTS = {"smollm2": range(6, 18), "gemma3": range(6, 11)}     # 17 to 700 tokens, 17 to 100 tokens
BLOCK = 32
ROWS = 64                   # rows of logits at a time


def round_input(module, args):
    """x to q d with q in -127..127 and one d for each 32 values of a row."""
    x, = args
    blocks = x.unflatten(-1, (-1, BLOCK))
    d = blocks.abs().amax(-1, keepdim=True) / 127
    q = torch.where(d > 0, (blocks / d).round(), 0)
    return ((q * d).flatten(-2),)


def divergence(model, prompts):
    linears = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    total, count = 0.0, 0
    for ids in prompts:
        token = torch.tensor(ids[None].astype("int64"))
        with torch.no_grad():
            exact = model.model(token).last_hidden_state[0]
            hooks = [m.register_forward_pre_hook(round_input) for m in linears]
            rounded = model.model(token).last_hidden_state[0]
            for first in range(0, len(ids), ROWS):
                q = model.lm_head(rounded[first:first + ROWS]).double().log_softmax(-1)
                for h in hooks[-1:]:
                    h.remove()
                p = model.lm_head(exact[first:first + ROWS]).double().log_softmax(-1)
                hooks[-1] = linears[-1].register_forward_pre_hook(round_input)
                total += (p.exp() * (p - q)).sum().item()
            for h in hooks:
                h.remove()
        count += len(ids)
    return total / count, count


def main():
    path = golden.DATA / "rounding.json"
    out = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[1:] or golden.FILES:
        tokenizer, model = golden.load(name)
        assert model.lm_head is [m for m in model.modules() if isinstance(m, torch.nn.Linear)][-1]
        prompts = [golden.prompt(tokenizer, i, golden.LENGTHS[i]) for i in PROMPTS[name]]
        kl, count = divergence(model, prompts)
        out[name] = {"prompts": list(PROMPTS[name]), "positions": count, "kl": kl}
        print(name, out[name], flush=True)
        path.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
