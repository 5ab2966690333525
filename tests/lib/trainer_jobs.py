"""Jobs of the built-in trainer, for tests."""

import functools
import json
import pathlib
import re
import tempfile

from run import Run
from waiting import wait_until

STEPS = 600  # far more than are done before a test's last signal, at some milliseconds each


def job(folder, machines=2, processes=2, steps=40, env=(), checkpoint=None, **trainer):
    """A job file with a model that makes a step in milliseconds.

    checkpoint: as the job has it; None: in folder/checkpoints.
    """
    file = folder / "job.yaml"
    text = {"modelShape": {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256},
            "data": ["/usr/share/common-licenses/GPL-3"], "steps": steps, "globalBatchSize": 8,
            "sequenceLength": 32, "learningRate": 1e-3, "checkpointEvery": 5, **trainer}
    file.write_text(json.dumps({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "gpt"},
        "spec": {"numMachines": machines, "processesPerMachine": processes, "trainer": text,
                 "env": [{"name": name, "value": value} for name, value in dict(env).items()],
                 "checkpoint": checkpoint or {"path": str(folder / "checkpoints")}}}))
    return str(file)


def weights(output):
    """At the end: a gang that is stopped on request says them, too."""
    return re.findall(r"weights after step \d+: sha256 ([0-9a-f]{64})", output)[-1]


@functools.cache
def weights_alone(steps=STEPS):
    """Of one rank that nothing happens to: every world and every failure has to end with these."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        code, _, output = Run(folder, job(folder, 1, 1, steps, checkpointEvery=0)).finish()
    assert code == 0, output
    return weights(output)


def wait_commits(folder, count=1):
    wait_until(lambda: len(list(folder.glob("checkpoints/checkpoints/*/0*.*"))) >= count,
               f"{count} checkpoints", 90)
