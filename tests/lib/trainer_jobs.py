"""Jobs of the built-in trainer, for tests."""

import json
import re

from waiting import wait_until


def job(folder, machines=2, processes=2, steps=40, env=(), checkpoint=None, **trainer):
    """A job file with a model that makes a step in milliseconds.

    checkpoint: as the job has it; None: in folder/checkpoints.
    """
    file = folder / "job.yaml"
    text = {"model": {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256},
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


def wait_commits(folder, count=1):
    wait_until(lambda: len(list(folder.glob("checkpoints/checkpoints/*/0*.*"))) >= count,
               f"{count} checkpoints", 90)
