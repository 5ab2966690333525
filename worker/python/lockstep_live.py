"""lockstep_torch.Live: DistributedDataParallel whose survivors live on after a rank's death.

docs/guides/live.md tells how to use it, docs/adr/064-pytorch-that-lives-on.md why it is so.
"""

import contextlib
import datetime
import functools
import gc
import inspect
import io
import os
import pickle
import random
import socket
import sys
import time
import traceback as tracebacks
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import lockstep
import torch
import torch.distributed as dist
from lockstep_rejoin import Connections, Ended, RejoinClient, Slots, apply
from torch.nn.parallel import DistributedDataParallel

__all__ = ["Live"]

# How long a rank that has lost a peer waits to hear that its generation has ended, before it ends
# with the error. Nothing comes if only a connection broke.
_PATIENCE = 10.0
_LEFT_ALONE = 75  # exit code: this process lost its peers, and is not to blame
_CHUNK = 25 << 20  # bytes that are broadcast together
_ROOM = 64 << 10  # bytes that a rank's own state may grow by

# Words of the errors that torch raises when a peer is lost: Gloo's, NCCL's and the store's.
_LOSS = ("gloo", "connection", "peer", "nccl", "socket", "store", "timed out", "aborted")


class Live:
    """Trains `module` by DistributedDataParallel, and outlives the death of other ranks.

        live = Live(module, optimizer, scheduler, rehearse=lambda ddp: ddp(example).sum().backward())
        for batch in live.batches(loader):
            with live:
                optimizer.zero_grad()
                criterion(live.ddp(batch.x), batch.y).backward()
                optimizer.step()
                scheduler.step()
        live.close()

    The block is one whole step. When a rank dies, each survivor leaves the block wherever it
    waits, meets the dead rank's successor in a new process group, and makes the step again. The
    successor gets everything from the rank that is furthest. Nothing in the block may communicate
    after the optimizer's step, and nothing outside it may communicate at all.

    module: on its device, not wrapped. Its process group, DDP and buckets are made here.
    optimizer, scheduler: one, or a list. The optimizer holds parameters of `module` alone.
    rehearse: makes one forward and backward pass of the DDP that it gets, on any input of the
      right shape. With it, steps have the same bits as in a run without a death. Without it, the
      first step after a death sums gradients in another order.
    also: further objects with state_dict() and load_state_dict(), by name, such as a GradScaler.
    load: called where no rank has a state; it fills module, optimizer and so on, and returns the
      number of steps that are done. None: the last checkpoint that was made of state().
    backend, timeout: as for init_process_group(). bucket_cap_mb, options: as for DDP.

    Outside Lockstep, or where a process cannot live on, it is DistributedDataParallel.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: Any,
        scheduler: Any = None,
        *,
        rehearse: Optional[Callable[[Any], Any]] = None,
        also: Optional[Dict[str, Any]] = None,
        load: Optional[Callable[[], int]] = None,
        backend: Optional[str] = None,
        timeout: datetime.timedelta = datetime.timedelta(minutes=30),
        bucket_cap_mb: float = 25,
        **options: Any,
    ) -> None:
        if isinstance(module, DistributedDataParallel):
            raise TypeError("Live makes the DistributedDataParallel itself: give it the module")
        if dist.is_initialized():
            raise RuntimeError(
                "Live makes the process group itself: remove init_process_group(), and give Live "
                "its backend and timeout"
            )
        self.module = module
        self.step = 0  # steps done
        self.recovered = 0  # deaths of peers that this process has outlived
        self._optimizers = _list(optimizer)
        self._schedulers = _list(scheduler)
        self._also = dict(also or {})
        self._rehearse, self._load = rehearse, load
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))
        self._backend = backend or ("nccl" if self._device.type == "cuda" else "gloo")
        self._timeout = timeout
        self._options = dict(options, bucket_cap_mb=bucket_cap_mb)
        self._ddp: Optional[DistributedDataParallel] = None
        self._has_state = False  # a newcomer has none
        self._torn = False  # an optimizer has begun its step, and has not ended it
        self._applied = False  # an optimizer has made its step in this block
        self._inside = False
        self._undone = False  # the last block counts for nothing
        self._begun = False  # there was a state once
        # Where this rank is in its data. Batches `index` to `index + flight` are in flight.
        self._epoch, self._index, self._flight = -1, 0, 0
        self._epoch_began = b""  # random state before this epoch's data
        self._before_batch = b""  # likewise before the batch in flight was made
        self._resume: Optional[_Place] = None  # where a newcomer's data begins
        self._own: Optional[Slots] = None
        self._connections = Connections()
        self._client: Optional[RejoinClient] = None
        if os.environ.get("LOCKSTEP_SOCKET") and lockstep.generation():
            # Otherwise NCCL's watchdog ends a process whose group is aborted.
            os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
            self._own = self._open_own()
            self._client = RejoinClient(self._sever)
        for each in self._optimizers:
            self._watch_optimizer(each)
        try:
            self._enter()
        except Exception as error:  # a peer died, before this rank has had a state
            if not self._is_loss(error):
                raise
            _let_go(error)
            self._recover()

    # ---- what a program uses ----

    @property
    def ddp(self) -> DistributedDataParallel:
        """The DistributedDataParallel; another one after each death."""
        assert self._ddp is not None
        return self._ddp

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.ddp(*args, **kwargs)

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs that are not done yet. A newcomer begins with the one at hand."""
        first = self._resume.epoch if self._resume is not None else self._epoch + 1
        for epoch in range(max(first, 0), count):
            self._epoch = epoch - 1
            yield epoch

    def batches(self, loader: Iterable[Any], accumulate: int = 1, exact: bool = True) -> Iterator[Any]:
        """One epoch's batches, one a step. After a death the batch in flight comes again.

        A newcomer passes over what is done. Call it once an epoch, in the same way on every rank.

        accumulate: batches of one step, which come as a list; the last list may be shorter.
        exact: a newcomer's data loader workers make the batches that are passed over, too, so that
          they draw the same random numbers. False: they are not made, which is quicker.
        """
        place = _Place(self._epoch + 1)
        if self._resume is not None:
            if place.epoch < self._resume.epoch:
                self._epoch = place.epoch
                return
            place, self._resume = self._resume, None
        self._epoch, self._index, self._flight = place.epoch, place.index, 0
        now = _random_state(self._device)
        self._epoch_began = place.began or now
        _set_random_state(self._epoch_began, self._device)
        batches = _passed_over(loader, place.index, exact)
        before = place.before
        if place.began and not before:
            _set_random_state(now, self._device)
        while True:
            if before:
                _set_random_state(before, self._device)
            # Workers have random numbers of their own.
            self._before_batch = (
                _random_state(self._device) if getattr(loader, "num_workers", 0) == 0 else b""
            )
            batch = _take(batches, accumulate)
            if before:
                _set_random_state(now, self._device)
                before = b""
            if batch is None:
                self._before_batch = b""
                return
            self._flight = len(batch)
            while True:
                self._undone = False
                step = self.step
                yield batch if accumulate > 1 else batch[0]
                # Undone and yet another step: the others had finished it.
                if not self._undone or self.step != step:
                    break
            self._undone = False
            self._index, self._flight = self._index + len(batch), 0

    def state(self) -> Dict[str, Any]:
        """For lockstep_torch.save(live.state(), live.step), between two blocks."""
        return {
            "live": 1,
            "step": self.step,
            "epoch": self._epoch,
            "index": self._index + self._flight,
            "module": self.module.state_dict(),
            "optimizers": [each.state_dict() for each in self._optimizers],
            "schedulers": [each.state_dict() for each in self._schedulers],
            "also": {name: each.state_dict() for name, each in self._also.items()},
        }

    def load_state(self, state: Dict[str, Any]) -> None:
        """Takes what state() gave. Random numbers go on as the program has seeded them."""
        if not isinstance(state, dict) or state.get("live") != 1:
            raise ValueError("this is not a state of Live.state(): give Live(load=...) a function")
        for kind, mine in (("optimizers", self._optimizers), ("schedulers", self._schedulers)):
            if len(state[kind]) != len(mine):
                raise ValueError(f"the state has {len(state[kind])} {kind}, Live has {len(mine)}")
        self.module.load_state_dict(state["module"])
        for each, its in zip(self._optimizers, state["optimizers"]):
            each.load_state_dict(its)
        for each, its in zip(self._schedulers, state["schedulers"]):
            each.load_state_dict(its)
        for name, each in self._also.items():
            each.load_state_dict(state["also"][name])
        self.step = state["step"]
        if state["epoch"] >= 0:
            self._resume = _Place(state["epoch"], state["index"])

    def close(self) -> None:
        """Call it after the last step: waits until every rank has made it, and ends the group.

        A rank that dies before costs no step. From here on this process does not live on.
        """
        while True:
            self._undone = False
            with self._block():
                dist.barrier()
            if not self._undone:
                break
        if self._client is not None:
            self._client.close()
            self._client = None
        dist.destroy_process_group()

    # ---- the block ----

    def __enter__(self) -> "Live":
        self._applied = False
        self._save_own(self.step)
        if self._client is not None and self._client.ended.is_set():
            self._recover()
        self._inside = True
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self._inside = False
        if kind is None:
            self.step += 1
            lockstep.report(step=self.step)
            return False
        return self._outlive(error)

    @contextlib.contextmanager
    def _block(self) -> Iterator[None]:
        """A block that makes no step."""
        self._applied = False
        self._save_own(self.step)
        try:
            if self._client is not None and self._client.ended.is_set():
                raise Ended("the generation has ended")
            yield
        except Exception as error:
            if not self._outlive(error):
                raise

    def _outlive(self, error: BaseException) -> bool:
        """Whether the error is a peer's death, which this process has outlived."""
        if not isinstance(error, Exception) or not self._is_loss(error):
            return False
        if self._applied:
            self._has_state = False  # the step's rest is missing: the scheduler's step, say
        _let_go(error)
        self._recover()
        self._undone = True
        return True

    def _is_loss(self, error: Exception) -> bool:
        """Whether the generation has ended. Waits for the agent's word if it reads like that."""
        if self._client is None or self._client.refused is not None or isinstance(error, _StateLost):
            return False
        if self._client.ended.is_set():
            return True
        return _lost_a_peer(error) and self._client.ended.wait(_PATIENCE)

    def _watch_optimizer(self, optimizer: Any) -> None:
        if hasattr(optimizer, "register_step_pre_hook"):
            optimizer.register_step_pre_hook(self._before_optimizer)
            optimizer.register_step_post_hook(self._after_optimizer)
            return
        step = optimizer.step  # torch 1

        @functools.wraps(step)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._before_optimizer()
            result = step(*args, **kwargs)
            self._after_optimizer()
            return result

        optimizer.step = watched

    def _before_optimizer(self, *_: Any) -> None:
        if self._backend == "nccl":
            # The sums of an aborted kernel are garbage, and no error says so.
            torch.cuda.current_stream().synchronize()
            if self._client is not None and self._client.ended.is_set():
                raise Ended("the generation has ended")
        self._torn = True

    def _after_optimizer(self, *_: Any) -> None:
        self._torn, self._applied = False, True

    def _after_forward(self, *_: Any) -> None:
        # The next step begins with this, should this rank die before it can say so itself.
        if self._inside:
            self._save_own(self.step + 1, after=True)

    # ---- from one generation to the next ----

    def _sever(self) -> None:
        """Called by the client's thread."""
        abort = getattr(dist.distributed_c10d, "_abort_process_group", None)
        if self._backend == "nccl" and abort is not None and dist.is_initialized():
            with contextlib.suppress(Exception):
                abort()
        self._connections.sever()

    def _recover(self) -> None:
        began = time.monotonic()
        while True:
            try:
                self._leave()
                self._enter()
                break
            except Exception as error:  # another death in the midst of it
                if not self._is_loss(error):
                    raise
                _let_go(error)
        self.recovered += 1
        print(
            f"lockstep_live: rank {os.environ['RANK']} stays alive in generation "
            f"{lockstep.generation()} at step {self.step}, "
            f"{(time.monotonic() - began) * 1e3:.0f} ms after it was severed",
            flush=True,  # and not to stderr, which is asked why a rank ended
        )

    def _leave(self) -> None:
        assert self._client is not None
        if dist.is_initialized():
            dist.destroy_process_group()
        self._drop_ddp()
        for parameter in self.module.parameters():
            parameter.grad = None
        environment = self._client.leave()
        if environment is None:
            print(
                f"lockstep_live: rank {os.environ['RANK']} has left a generation that none "
                "follows",
                file=sys.stderr,
                flush=True,
            )
            sys.stdout.flush()
            os._exit(_LEFT_ALONE)
        apply(environment)
        self._connections.forget()
        self._client.rejoin()

    def _enter(self) -> None:
        self._connections.opening()
        if "RANK" not in os.environ:  # python train.py
            self._init_alone()
        else:
            self._await_store()
            dist.init_process_group(self._backend, timeout=self._timeout)
        self._connections.opened()
        furthest = self._take_furthest()
        self._build()  # which gives every rank the buffers of rank 0
        if self._rehearse is not None:
            self._rehearse_twice()
        if furthest is not None:
            self._load_own(self.step)

    def _await_store(self) -> None:
        """torch asks a store that is not up yet again only after up to a second."""
        if os.environ["RANK"] == "0" or "MASTER_PORT" not in os.environ:
            return
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        end = time.monotonic() + self._timeout.total_seconds()
        while time.monotonic() < end:
            if self._client is not None and self._client.ended.is_set():
                raise Ended("the generation ended before its store was up")
            try:
                socket.create_connection(address, timeout=1).close()
                return
            except OSError:
                time.sleep(0.003)

    # ---- the DistributedDataParallel ----

    def _init_alone(self) -> None:
        dist.init_process_group(self._backend, store=dist.HashStore(), rank=0, world_size=1)

    # All ranks build a new one. A DDP orders its buckets anew after its first backward pass, by the
    # order in which gradients come. A survivor's buckets would not be a newcomer's: the process
    # aborts if their sizes differ, and sums wrong gradients if they do not.
    def _build(self) -> None:
        if self._device.type == "cuda":
            self._options.setdefault("device_ids", [self._device])
        self._ddp = DistributedDataParallel(self.module, **self._options)
        self._ddp.register_forward_hook(_eager(self._after_forward))

    def _rehearse_twice(self) -> None:
        """Makes two passes, of which nothing but the order of the buckets remains."""
        assert self._ddp is not None and self._rehearse is not None
        random_state = _random_state(self._device)
        buffers = [buffer.clone() for buffer in self.module.buffers()]
        for _ in range(2):  # the second forward pass orders the buckets
            self._rehearse(self._ddp)
        with torch.no_grad():
            for buffer, value in zip(self.module.buffers(), buffers):
                buffer.copy_(value)
        _set_random_state(random_state, self._device)
        for parameter in self.module.parameters():
            parameter.grad = None

    def _drop_ddp(self) -> None:
        if self._ddp is None:
            return
        reducer, self._ddp, old = self._ddp.reducer, None, weakref.ref(self._ddp)
        if hasattr(reducer, "_remove_autograd_hooks"):
            reducer._remove_autograd_hooks()
            if (kept := old()) is not None:
                kept.forward = _refuse  # it would no longer exchange gradients
            return
        del reducer
        gc.collect()
        if old() is not None:
            raise RuntimeError(
                f"torch {torch.__version__} frees a DistributedDataParallel only if the program "
                "keeps no reference to it: use live(x) and live.ddp, and store neither"
            )

    # ---- the state ----

    def _take_furthest(self) -> Optional[int]:
        """All ranks go on with the state of the one that is furthest; None: none has any."""
        mine = self.step if self._has_state and not self._torn else -1
        own = torch.tensor([mine], dtype=torch.int64, device=self._device)
        steps = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(steps, own)
        said = [int(each) for each in steps]
        furthest = max(said)
        if furthest < 0:
            self._begin()
            self._has_state = self._begun = True
            return None
        if min(said) != furthest:
            self._copy(said.index(furthest), mine == furthest)
        self.step = furthest
        self._load_own(furthest, data=not self._begun)
        self._has_state = self._begun = True
        self._torn = False
        for scaler in self._also.values():
            # Of a step that was not finished: a GradScaler takes unscale_() once a step.
            getattr(scaler, "_per_optimizer_states", {}).clear()
        return furthest

    def _begin(self) -> None:
        """No rank has a state: the last checkpoint's, or the program's own of rank 0."""
        if self._begun:
            raise _StateLost("no survivor holds a whole state: all ranks must start anew")
        if self._load is not None:
            self.step = int(self._load() or 0)
        elif os.environ.get("LOCKSTEP_SOCKET"):
            import lockstep_torch

            # Schedules and the like may hold more than torch.load() takes by default.
            known = "weights_only" in inspect.signature(torch.load).parameters
            options = {"weights_only": False} if known else {}
            state = lockstep_torch.load(map_location="cpu", **options)
            if state is not None:
                self.load_state(state)
        with torch.no_grad():
            tensors = [p.detach() for p in self.module.parameters()]
            tensors += [b.detach() for b in self.module.buffers()]
            _broadcast(tensors, 0, self._device)

    def _copy(self, root: int, has: bool) -> None:
        """The state of `root`, whole or not at all, to those that do not have it."""
        blob, mine = _flatten(
            {
                "module": {name: value.detach() for name, value in self._tensors()},
                "optimizers": [each.state_dict() for each in self._optimizers],
                "schedulers": [each.state_dict() for each in self._schedulers],
                "also": {name: each.state_dict() for name, each in self._also.items()},
                "data": (self._epoch, self._index),
            }
        )
        told = [blob, [(tuple(t.shape), t.dtype, t.device.type) for t in mine]]
        dist.broadcast_object_list(told, src=root)
        if not has:
            mine = [
                torch.empty(shape, dtype=dtype, device="cpu" if kind == "cpu" else self._device)
                for shape, dtype, kind in told[1]
            ]
        _broadcast(mine, root, self._device)
        if has:
            return
        theirs = _Unpickler(told[0], mine).load()
        with torch.no_grad():
            for name, value in self._tensors():
                value.copy_(theirs["module"][name])
        for each, its in zip(self._optimizers, theirs["optimizers"]):
            each.load_state_dict(its)
        for each, its in zip(self._schedulers, theirs["schedulers"]):
            each.load_state_dict(its)
        for name, each in self._also.items():
            each.load_state_dict(theirs["also"][name])
        if not self._begun and theirs["data"][0] >= 0:
            self._resume = _Place(*theirs["data"])

    def _tensors(self) -> List[Tuple[str, torch.Tensor]]:
        return [*self.module.named_parameters(), *self.module.named_buffers()]

    # ---- the rank's own state: random numbers, buffers, and where it is in its data ----

    def _open_own(self) -> Optional[Slots]:
        folder = os.environ.get("LOCKSTEP_LOCAL_DIR")
        if not folder:
            return None
        path = os.path.join(folder, f"live-{os.environ['RANK']}")
        return Slots(path, len(self._pack_own(False)) + _ROOM)

    def _pack_own(self, after: bool) -> bytes:
        buffers = [_bytes(buffer) for buffer in self.module.buffers()]
        index, before = self._index, self._before_batch
        if after:  # the batch in flight is used up
            index, before = index + self._flight, b""
        place = (self._epoch, index, self._epoch_began, before)
        return pickle.dumps((_random_state(self._device), place, buffers), protocol=4)

    def _save_own(self, step: int, after: bool = False) -> None:
        if self._own is not None and not self._own.write(step, self._pack_own(after)):
            print("lockstep_live: a rank's own state has grown too large", file=sys.stderr)
            self._own = None

    def _load_own(self, step: int, data: bool = False) -> None:
        state = self._own.read(step) if self._own is not None else None
        if state is None:
            print(
                f"lockstep_live: rank {os.environ['RANK']} has no random numbers of step {step} "
                "to continue with, and uses others",
                file=sys.stderr,
            )
            return
        random_state, place, buffers = pickle.loads(state)
        _set_random_state(random_state, self._device)
        with torch.no_grad():
            for buffer, value in zip(self.module.buffers(), buffers):
                buffer.copy_(_tensor(value, buffer))
        if data and place[0] >= 0:
            self._resume = _Place(*place)


