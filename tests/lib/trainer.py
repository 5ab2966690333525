"""Ranks of lockstep-trainer, started by hand: each with torchrun's environment, and nothing else.

    run = Trainer(tmp_path, world=4, data=[file])
    run.start()
    run.kill(2)
    assert run.wait() == [75, 75, -9, 75]

    losses = train(tmp_path, world=2, data=[file]).losses
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

from ports import free_port
from tls import binary
from waiting import PATIENCE, wait_until


def options(**changes):
    """A model that makes a step in a few milliseconds, with these changes."""
    chosen = {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256, "sequence_length": 32,
              "global_batch_size": 8, "learning_rate": "1e-3", "tensorboard": "none", **changes}
    return [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()]


class Trainer:
    def __init__(self, folder, world=1, arguments=(), data=None, threads=1, model=None, steps=8,
                 command="train", environment=None, preexec=None, environment_of=None):
        self.folder, self.world, self.threads = pathlib.Path(folder), world, threads
        self.folder.mkdir(parents=True, exist_ok=True)
        self.metrics = self.folder / "metrics.jsonl"
        self.command = [binary("lockstep-trainer"), command]
        if command == "train":
            data = data or ["/usr/share/common-licenses/GPL-3"]
            self.command += [*(model or options()), f"--steps={steps}", f"--metrics={self.metrics}",
                             *(f"--data={each}" for each in data)]
        self.command += arguments
        self.environment = environment or {}
        self.environment_of = environment_of or {}  # of single ranks
        self.preexec = preexec
        self.processes = []

    def start(self):
        port = free_port()
        with contextlib.suppress(FileNotFoundError):
            self.metrics.unlink()
        for rank in range(self.world):
            environment = {
                **os.environ, "OMP_NUM_THREADS": str(self.threads), "RANK": str(rank),
                "WORLD_SIZE": str(self.world), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **self.environment,
                **self.environment_of.get(rank, {})}
            with open(self.folder / f"{rank}.out", "wb") as out, \
                    open(self.folder / f"{rank}.err", "wb") as err:
                self.processes.append(subprocess.Popen(
                    self.command, stdout=out, stderr=err, env=environment,
                    preexec_fn=self.preexec))
        return self

    def wait(self, patience=4 * PATIENCE):
        """The ranks' exit codes."""
        wait_until(lambda: all(p.poll() is not None for p in self.processes),
                   lambda: f"{self.command} to end\n{self.errors}", patience)
        return [process.returncode for process in self.processes]

    def wait_step(self, step, patience=2 * PATIENCE):
        wait_until(lambda: self.records and self.records[-1]["step"] >= step,
                   lambda: f"step {step}\n{self.errors}", patience)

    def kill(self, rank, number=signal.SIGKILL):
        self.processes[rank].send_signal(number)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what it said ----

    @property
    def output(self):
        return (self.folder / "0.out").read_text()

    @property
    def errors(self):
        return "\n".join(f"--- rank {rank}\n{(self.folder / f'{rank}.err').read_text()}"
                         for rank in range(self.world))

    @property
    def records(self):
        """A dict a step; a line that is being written is left out."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text().splitlines(keepends=True)
                if line.endswith("\n")]

    @property
    def losses(self):
        return [record["loss"] for record in self.records]

    @property
    def weights(self):
        """The SHA-256 of the final weights."""
        return re.search(r"^weights after step \d+: sha256 ([0-9a-f]{64})$", self.output, re.M)[1]


def newest_step(checkpoints):
    """Of what a run that did not end has left there."""
    names = (re.search(r"step-(\d+)$", each.name) for each in pathlib.Path(checkpoints).rglob("*step-*"))
    return max(int(name[1]) for name in names if name)


def train(folder, *arguments, **options):
    """A run that must end well."""
    with Trainer(folder, arguments=arguments, **options) as run:
        codes = run.start().wait()
        assert codes == [0] * run.world, run.errors
        return run


def fails(folder, *arguments, **options):
    """(exit code, what rank 0 said) of a run that must not."""
    with Trainer(folder, arguments=arguments, **options) as run:
        codes = run.start().wait()
        assert all(codes), codes
        return codes[0], (run.folder / "0.err").read_text()
