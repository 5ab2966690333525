"""Fine-tunes a language model with the Hugging Face Trainer, and resumes after a failure.

    lockstep run examples/hf-finetune.yaml
    lockstep run -m 2 -p 2 --checkpoint ckpt -- python3 examples/hf_finetune.py --model gpt2

Without --model it makes a small GPT-2 with random weights, whose tokens are bytes, so it downloads
nothing. Three lines concern Lockstep: checkpoint_dir() is the folder for checkpoints, latest() names
the checkpoint to resume from, and LockstepCallback reports progress and commits each checkpoint.
"""

import argparse
import os
import sys

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "worker", "python"))
import lockstep  # noqa: E402
from lockstep_hf import LockstepCallback  # noqa: E402


class Pieces(Dataset):
    """A text in pieces of equal length. What remains at its end is left out."""

    def __init__(self, tokens: torch.Tensor, length: int) -> None:
        self._pieces = tokens[: len(tokens) // length * length].view(-1, length)

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, index: int):
        return {"input_ids": self._pieces[index], "labels": self._pieces[index]}


def load(name: str, text: str):
    """Returns the model and the tokens of the text."""
    if name:
        tokenizer = AutoTokenizer.from_pretrained(name)
        tokens = tokenizer(text, return_tensors="pt")["input_ids"][0]
        return AutoModelForCausalLM.from_pretrained(name), tokens
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_positions=128, n_embd=64, n_layer=2, n_head=2,
                        bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config), torch.tensor(list(text.encode()), dtype=torch.long)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="", help="a model's name on the Hub, or its folder")
    parser.add_argument("--text", default=os.path.join(HERE, "..", "LICENSE"),
                        help="the text file to train on")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--output", default="", help="folder for the trained model")
    arguments = parser.parse_args()

    with open(arguments.text, encoding="utf-8") as file:
        model, tokens = load(arguments.model, file.read())
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=lockstep.checkpoint_dir() or "checkpoints",
            max_steps=arguments.steps, save_steps=arguments.save_steps,
            per_device_train_batch_size=4, learning_rate=5e-4, logging_steps=5,
            use_cpu=not torch.cuda.is_available(), disable_tqdm=True, report_to=[]),
        train_dataset=Pieces(tokens, 64),
        callbacks=[LockstepCallback()],
    )
    resume = lockstep.latest()
    if trainer.is_world_process_zero():
        print(f"training from {resume or 'step 0'}", flush=True)
    result = trainer.train(resume_from_checkpoint=resume)
    if arguments.output:
        trainer.save_model(arguments.output)
    if trainer.is_world_process_zero():
        print(f"trained to step {result.global_step}", flush=True)


if __name__ == "__main__":
    main()
