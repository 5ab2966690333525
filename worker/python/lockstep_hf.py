"""Lockstep for the Hugging Face Trainer.

    from lockstep_hf import LockstepCallback
    import lockstep

    arguments = TrainingArguments(output_dir=lockstep.checkpoint_dir() or "out", ...)
    trainer = Trainer(model, arguments, callbacks=[LockstepCallback()], ...)
    trainer.train(resume_from_checkpoint=lockstep.latest())

Reports steps, losses and learning rates, says every second that the process is alive, and commits
each checkpoint that the Trainer writes below LOCKSTEP_CHECKPOINT_DIR.

A committed checkpoint has moved away from output_dir: `save_total_limit` doesn't count it, and
`load_best_model_at_end` won't find it.
"""

import os
import sys
import time
from typing import Any, Dict, Optional

import lockstep

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        "lockstep_hf is for programs that use the Hugging Face Trainer; it needs the package "
        "transformers (pip install transformers). Other programs import lockstep instead."
    ) from error

__all__ = ["LockstepCallback"]

_HEARTBEAT_SECONDS = 1.0


class LockstepCallback(TrainerCallback):
    """Pass it to Trainer(callbacks=[...]) on every rank."""

    def __init__(self) -> None:
        self._last_report = float("-inf")

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any
    ) -> None:
        values = {name: value for name, value in (logs or {}).items() if name.isidentifier()}
        for name in ("step", "total_steps", "tokens"):  # the Trainer's state says these
            values.pop(name, None)
        self._report(state, **values)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if time.monotonic() - self._last_report >= _HEARTBEAT_SECONDS:
            self._report(state)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        directory = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if not _is_below(directory, lockstep.checkpoint_dir()):
            return
        _wait_for_all_ranks()  # each has written its own random state to it
        if state.is_world_process_zero:
            lockstep.commit(directory)

    def _report(self, state: Any, **values: Any) -> None:
        self._last_report = time.monotonic()
        total_steps = state.max_steps if state.max_steps > 0 else None
        lockstep.report(step=state.global_step, total_steps=total_steps, **values)


def _is_below(directory: str, parent: Optional[str]) -> bool:
    if parent is None:
        return False
    parent = os.path.realpath(parent)
    return os.path.commonpath([parent, os.path.realpath(directory)]) == parent


def _wait_for_all_ranks() -> None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
