"""A PyTorch rank is killed under several launchers: the parts of the time until all ranks step again.

The program is programs/live.py, each launcher has its defaults but for what is said here, and they
take turns, a job a sample. All stamps are the ranks' own, as in _live.py.

    torchrun  one torchrun for all ranks, c10d, --monitor_interval=0.1
    torchrun-machines  one a machine; not among the default modes
    JobSet    a pod a machine, which runs torchrun without restarts of its own; maxRestarts makes all
              pods anew. The API server, the controllers and JobSet are real; instead of kubelets
              this script starts a pod's process as soon as it sees the pod (_pods.py). So neither
              scheduler, sandbox nor image are in it: a real cluster takes longer
    torchft   a replica group a rank, each under a torchrun with --monitor_interval=0.1; Gloo, and the
              lighthouse as torchft's README starts it
    fresh, parked, lives-on   Lockstep: all ranks anew, all ranks from parked interpreters, and
              lockstep_torch.Live

`detect` and `stop` of torchrun and JobSet are seen in /proc: the first and the last of the other ranks
that ends. torchft has neither: other ranks drop the step in flight and go on without the dead
one. `pause` is how long the longest of them made no step.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import _programs as programs
from _bench import emit, now, spread
from _live import PROGRAM, Job, Lockstep, in_parts, medians, whole
from ports import free_port

MODES = ("torchrun", "jobset", "torchft", "fresh", "parked", "lives-on")
TORCHFT = programs.TORCH_2.with_name("torchft-venv") / "bin/python"
BEFORE = 5  # steps that a job makes before its kill


class Ends(threading.Thread):
    """When processes end."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.at = {}
        self._open = {pid: os.pidfd_open(pid) for pid in pids}
        self.start()

    def run(self):
        import select
        poll = select.poll()
        names = {fd: pid for pid, fd in self._open.items()}
        for fd in names:
            poll.register(fd, select.POLLIN)
        while names:
            for fd, _ in poll.poll():
                self.at[names.pop(fd)] = now()
                poll.unregister(fd)
                os.close(fd)


class Peer(Job):
    """Whose processes are all of one session, or are found by their mark."""

    def ready(self):
        return min(self.steps_made().values(), default=0) >= BEFORE

    def steps_made(self):
        found = {}
        for stamp in self.stamps():
            if stamp.event == "step":
                found[stamp.rank] = found.get(stamp.rank, 0) + 1
        return found

    def first(self, event, after):
        """`after` >= 0: since the kill, of each rank's last process. torchrun counts no restart of
        ranks that it ends because those of another machine have ended."""
        stamps, begun = self.stamps(), {}
        if after < 0:
            return super().first(event, after)
        for stamp in stamps:
            if stamp.event == "start" and stamp.ns > self.killed:
                begun[stamp.rank] = stamp.ns
        found = {}
        for stamp in stamps:
            if stamp.event == event and stamp.ns >= begun.get(stamp.rank, 2**63):
                found.setdefault(stamp.rank, stamp.ns)
        return found

    def about_to_kill(self, ranks, rank):
        self.killed = now()
        self.ends = Ends([pid for each, pid in ranks.items() if each != rank])

    def end(self):
        import processes
        while True:
            pids = [pid for pid in processes.with_variable("BENCH_MARK", str(self.folder))
                    if processes.state(pid) != "Z"]
            if not pids:
                break
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        self.process.wait(60)

    def seen(self, kill):
        """As Lockstep's report: seconds until the first, and from there to the last end."""
        others = sorted(at for at in self.ends.at.values() if at >= kill.killed)
        return {"detect": (others[0] - kill.killed) / 1e9, "stop": (others[-1] - others[0]) / 1e9}


class Torchrun(Peer):
    def __init__(self, folder, python, shape, machines):
        port = free_port()
        one = " ".join(str(word) for word in [
            python, "-m", "torch.distributed.run", f"--nnodes={machines}",
            f"--nproc_per_node={shape.world // machines}", "--rdzv_backend=c10d", "--rdzv_id=bench",
            f"--rdzv_endpoint=127.0.0.1:{port}", "--monitor_interval=0.1", "--max_restarts=3", PROGRAM])
        super().__init__(folder, shape, ["sh", "-c", f"{one} & " * machines + "wait"])


