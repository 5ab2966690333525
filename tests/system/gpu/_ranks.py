"""Programs that tests/system/gpu/run starts, one a rank: none outlives its step, and none waits for ever."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[3] / folder)
               for folder in ("tests/lib", "tools/lib/cluster")]
import processes  # noqa: E402, F401 (run takes it from here)
from ports import free_port  # noqa: E402

ONE_MACHINE = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}


class Rank:
    """One process, whose lines are read from a thread of their own."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(
            [str(word) for word in command], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)  # the end
            self.changed.notify_all()

    def hear(self, word, end, first=0):
        """The number of the first line from `first` on that has `word`; None if none comes."""
        with self.changed:
            while True:
                for number, line in enumerate(self.lines[first:], first):
                    if line is None:
                        return None
                    if word in line:
                        return number
                if not self.changed.wait(max(0, end - time.monotonic())):
                    return None

    def finish(self, end):
        """Its exit code; it is killed where it is not through by then."""
        try:
            self.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.lines.append("killed by tests/system/gpu/run: its time was over")
            self.process.kill()
        self.process.wait()
        self.reader.join()
        return self.process.returncode

    def text(self):
        return "\n".join(line for line in self.lines if line is not None)


class Ranks(list):
    """The ranks of a world; `extra`: variables, in which {rank} stands for the rank."""

    def __init__(self, command, world=1, one_gpu=True, extra=None, ranks=None, port=None,
                 generation=1):
        super().__init__()
        port = port or free_port()
        for rank in range(world) if ranks is None else ranks:
            env = {**os.environ, **ONE_MACHINE, "RANK": str(rank), "WORLD_SIZE": str(world),
                   "LOCAL_RANK": "0" if one_gpu else str(rank), "LOCAL_WORLD_SIZE": str(world),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                   "LOCKSTEP_JOB_UID": "gpu-check", "LOCKSTEP_GENERATION": str(generation)}
            env.update({name: value.format(rank=rank) for name, value in (extra or {}).items()})
            self.append(Rank(command, env))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self:
            if rank.process.poll() is None:
                rank.process.send_signal(signal.SIGCONT)
                rank.process.kill()
            rank.finish(time.monotonic() + 5)

    def finish(self, end):
        return [rank.finish(end) for rank in self]

    def text(self):
        return "\n".join(rank.text() for rank in self)
