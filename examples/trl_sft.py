"""Supervised fine-tuning with TRL's SFTTrainer, which resumes after a failure.

    lockstep run examples/trl-sft.yaml
    lockstep run -m 2 -p 2 --checkpoint ckpt -- python3 examples/trl_sft.py --model Qwen/Qwen3-0.6B

It needs TRL 1.16 or later. Without --model it makes a small GPT-2 with random weights, whose tokens
are bytes, so it downloads nothing. The data are pairs of a prompt and its completion: two halves of
each paragraph of a text. As with the Hugging Face Trainer, three lines concern Lockstep.
"""

import argparse
import os
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)
from trl import SFTConfig, SFTTrainer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "worker", "python"))
import lockstep  # noqa: E402
from lockstep_hf import LockstepCallback  # noqa: E402


def pairs(file: str) -> Dataset:
    """The halves of each paragraph. SFTTrainer computes the loss of the completion only."""
    with open(file, encoding="utf-8") as text:
        paragraphs = [part.strip() for part in text.read().split("\n\n") if len(part.strip()) > 1]
    return Dataset.from_list([{"prompt": part[: len(part) // 2], "completion": part[len(part) // 2 :]}
                              for part in paragraphs])


def load(name: str):
    """Returns the model and its tokenizer."""
    if name:
        return AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    end = "<|end|>"
    words = {byte: number for number, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokens = Tokenizer(models.BPE(vocab={**words, end: len(words)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token=end, pad_token=end)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=256, n_embd=64, n_layer=2, n_head=2,
                        bos_token_id=len(words), eos_token_id=len(words))
    return GPT2LMHeadModel(config), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="", help="a model's name on the Hub, or its folder")
    parser.add_argument("--text", default=os.path.join(HERE, "..", "LICENSE"),
                        help="the text file to train on")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--output", default="", help="folder for the trained model")
    arguments = parser.parse_args()

    model, tokenizer = load(arguments.model)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=lockstep.checkpoint_dir() or "checkpoints", max_length=256,
            max_steps=arguments.steps, save_steps=arguments.save_steps,
            per_device_train_batch_size=4, learning_rate=5e-4, logging_steps=5,
            use_cpu=not torch.cuda.is_available(), bf16=torch.cuda.is_available(),
            disable_tqdm=True, report_to=[]),
        train_dataset=pairs(arguments.text),
        processing_class=tokenizer,
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