class _Place(NamedTuple):
    """Where a rank is in its data."""

    epoch: int
    index: int = 0  # of the next batch
    began: bytes = b""  # random state before the epoch's data; empty: not known
    before: bytes = b""  # likewise before the next batch; empty: the rank's own, as it is


class _StateLost(RuntimeError):
    pass


def _list(objects: Any) -> List[Any]:
    if objects is None:
        return []
    return list(objects) if isinstance(objects, (list, tuple)) else [objects]


def _lost_a_peer(error: Optional[BaseException]) -> bool:
    """Whether it reads like the loss of a peer; the agent says whether it is one."""
    while error is not None:
        text = str(error).lower()
        if isinstance(error, (RuntimeError, OSError)) and any(word in text for word in _LOSS):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refuse(*_: Any, **__: Any) -> None:
    raise TypeError("this DistributedDataParallel ended with its group: use live.ddp or live(x)")


def _let_go(error: Optional[BaseException]) -> None:
    """Frees what the frames of an error hold: the old group's connections and threads, and GBs."""
    while error is not None:
        tracebacks.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile leaves it as it is."""
    disable = getattr(getattr(torch, "compiler", None), "disable", None)
    return disable(function) if disable is not None else function


# ---- data ----


def _take(batches: Iterator[Any], count: int) -> Optional[List[Any]]:
    taken = []
    for batch in batches:
        taken.append(batch)
        if len(taken) == count:
            break
    return taken or None


class _Later:
    """A sampler without its first items, once; later epochs have them all."""

    def __init__(self, sampler: Any, count: int) -> None:
        self.sampler, self.count = sampler, count

    def __iter__(self) -> Iterator[Any]:
        self._items: Optional[Iterator[Any]] = None
        return self._rest()

    def _rest(self) -> Iterator[Any]:
        self.pass_over()
        assert self._items is not None
        yield from self._items

    # A sampler draws its order when it is first asked, and a loader draws a number before that.
    def pass_over(self) -> None:
        if self._items is not None:
            return
        self._items = iter(self.sampler)
        for _ in range(self.count):
            next(self._items, None)
        self.count = 0

    def __len__(self) -> int:
        return len(self.sampler)


def _passed_over(loader: Iterable[Any], done: int, exact: bool) -> Iterator[Any]:
    """The loader's batches, less those that are done."""
    quick = (
        done > 0
        and type(loader) is torch.utils.data.DataLoader
        and loader.batch_sampler is not None
        and (loader.num_workers == 0 or not exact)
    )
    if not quick:
        batches = iter(loader)
        for _ in range(done):
            next(batches, None)
        return batches
    sampler = loader.batch_sampler
    later = _Later(sampler, done)
    loader.__dict__["batch_sampler"] = later  # a plain assignment is refused
    try:
        batches = iter(loader)
        later.pass_over()
    finally:
        loader.__dict__["batch_sampler"] = sampler
    return batches


