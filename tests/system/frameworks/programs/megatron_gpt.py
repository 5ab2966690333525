"""A GPT of Megatron-LM's own (megatron-core) on CPUs: tensor × data parallel, of torchrun's variables.

Takes the arguments of examples/megatron_groups.py. Megatron's layers ask CUDA for their device and
for generators of random numbers that belong to it: without one, the first is the CPU, and nothing
here is random once the weights are made.
"""

import argparse
import contextlib
import os
import time

import lockstep
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.tensor_parallel import random as megatron_random
from megatron.core.transformer.transformer_config import TransformerConfig

WORDS, LENGTH = 64, 16


class NoGenerators:
    def fork(self, name=""):
        return contextlib.nullcontext()

    def is_initialized(self):
        return True


def without_cuda():
    torch.cuda.current_device = lambda: torch.device("cpu")
    megatron_random._CUDA_RNG_STATE_TRACKER = NoGenerators()
    megatron_random._CUDA_RNG_STATE_TRACKER_INITIALIZED = True


def make_model(tensor):
    torch.manual_seed(0)
    config = TransformerConfig(
        num_layers=2, hidden_size=32, num_attention_heads=4, tensor_model_parallel_size=tensor,
        hidden_dropout=0.0, attention_dropout=0.0, use_cpu_initialization=True,
        gradient_accumulation_fusion=False, bias_dropout_fusion=False, masked_softmax_fusion=False,
        persist_layer_norm=False)
    return GPTModel(config, get_gpt_layer_local_spec(normalization="LayerNorm"), vocab_size=WORDS,
                    max_sequence_length=LENGTH)


def batch(step, replica):
    """Texts in which each word is the one after the last."""
    generator = torch.Generator().manual_seed(1_000_003 * step + replica)
    first = torch.randint(0, WORDS, (4, 1), generator=generator)
    text = (first + torch.arange(LENGTH + 1)) % WORDS
    return text[:, :-1], text[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor-model-parallel-size", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--seconds-per-step", type=float, default=0.0)
    parser.add_argument("--weights", required=True)
    args = parser.parse_args()

    torch.set_num_threads(1)
    without_cuda()
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(args.tensor_model_parallel_size)
    part, parts = (parallel_state.get_tensor_model_parallel_rank(),
                   parallel_state.get_tensor_model_parallel_world_size())
    replica, replicas = (parallel_state.get_data_parallel_rank(),
                         parallel_state.get_data_parallel_world_size())
    model = make_model(args.tensor_model_parallel_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    places = torch.arange(LENGTH).expand(4, LENGTH)
    hidden = ~torch.ones(LENGTH, LENGTH).tril().bool()[None, None]

    first, resume = 0, lockstep.latest()
    if resume:
        state = torch.load(os.path.join(resume, f"part-{part}.pt"), weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    print(f"part {part} of {parts}, replica {replica} of {replicas}: training from step {first}",
          flush=True)

    losses = []
    for step in range(first + 1, args.steps + 1):
        words, labels = batch(step, replica)
        loss = model(words, places, hidden, labels=labels).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=parallel_state.get_data_parallel_group())
            parameter.grad /= replicas
        optimizer.step()
        losses.append(loss.item())
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.item())
        if step % args.checkpoint_every == 0:
            directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
            if replica == 0:
                os.makedirs(directory, exist_ok=True)
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "step": step}, os.path.join(directory, f"part-{part}.pt"))
            dist.barrier()  # every part is written
            if dist.get_rank() == 0:
                lockstep.commit(directory)
    if first == 0:
        assert losses[-1] < losses[0] / 2, losses
    if replica == 0:
        os.makedirs(args.weights, exist_ok=True)
        weights = {name: value for name, value in model.state_dict().items() if value is not None}
        torch.save(weights, os.path.join(args.weights, f"part-{part}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
