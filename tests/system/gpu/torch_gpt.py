"""The trainer's peer in tests/system/gpu/run: training steps of GPT-2 124M in PyTorch on a GPU, compiled by
torch.compile, bf16 with fp32 master weights, flash attention, fused AdamW. The model is the one of
bench/train_torch.py; its vocabulary is padded, as the trainer's is.

Prints one line of JSON: tokens_per_second (of the median step behind --warmup), step_seconds,
first_seconds (compilation), peak_bytes, loss, torch, attention.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
from train_torch import Gpt, make_optimizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"layers": 12, "heads": 12, "width": 768, "vocabulary": 50304,
                        "context": 1024, "batch": 64, "steps": 40, "warmup": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    torch.manual_seed(0)
    with torch.device(options.device):
        model = Gpt(options.layers, options.heads, options.width, options.vocabulary,
                    options.context)
        tokens = torch.randint(50257 if on_gpu else options.vocabulary,
                               (options.batch, options.context + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    optimizer = make_optimizer(model)
    compiled = torch.compile(model)

    def step():
        with torch.autocast(options.device, torch.bfloat16):
            loss = compiled(inputs, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()  # once a step, as the trainer waits once

    seconds = []
    # On CPUs there is no flash kernel of every torch.
    backends = [SDPBackend.FLASH_ATTENTION] if on_gpu else list(SDPBackend.__members__.values())
    with sdpa_kernel(backends):
        for _ in range(options.warmup + options.steps):
            began = time.perf_counter()
            loss = step()
            seconds.append(time.perf_counter() - began)
    median = statistics.median(seconds[options.warmup:])
    print(json.dumps({
        "tokens_per_second": options.batch * options.context / median, "step_seconds": median,
        "first_seconds": seconds[0], "loss": loss, "torch": torch.__version__,
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        "attention": "flash" if on_gpu else "any"}))


if __name__ == "__main__":
    main()
