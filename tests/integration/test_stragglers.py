"""The machine that the others wait for: found, named and replaced."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from ports import free_port
from run import ROOT, Run, ranks
from trainer_jobs import job
from waiting import wait_until

LAST = "is the last to come to the gang's collectives"


class Output:
    """What a run prints, as it comes."""

    def __init__(self, run):
        self.text = ""
        self._thread = threading.Thread(target=self._read, args=(run.process.stdout,))
        self._thread.start()

    def _read(self, stream):
        for line in stream:
            self.text += line

    def join(self):
        self._thread.join()


class Slow:
    """A process that stands still for most of its time, as under a neighbour that takes its core."""

    def __init__(self, pid):
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self._over.is_set():
                os.kill(self._pid, signal.SIGSTOP)
                self._over.wait(0.12)
                os.kill(self._pid, signal.SIGCONT)
                time.sleep(0.04)
        except ProcessLookupError:
            pass

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def start(folder, policy):
    file = pathlib.Path(job(folder, machines=4, processes=1, steps=1_000_000, checkpointEvery=20))
    document = json.loads(file.read_text())
    document["spec"]["failurePolicy"] = {"stragglers": policy}
    file.write_text(json.dumps(document))
    run = Run(folder, str(file))
    output = Output(run)
    wait_until(lambda: list(folder.glob("checkpoints/checkpoints/*/0*.*")), "a checkpoint", 90)
    return run, output


def stop(run, output):
    run.process.send_signal(signal.SIGINT)
    run.process.wait(60)
    output.join()


def test_the_machine_that_is_slowed_is_named_and_replaced_at_a_checkpoint(tmp_path):
    run, output = start(tmp_path, "Replace")
    with Slow(ranks(run.mark)[2][0]):
        wait_until(lambda: LAST in output.text, "the straggler", 90)
        assert f"machine 2 {LAST}" in output.text
        wait_until(lambda: "machine 2: failurePolicy asks for another machine" in output.text,
                   "its replacement", 60)
    wait_until(lambda: output.text.count("ranks running") >= 2, "the next generation", 60)
    stop(run, output)
    assert output.text.count(LAST) == 1, output.text
    assert output.text.count("asks for another machine") == 1, output.text


def test_a_healthy_gang_on_a_busy_computer_has_none(tmp_path):
    run, output = start(tmp_path, "Replace")
    time.sleep(20)
    stop(run, output)
    assert LAST not in output.text


WATCHED = """
import sys, time, torch, torch.distributed as dist, lockstep, lockstep_torch
dist.init_process_group("gloo")
torch.manual_seed(0)
module = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
model = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=0.03)
said = []
lockstep.report = lambda **values: said.append(values["collective_wait_seconds"])
if sys.argv[1] == "watched":
    lockstep_torch.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.Generator().manual_seed(dist.get_rank())
for step in range(12):
    x = torch.randn(8, 64, generator=inputs)
    time.sleep(0.05 if dist.get_rank() == 1 else 0)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
print(" ".join(p.detach().double().sum().item().hex() for p in module.parameters()))
print(sorted(said)[len(said) // 2] if said else 0)
"""


def train(how, port):
    """(weights, median wait) of each of three ranks."""
    environment = {**os.environ, "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                   "PYTHONPATH": str(ROOT / "worker/python"), "PYTHONDONTWRITEBYTECODE": "1"}
    trained = [subprocess.Popen([sys.executable, "-c", WATCHED, how], text=True,
                                env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE)
               for rank in range(3)]
    said = [process.communicate(timeout=120)[0].splitlines() for process in trained]
    return [lines[0] for lines in said], [float(lines[1]) for lines in said]


@pytest.mark.slow
def test_a_watched_model_tells_who_comes_last_and_has_the_same_weights():
    pytest.importorskip("torch")
    plain, _ = train("plain", free_port())
    watched, waits = train("watched", free_port())
    assert watched == plain
    assert waits[0] > waits[1] + 0.02 and waits[2] > waits[1] + 0.02, waits
