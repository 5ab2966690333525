"""Lockstep for the Hugging Face Trainer.

    from lockstep_hf import LockstepCallback
    import lockstep

    arguments = TrainingArguments(output_dir=lockstep.checkpoint_dir() or "out", ...)
    trainer = Trainer(model, arguments, callbacks=[LockstepCallback()], ...)
    trainer.train(resume_from_checkpoint=lockstep.latest())

Reports steps, losses and learning rates, says every second that the process is alive, and commits
each checkpoint that the Trainer writes below LOCKSTEP_CHECKPOINT_DIR.

In a job with checkpoint.memory, checkpoints stay in memory, so they can be frequent:

    TrainingArguments(output_dir=lockstep.memory_dir(), save_on_each_node=True, save_steps=10, ...)

With FSDP or DeepSpeed each rank writes a shard, and each machine gets the others' as well: its
memory must hold the whole checkpoint, which goes over the network at each save. For models that no
machine's memory holds, output_dir is lockstep.checkpoint_dir().

A committed checkpoint has moved away from output_dir: `save_total_limit` doesn't count it, and
`load_best_model_at_end` won't find it.
"""

import contextlib
import os
import shutil
import sys
import time
from typing import Any, Dict, List, Optional

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
_CHUNK = 64 << 20  # bytes that are sent at once
_NAME_A_PROCESS = ("trainer_state.json", "training_args.bin")


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
        memory = lockstep.memory_dir()
        if memory and _is_below(directory, memory):
            self._save_in_memory(args, state, os.path.join(memory, os.path.basename(directory)))
        elif _is_below(directory, lockstep.checkpoint_dir()):
            _wait_for_all_ranks()  # each has written its own random state to it
            if state.is_world_process_zero:
                lockstep.commit(directory)

    def _save_in_memory(self, args: Any, state: Any, directory: str) -> None:
        if not args.save_on_each_node and int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
            raise ValueError(
                "checkpoints in memory have a part on every machine: give TrainingArguments "
                "save_on_each_node=True"
            )
        _wait_for_all_ranks()
        _make_parts_alike(state, directory)
        if not state.is_local_process_zero:
            return
        try:
            lockstep.commit(directory)
        except lockstep.CommitRefused as refusal:
            step = state.global_step
            print(f"lockstep_hf: step {step} was not committed: {refusal}", file=sys.stderr)
            shutil.rmtree(directory, ignore_errors=True)

    def _report(self, state: Any, **values: Any) -> None:
        self._last_report = time.monotonic()
        total_steps = state.max_steps if state.max_steps > 0 else None
        lockstep.report(step=state.global_step, total_steps=total_steps, **values)


def _is_below(directory: str, parent: Optional[str]) -> bool:
    if parent is None:
        return False
    parent = os.path.realpath(parent)
    return os.path.commonpath([parent, os.path.realpath(directory)]) == parent


def _distributed() -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    return torch.distributed if torch.distributed.is_initialized() else None


def _wait_for_all_ranks() -> None:
    distributed = _distributed()
    if distributed is not None:
        distributed.barrier()


def _make_parts_alike(state: Any, directory: str) -> None:
    """Gives every machine what the others' parts have and its own lacks.

    Each is resumed from. Some Trainers write the model on the first machine alone; FSDP and DeepSpeed
    write a file a rank, of which each rank reads others' as well. All parts go into one folder in
    the end, so the files that name their process are the first machine's on all.
    """
    distributed = _distributed()
    if distributed is None:
        return
    rank = distributed.get_rank()
    mine = _shared_files(directory) if state.is_local_process_zero else None
    parts = [None] * distributed.get_world_size()
    distributed.all_gather_object(parts, mine)
    keepers = [keeper for keeper, part in enumerate(parts) if part is not None]
    for file in sorted({file for keeper in keepers for file in parts[keeper]}):
        source = next(keeper for keeper in keepers if file in parts[keeper])
        alike = file not in _NAME_A_PROCESS
        lacking = [each for each in keepers if not (alike and file in parts[each])]
        lacking = [each for each in lacking if each != source]
        if lacking:
            path = os.path.join(directory, file)
            _broadcast_file(distributed, path, source, rank == source, rank in lacking)


def _shared_files(directory: str) -> List[str]:
    """As paths in it. Random states are each rank's own."""
    return [
        os.path.relpath(os.path.join(parent, file), directory)
        for parent, _, files in os.walk(directory)
        for file in files
        if not file.startswith("rng_state")
    ]


def _broadcast_file(distributed: Any, path: str, source: int, reads: bool, writes: bool) -> None:
    with contextlib.ExitStack() as stack:
        if writes:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        read = stack.enter_context(open(path, "rb")) if reads else None
        written = stack.enter_context(open(path, "wb")) if writes else None
        while True:
            chunk = [read.read(_CHUNK) if read else None]
            distributed.broadcast_object_list(chunk, src=source)
            if not chunk[0]:
                return
            if written:
                written.write(chunk[0])
