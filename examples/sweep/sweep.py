#!/usr/bin/env python3
"""A sweep: an Optuna study in which every trial is a TrainingJob.

    python3 examples/sweep/sweep.py examples/sweep/job.yaml                  # on this computer
    python3 examples/sweep/sweep.py examples/sweep/job.yaml --namespace ml   # in a cluster

job_of() sets the values of a trial. README.md describes the rest.
"""

import argparse
import contextlib
import copy
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import optuna
import yaml

METRIC = "loss"
FINISHED = ("Succeeded", "Failed")
API = ("lockstep.dev", "v1alpha1")


def job_of(trial, template):
    """The TrainingJob of one trial. Edit it. A program gets its values by `args` or `env`."""
    job = copy.deepcopy(template)
    job["metadata"]["name"] += f"-{trial.number}"
    spec = job["spec"]
    spec["trainer"]["learningRate"] = trial.suggest_float("learningRate", 1e-5, 1e-1, log=True)
    spec["trainer"]["warmupSteps"] = trial.suggest_int("warmupSteps", 0, 40, step=10)
    if "path" in spec.get("checkpoint", {}):  # each trial has its own folder
        spec["checkpoint"]["path"] += f"/{job['metadata']['name']}"
    return job


class JobFailed(Exception):
    """The job's reason, and message and stderr of its last failure."""


# Both kinds of job have three methods. values() yields (step, value) until the job has ended.
# status() returns the fields in docs/reference/trainingjob.md. stop() ends a job that still runs,
# and returns how it ended.


class LocalJob:
    """One `lockstep run`. The output of its ranks shows the steps, its report shows the end."""

    SAID = re.compile(rf"\bstep (\d+)\b.*?\b{METRIC}[ =:]+(\S+)")  # a line of the built-in trainer

    def __init__(self, job, folder, lockstep):
        self._report = pathlib.Path(folder) / "report.json"
        file = pathlib.Path(folder) / "job.json"
        file.write_text(json.dumps(job))
        self._run = subprocess.Popen(
            [lockstep, "run", "--no-table", "--report", self._report, file],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            start_new_session=True)  # Ctrl-C reaches it only by stop()

    def values(self):
        """Yields (step, value) until the job has ended."""
        for line in self._run.stdout:
            if said := self.SAID.search(line):
                yield int(said[1]), float(said[2])

    def status(self):
        self._run.wait()
        return json.loads(self._report.read_text()) if self._report.exists() else {}

    def stop(self):
        """Stops like Ctrl-C. Ranks may save within the job's gracePeriod."""
        if self._run.poll() is None:
            self._run.send_signal(signal.SIGTERM)
        for _ in self._run.stdout:
            pass
        return self.status().get("state")


class ClusterJob:
    """A TrainingJob in a cluster. Its status.progress is written at most twice a minute."""

    def __init__(self, job, namespace, seconds):
        from kubernetes import client

        self._api, self._seconds = client.CustomObjectsApi(), seconds
        self._where = (*API, namespace, "trainingjobs")
        self._name = job["metadata"]["name"]
        self._api.create_namespaced_custom_object(*self._where, job)

    def values(self):
        while True:
            status = self.status()
            value = value_of(status)
            if value is not None:
                yield status["progress"]["step"], value
            if status.get("state") in FINISHED:
                return
            time.sleep(self._seconds)

    def status(self):
        job = self._api.get_namespaced_custom_object(*self._where, self._name)
        return job.get("status", {})

    def stop(self):
        state = self.status().get("state")
        if state in FINISHED:  # it stays for its ttlSecondsAfterFinished
            return state
        self._api.delete_namespaced_custom_object(*self._where, self._name)
        return "Deleted"


def value_of(status):
    """The last value that the processes reported. None without a report."""
    for figure in status.get("progress", {}).get("metrics", []):
        if figure["name"] == METRIC:
            return float(figure["value"])
    return None


def objective(trial, template, start, every):
    with contextlib.ExitStack() as last:
        job = start(job_of(trial, template), last)
        # Runs whether the trial is pruned, interrupted or done.
        last.callback(lambda: trial.set_user_attr("ended", job.stop()))
        furthest = 0
        for step, value in job.values():
            # A pruner compares values of the same step, but jobs report at different steps.
            mark = step - step % every
            if mark <= furthest:  # also a step repeated after a restart
                continue
            furthest = mark
            trial.report(value, mark)
            if trial.should_prune():
                raise optuna.TrialPruned
        status = job.status()
        if status.get("state") != "Succeeded":
            failure = status.get("lastFailure", {})
            raise JobFailed(status.get("reason"), failure.get("message"), failure.get("stderr"))
        return value_of(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=pathlib.Path)
    parser.add_argument("--namespace",
                        help="namespace of a cluster; without it jobs run on this computer")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    parser.add_argument("--every", type=int, default=50, metavar="STEPS",
                        help="compare trials at multiples of STEPS")
    parser.add_argument("--storage", help="storage of the study, such as sqlite:///sweep.db: a new "
                        "start resumes the sweep, and several processes can share it")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--lockstep", default="lockstep", help="path of lockstep")
    parser.add_argument("--seconds", type=float, default=5, help="between two reads of a status")
    given = parser.parse_args()
    template = yaml.safe_load(given.job.read_text())

    def start(job, last):
        if given.namespace:
            return ClusterJob(job, given.namespace, given.seconds)
        return LocalJob(job, last.enter_context(tempfile.TemporaryDirectory()), given.lockstep)

    if given.namespace:
        from kubernetes import config

        config.load_config()
    study = optuna.create_study(
        study_name=template["metadata"]["name"], storage=given.storage, load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=given.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4))
    study.optimize(lambda trial: objective(trial, template, start, given.every),
                   n_trials=given.trials, n_jobs=given.at_once, catch=(JobFailed,))
    if not any(each.state == optuna.trial.TrialState.COMPLETE for each in study.trials):
        sys.exit("no trial has come to its end")
    print(json.dumps({"value": study.best_value, "job": f"{study.study_name}-"
                      f"{study.best_trial.number}", **study.best_params}))


if __name__ == "__main__":
    main()
