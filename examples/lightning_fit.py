"""Trains a small model with Lightning and resumes from its checkpoint after a failure.

    lockstep run examples/lightning.yaml

Lightning treats Lockstep as torchrun, so it starts no ranks itself. It needs the shape of the world
in `devices` and `num_nodes`.
"""

import argparse
import os
import sys
import time

import lightning
import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def training_step(self, batch, _):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Lockstep(lightning.Callback):
    """Reports each step, and commits a checkpoint at the end of each epoch."""

    def __init__(self, seconds_per_step):
        self.seconds_per_step = seconds_per_step

    def on_train_start(self, trainer, module):
        if trainer.is_global_zero:
            print(f"{type(trainer.strategy.cluster_environment).__name__}: training from step "
                  f"{trainer.global_step} on {trainer.world_size} ranks", flush=True)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        time.sleep(self.seconds_per_step)
        lockstep.report(step=trainer.global_step, total_steps=trainer.estimated_stepping_batches,
                        loss=outputs["loss"].item())

    def on_train_epoch_end(self, trainer, module):
        if not lockstep.checkpoint_dir():
            return
        directory = os.path.join(lockstep.checkpoint_dir(), f"step-{trainer.global_step}")
        trainer.save_checkpoint(os.path.join(directory, "state.ckpt"))  # all ranks save
        if trainer.is_global_zero:
            lockstep.commit(directory)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--steps-per-epoch", type=int, default=10)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    parser.add_argument("--weights", default="", help="file for the trained weights, from rank 0")
    args = parser.parse_args()

    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    processes, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    inputs = torch.randn(64 * world * args.steps_per_epoch, 32)
    data = torch.utils.data.TensorDataset(inputs, inputs.sin().sum(dim=1, keepdim=True))
    trainer = lightning.Trainer(
        devices=processes, num_nodes=world // processes, max_epochs=args.epochs,
        # In this mode DistributedDataParallel does not reorder its buckets after the first step. So
        # an interrupted training ends with the same weights as an uninterrupted one.
        strategy="ddp_find_unused_parameters_true",
        callbacks=[Lockstep(args.seconds_per_step)], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    resume = lockstep.latest()
    model = Model()
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=64, shuffle=True),
                ckpt_path=os.path.join(resume, "state.ckpt") if resume else None)
    if trainer.is_global_zero:
        print(f"trained to step {trainer.global_step}", flush=True)
        if args.weights:
            torch.save(model.state_dict(), args.weights)


if __name__ == "__main__":
    main()
