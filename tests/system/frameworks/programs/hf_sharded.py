"""Hugging Face's Trainer on CPUs, its state sharded over the ranks, with checkpoints in memory.

    python hf_sharded.py fsdp|zero1|zero2 STEPS SECONDS-PER-STEP

At the end rank 0 prints the SHA-256 of the whole model.
"""

import hashlib
import os
import sys
import time

import lockstep
import torch
from accelerate.state import DistributedType, PartialState
from lockstep_hf import LockstepCallback
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

sharding, steps, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(1)
SHARDED = {
    "fsdp": {"fsdp": True, "fsdp_config": {
        "version": 2, "state_dict_type": "SHARDED_STATE_DICT", "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "transformer_layer_cls_to_wrap": ["GPT2Block"]}},
    "zero1": {"deepspeed": {"zero_optimization": {"stage": 1},
                            "train_micro_batch_size_per_gpu": "auto"}},
    "zero2": {"deepspeed": {"zero_optimization": {"stage": 2},
                            "train_micro_batch_size_per_gpu": "auto"}},
}


class Numbers(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Slow(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if os.environ["RANK"] == "0":
            print(f"step {state.global_step} is done", flush=True)
        time.sleep(seconds)


# Accelerate shards on accelerators alone, and goes by this.
PartialState(cpu=True)
PartialState._shared_state["distributed_type"] = (
    DistributedType.MULTI_GPU if sharding == "fsdp" else DistributedType.DEEPSPEED)
resume = lockstep.latest()
print(f"resumes from {resume}", flush=True)
arguments = TrainingArguments(
    output_dir=lockstep.memory_dir(), save_on_each_node=True, save_strategy="steps", save_steps=5,
    max_steps=steps, per_device_train_batch_size=4, seed=7, report_to=[], logging_steps=1000,
    disable_tqdm=True, learning_rate=1e-3, accelerator_config={"use_configured_state": True},
    **SHARDED[sharding])
torch.manual_seed(7)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
trainer = Trainer(model, arguments, train_dataset=Numbers(), callbacks=[LockstepCallback(), Slow()])
trainer.train(resume_from_checkpoint=resume)

digest = hashlib.sha256()
whole = trainer.model_wrapped if sharding == "fsdp" else trainer.model
for name, value in sorted(whole.state_dict().items()):
    value = value.full_tensor() if hasattr(value, "full_tensor") else value
    digest.update(name.encode() + value.detach().to(torch.float32).contiguous().numpy().tobytes())
if os.environ["RANK"] == "0":
    print(f"weights: sha256 {digest.hexdigest()}", flush=True)
