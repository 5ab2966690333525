"""The trainer's peer in tools/bench train: one eager fp32 training step of the same GPT-2 in PyTorch;
with torchrun's environment, of one rank under DistributedDataParallel over Gloo.

Prints one line of JSON: {"tokens_per_second": ..., "step_seconds": ..., "fastest_seconds": ...,
"torch": ...}; the time is the median of the steps behind --warmup. Run by the Python that has the torch to compare with.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_out = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (
            h.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for h in (q, k, v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, vocabulary, context):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, inputs, targets):
        x = self.wte(inputs) + self.wpe(torch.arange(inputs.shape[1], device=inputs.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_optimizer(model):
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    options = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **options)
    except (RuntimeError, TypeError):  # a torch that fuses it on GPUs only
        return torch.optim.AdamW(groups, **options)


def world():
    return int(os.environ.get("WORLD_SIZE", "1"))


def step_seconds(arguments):
    """The duration of each step, warm-up included."""
    shape = [arguments.layers, arguments.heads, arguments.width]
    model = Gpt(*shape, arguments.vocabulary, arguments.context)
    if world() > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = make_optimizer(model)
    tokens = torch.randint(arguments.vocabulary, (arguments.batch, arguments.context + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    seconds = []
    for _ in range(arguments.warmup + arguments.steps):
        begin = time.perf_counter()
        loss = model(inputs, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (
        ("layers", 4),
        ("heads", 4),
        ("width", 192),
        ("vocabulary", 256),
        ("context", 128),
        ("batch", 8),
        ("steps", 20),
        ("warmup", 3),
        ("threads", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    if world() > 1:
        torch.distributed.init_process_group("gloo")
    seconds = step_seconds(arguments)[arguments.warmup :]
    median = statistics.median(seconds)
    figures = {
        "tokens_per_second": arguments.batch * arguments.context / median,
        "step_seconds": median,
        "fastest_seconds": min(seconds),
        "torch": torch.__version__,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
