"""Lockstep for programs that use PyTorch.

    model = DistributedDataParallel(module)
    lockstep_torch.watch(model)

watch() reports how long this rank waits for the others in each backward pass. Lockstep finds the
machine for which the rest of the gang waits from that: condition Straggler, and what
spec.failurePolicy.stragglers says of it.
"""

import threading
import time
from typing import Any, Callable, Optional

import lockstep

try:
    import torch
    import torch.distributed
except ImportError as error:
    raise ImportError(
        "lockstep_torch is for programs that use PyTorch; it needs the package torch. Other "
        "programs import lockstep instead."
    ) from error

__all__ = ["watch"]


def watch(model: Any, hook: Optional[Callable[..., Any]] = None, state: Any = None) -> None:
    """Reports from now on how long this rank waits for each step's last all-reduce.

    model: a DistributedDataParallel that has no communication hook and is not used with join().
    hook, state: its communication hook, as for `model.register_comm_hook(state, hook)`; None: the
    all-reduce that DistributedDataParallel does by itself, to the same bits. (With
    gradient_as_bucket_view it divides gradients that are not None by the world size in place of
    multiplying by its inverse: the same for powers of two alone.)

    The wait is from when this rank has its last bucket of gradients ready to when the bucket has
    been reduced: who is ready last waits least. It is told with lockstep.report(), as
    collective_wait_seconds, when the next step's first bucket is ready; nothing else is sent.
    """
    model.register_comm_hook(_Watch(model, hook, state), _on_bucket)


class _Watch:
    def __init__(self, model: Any, hook: Optional[Callable[..., Any]], state: Any) -> None:
        self.hook = hook if hook is not None else _all_reduce
        self.state = state if hook is not None else model
        self._lock = threading.Lock()  # futures are done on a thread of the process group
        self._last: Optional[Callable[[], Optional[float]]] = None

    def report(self) -> None:
        """Tells of the step before."""
        with self._lock:
            last, self._last = self._last, None
        wait = last() if last is not None else None
        if wait is not None:
            lockstep.report(collective_wait_seconds=wait)

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
        watched.report()
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
