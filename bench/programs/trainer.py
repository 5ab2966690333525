"""transformers' Trainer as users write it, on CPUs, with a model made here."""

import os
import tempfile

import stamps  # isort: skip

os.environ["HF_HOME"] = tempfile.gettempdir() + "/lockstep-bench-hf"  # before the import
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
from transformers import (  # noqa: E402
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

stamps.stamp("imported")


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        row = torch.arange(16) % 64
        return {"input_ids": row, "labels": row}


class Stamps(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if stamps.done():
            control.should_training_stop = True


def main():
    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-hf-") as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=1_000_000,
            per_device_train_batch_size=2,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            logging_steps=1_000_000,
        )
        stamps.stamp("joined")
        model = GPT2LMHeadModel(shape)
        Trainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Stamps()]).train()


if __name__ == "__main__":
    main()