class TorchFT(Peer):
    def __init__(self, folder, python, shape):
        light = free_port()
        start = (f"{python.parent}/torchft_lighthouse --bind [::]:{light}"
                 " --min_replicas 1 --quorum_tick_ms 100 --join_timeout_ms 10000 & ")
        for rank in range(shape.world):
            start += (f"BENCH_RANK={rank} {python} -m torch.distributed.run --nnodes=1 --nproc_per_node=1 "
                      f"--master_port={free_port()} --monitor_interval=0.1 --max_restarts=3 {PROGRAM} & ")
        super().__init__(folder, shape, ["sh", "-c", start + "wait"], BENCH_LIVE="torchft",
                         BENCH_WORLD=shape.world, TORCHFT_LIGHTHOUSE=f"http://localhost:{light}")

    def all_stepped(self, after):
        """`after` < 0: all are together; else whether they are together again since the kill."""
        since = self.killed if after >= 0 else 0
        return len(self.together(since)) == self.shape.world

    def first_since(self, event, since):
        found = {}
        for stamp in self.stamps():
            if stamp.event == event and stamp.ns > since:
                found.setdefault(stamp.rank, stamp.ns)
        return found

    def together(self, since):
        """When each rank first made a step with all others, once all that died are back."""
        if since:
            joined = self.first_since("joined", since)
            if not joined or set(joined) != set(self.first_since("start", since)):
                return {}
            since = max(joined.values())
        return self.first_since("together", since)

    def marks(self, kill):
        """Of all ranks that began anew: others sometimes die of the first death. If all do, nobody
        loads a state."""
        marks = {part: max(self.first_since(event, kill.killed).values(), default=0) for part, event in (
            ("spawn", "start"), ("imports", "imported"), ("join", "joined"), ("load", "loaded"))}
        return {**marks, "step": max(self.together(kill.killed).values())}

    def begun_anew(self, kill):
        return len(self.first_since("start", kill.killed))

    def seen(self, kill):
        return {}

    def pause(self, kill):
        """ms in which a survivor made no step."""
        longest = 0
        for rank in range(self.shape.world):
            if rank not in self.first_since("start", kill.killed):
                at = [s.ns for s in self.stamps() if s.event == "step" and s.rank == rank]
                longest = max(longest, *(b - a for a, b in zip(at, at[1:]) if b > kill.killed))
        return longest / 1e6


class Ours(Lockstep):
    def ready(self):
        steps = max((s.step for s in self.stamps()), default=0)
        return steps >= BEFORE and super().ready()


def job_of(mode, folder, options, shape, cluster):
    python = options.torch
    if mode.startswith("torchrun"):
        return Torchrun(folder, python, shape, shape.machines if mode == "torchrun-machines" else 1)
    if mode == "torchft":
        return TorchFT(folder, options.torchft, shape)
    if mode == "jobset":
        import _pods
        return _pods.JobSetJob(folder, python, shape, cluster)
    return Ours(folder, python, shape, mode == "lives-on", "Never" if mode == "fresh" else "Always")


def one(mode, folder, options, shape, cluster):
    """(ms, parts, more) of one job with one kill; None if something else happened."""
    job = job_of(mode, folder, options, shape, cluster)
    try:
        try:
            kill = job.kill()
        except TimeoutError:
            kill = None
        if kill is None:
            print(f"{mode}: the job did not recover:\n{job.log()[-2000:]}", file=sys.stderr, flush=True)
            return None
        marks = job.marks(kill)
        more = {}
        if mode == "torchft":
            more = {"pause": job.pause(kill), "begunAnew": job.begun_anew(kill)}
    finally:
        job.end()
    respawn = job.seen(kill) if isinstance(job, Peer) else job.respawns().get(kill.before, {})
    return whole(marks, kill), in_parts(marks, kill, respawn), more, kill.load


def compare(options, shape):
    modes = [mode for mode in options.modes if works(mode, options)]
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        folder = Path(name)
        cluster = None
        if "jobset" in modes:
            import _pods
            cluster = _pods.Control(folder / "control")
        found = {mode: [] for mode in modes}
        try:
            for sample in range(options.compare_samples):
                for mode in modes:
                    if result := one(mode, folder / f"{mode}-{sample}", options, shape, cluster):
                        found[mode].append(result)
                        ms, parts, _, load = result
                        emit("restart", "compareOne", mode=mode, unit="ms", whole=round(ms, 1), **parts,
                             **result[2], loadThen=load)
        finally:  # also when it is stopped before its time
            for mode, results in found.items():
                summary(mode, results, options, shape)
            if cluster:
                cluster.down()


def summary(mode, results, options, shape):
    if not results:
        emit("restart", "compare", mode=mode, shape=str(shape), samples=0)
        return
    pauses = [more["pause"] for _, _, more, _ in results if "pause" in more]
    emit("restart", "compare", mode=mode, shape=str(shape), unit="ms",
         **spread([ms for ms, *_ in results]), parts=medians([parts for _, parts, *_ in results]),
         **({"survivorsPause": spread(pauses)} if pauses else {}),
         versions=programs.versions(
             options.torchft if mode == "torchft" else options.torch,
             *(["torch", "torchft"] if mode == "torchft" else ["torch"])),
         loads=[min(r[3] for r in results), max(r[3] for r in results)])


def works(mode, options):
    if mode == "torchft" and not programs.versions(options.torchft, "torch", "torchft"):
        emit("restart", "compare", mode=mode, skipped=f"{options.torchft} has no torchft")
        return False
    return True