# ---- random numbers ----


def _random_state(device: torch.device) -> bytes:
    state: List[Any] = [torch.get_rng_state().numpy().tobytes(), random.getstate(), None, None]
    if "numpy" in sys.modules:
        state[2] = sys.modules["numpy"].random.get_state()
    if device.type == "cuda":
        state[3] = torch.cuda.get_rng_state(device).numpy().tobytes()
    return pickle.dumps(state, protocol=4)


def _set_random_state(data: bytes, device: torch.device) -> None:
    cpu, python, numpy, cuda = pickle.loads(data)
    torch.set_rng_state(torch.frombuffer(bytearray(cpu), dtype=torch.uint8))
    random.setstate(python)
    if numpy is not None:
        import numpy as np

        np.random.set_state(numpy)
    if cuda is not None:
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(cuda), dtype=torch.uint8), device)


# ---- tensors ----


def _bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().cpu().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _tensor(data: bytes, like: torch.Tensor) -> torch.Tensor:
    if not data:
        return torch.empty_like(like, device="cpu")
    return torch.frombuffer(bytearray(data), dtype=like.dtype).view(like.shape)


class _Pickler(pickle.Pickler):
    """Takes tensors out of what it writes."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, protocol=4)
        self.tensors: List[torch.Tensor] = []

    def persistent_id(self, value: Any) -> Optional[int]:
        if not isinstance(value, torch.Tensor):
            return None
        self.tensors.append(value.detach())
        return len(self.tensors) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__(io.BytesIO(data))
        self._tensors = tensors

    def persistent_load(self, index: Any) -> torch.Tensor:
        return self._tensors[index]


def _flatten(state: Any) -> Tuple[bytes, List[torch.Tensor]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(state)
    return file.getvalue(), pickler.tensors


def _broadcast(tensors: Sequence[torch.Tensor], root: int, device: torch.device) -> None:
    """Into these tensors. NCCL carries none that is on the CPU."""
    if not tensors:
        return
    here = [tensor.contiguous().to(device) for tensor in tensors]
    dist._broadcast_coalesced(dist.group.WORLD, here, _CHUNK, root)
    with torch.no_grad():
        for tensor, carried in zip(tensors, here):
            if carried is not tensor:
                tensor.copy_(carried)
