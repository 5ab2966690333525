"""Lockstep for programs that use PyTorch.

    model = DistributedDataParallel(module)
    lockstep_torch.watch(model)

watch() reports how long this rank waits for the others in each backward pass. Lockstep finds the
machine for which the rest of the gang waits from that: condition Straggler, and what
spec.failurePolicy.stragglers says of it.

    state = lockstep_torch.load(map_location=device) or {"step": 0}
    ...
    lockstep_torch.save({"step": step, "model": model.state_dict()}, step)

Live is a DistributedDataParallel whose ranks live on when one of them dies (docs/guides/live.md).

save() writes a checkpoint and commits it, load() gives the last one: in memory where the job has
checkpoint.memory, which is quick enough for every few steps, else in the checkpoint folder.
"""

import hashlib
import os
import shutil
import sys
import threading
import time
import zipfile
from typing import Any, Callable, Dict, Optional

import lockstep

try:
    import torch
    import torch.distributed
except ImportError as error:
    raise ImportError(
        "lockstep_torch is for programs that use PyTorch; it needs the package torch. Other "
        "programs import lockstep instead."
    ) from error

from lockstep_live import Live

__all__ = ["Live", "load", "save", "watch"]

_GPU_SECONDS = 5.0  # between two looks at a GPU


def save(state: Any, step: int, sharded: bool = False) -> Optional[str]:
    """Writes `state` as the checkpoint of `step` and commits it. Call it on every rank.

    state: what torch.save() takes. It is the same on every rank, as with DistributedDataParallel,
    and one process writes it: of every machine where it goes to memory, else of the job.
    sharded: each rank has its own, as with FSDP, and writes that; needs init_process_group(). In
    memory that is a file a rank, to be read by as many ranks. On disk `state`, a dict, is written
    by torch.distributed.checkpoint, if this torch has it: other numbers of ranks can read it, too.

    Returns where the checkpoint is, on the rank that committed it, else None. If the commit is
    refused, as when memory is full, stderr says why, and the last checkpoint stays the one to
    resume from.
    """
    memory = lockstep.memory_dir()
    parent = memory or lockstep.checkpoint_dir() or "checkpoints"
    folder = os.path.join(parent, f"step-{int(step)}")
    commits = _variable("LOCAL_RANK" if memory else "RANK", 0) == 0
    if sharded:
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            raise RuntimeError("save(sharded=True) needs torch.distributed.init_process_group()")
        os.makedirs(folder, exist_ok=True)
        if memory or not _write_distributed(state, folder):
            torch.save(state, os.path.join(folder, _own_file()))
            torch.distributed.barrier()
    elif commits:
        os.makedirs(folder, exist_ok=True)
        _write_alike(state, folder)
    if not commits:
        return None
    try:
        return lockstep.commit(folder)
    except lockstep.CommitRefused as refusal:
        print(f"lockstep_torch: step {step} was not committed: {refusal}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def load(map_location: Any = None, into: Any = None, **options: Any) -> Any:
    """The state of the checkpoint to resume from; None where training starts at the beginning.

    map_location, options: as for torch.load().
    into: a state as save() was given, of this run's tensors, which are filled with what was saved;
    it is returned. Sharded states that are read from disk need it.
    """
    folder = lockstep.latest()
    if folder is None:
        return None
    began = time.monotonic()
    if os.path.exists(os.path.join(folder, ".metadata")):
        if into is None:
            raise ValueError(
                f"{folder} was written by torch.distributed.checkpoint: give load(into=...) a "
                "state as save() was given, whose tensors it can fill"
            )
        _read_distributed(into, folder)
        state = into
    else:
        state = torch.load(_file_in(folder), map_location=map_location, **options)
        if into is not None:
            with torch.no_grad():
                state = _fill(into, state)
    lockstep.loaded(time.monotonic() - began)
    return state


def _write_alike(state: Any, folder: str) -> None:
    """All machines' parts go into one folder in the end: equal states must have equal names, and
    others different ones. The name is made of the checksums that torch.save() wrote."""
    writing = os.path.join(folder, "state.pt")
    torch.save(state, writing)
    with zipfile.ZipFile(writing) as file:
        sums = [(entry.filename, entry.CRC, entry.file_size) for entry in file.infolist()]
    name = hashlib.sha256(repr(sums).encode()).hexdigest()[:16]
    os.rename(writing, os.path.join(folder, f"state-{name}.pt"))


def _own_file() -> str:
    return f"rank-{_variable('RANK', 0)}-of-{_variable('WORLD_SIZE', 1)}.pt"


def _file_in(folder: str) -> str:
    files = sorted(os.listdir(folder))
    if _own_file() in files:
        return os.path.join(folder, _own_file())
    for file in files:
        if file.startswith("state-") and file.endswith(".pt"):
            return os.path.join(folder, file)
    if any(file.startswith("rank-") for file in files):
        raise ValueError(
            f"{folder} holds one state a rank, and none for {_own_file()[:-3]}: it was saved by "
            "another number of ranks; run as many, or start over with checkpoint.resume: Never"
        )
    raise ValueError(f"{folder} holds no state that lockstep_torch.save() wrote")


def _fill(into: Any, state: Any) -> Any:
    if isinstance(into, torch.Tensor):
        return into.copy_(state)
    if isinstance(into, dict):
        for key, value in state.items():
            into[key] = _fill(into.get(key), value)
        return into
    if isinstance(into, list) and len(into) == len(state):
        into[:] = [_fill(old, new) for old, new in zip(into, state)]
        return into
    return state


def _write_distributed(state: Any, folder: str) -> bool:
    """Whether this torch can."""
    try:
        import torch.distributed.checkpoint as distributed
    except ImportError:
        return False
    if hasattr(distributed, "save"):
        distributed.save(state, checkpoint_id=folder)
    else:
        distributed.save_state_dict(state, distributed.FileSystemWriter(folder))
    return True


def _read_distributed(state: Any, folder: str) -> None:
    import torch.distributed.checkpoint as distributed

    if hasattr(distributed, "load"):
        distributed.load(state, checkpoint_id=folder)
    else:
        distributed.load_state_dict(state, distributed.FileSystemReader(folder))


def _variable(name: str, otherwise: int) -> int:
    return int(os.environ.get(name) or otherwise)


def watch(model: Any, hook: Optional[Callable[..., Any]] = None, state: Any = None) -> None:
    """Reports from now on how long this rank waits for each step's last all-reduce.

    model: a DistributedDataParallel that has no communication hook and is not used with join().
    hook, state: its communication hook, as for `model.register_comm_hook(state, hook)`; None: the
    all-reduce that DistributedDataParallel does by itself, to the same bits. (With
    gradient_as_bucket_view it divides gradients that are not None by the world size in place of
    multiplying by its inverse: the same for powers of two alone.)

    The wait is from when this rank has its last bucket of gradients ready to when the bucket has
    been reduced: who is ready last waits least. It is told with lockstep.report(), as
    collective_wait_seconds, when the next step's first bucket is ready; on an NVIDIA GPU also what
    lockstep_gpu tells of it, every few seconds. Nothing else is sent.
    """
    model.register_comm_hook(_Watch(model, hook, state), _on_bucket)


class _Watch:
    def __init__(self, model: Any, hook: Optional[Callable[..., Any]], state: Any) -> None:
        self.hook = hook if hook is not None else _all_reduce
        self.state = state if hook is not None else model
        self._lock = threading.Lock()  # futures are done on a thread of the process group
        self._last: Optional[Callable[[], Optional[float]]] = None
        self._gpu: Any = None
        self._gpu_due = 0.0

    def figures(self, ordinal: int) -> Dict[str, float]:
        """Of this GPU, where they are due and can be had."""
        if time.monotonic() < self._gpu_due:
            return {}
        self._gpu_due = time.monotonic() + _GPU_SECONDS
        try:
            if self._gpu is None:
                import lockstep_gpu

                self._gpu = lockstep_gpu.Gpu(ordinal)
            return self._gpu.figures()
        except (ImportError, OSError, AttributeError):  # another vendor's, or no NVML
            self._gpu_due = float("inf")
            return {}

    def report(self, gpu: Optional[int]) -> None:
        """Tells of the step before. gpu: its ordinal; None: the model is on CPUs."""
        with self._lock:
            last, self._last = self._last, None
        wait = last() if last is not None else None
        if wait is not None:
            figures = {} if gpu is None else self.figures(gpu)
            lockstep.report(collective_wait_seconds=wait, **figures)

    def begin(self, on_gpu: bool) -> Callable[[], None]:
        """The last bucket is ready. What it returns is called when that bucket is reduced."""
        if not on_gpu:
            ready = time.monotonic()

            def done() -> None:
                wait = time.monotonic() - ready
                with self._lock:
                    self._last = lambda: wait

            return done
        # The GPU's own clock: the host is far ahead of it.
        before = torch.cuda.Event(enable_timing=True)
        after = torch.cuda.Event(enable_timing=True)
        before.record()

        def enqueued() -> None:
            after.record()  # on a stream that has waited for the bucket
            with self._lock:
                self._last = lambda: before.elapsed_time(after) / 1e3 if after.query() else None

        return enqueued


def _on_bucket(watched, bucket):  # type: ignore[no-untyped-def]  # DDP looks at annotations
    if bucket.index() == 0:
        watched.report(bucket.buffer().device.index if bucket.buffer().is_cuda else None)
    reduced = watched.begin(bucket.buffer().is_cuda) if bucket.is_last() else None
    future = watched.hook(watched.state, bucket)
    if reduced is None:
        return future

    def on_reduced(done):  # type: ignore[no-untyped-def]
        reduced()
        return done.value()

    return future.then(on_reduced)


def _all_reduce(model: Any, bucket: Any) -> Any:
    """What the reducer does of its own."""
    tensor = bucket.buffer()
    tensor.mul_(1.0 / torch.distributed.get_world_size(model.process_group))
    work = torch.distributed.all_reduce(tensor, group=model.process_group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])
