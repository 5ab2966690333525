"""A cluster of Ray on the machines of a job, as examples/ray.yaml has it, and Ray Train on one."""

import os
import re
import signal

import processes
from run import MARK
from waiting import wait_until

VARIABLES = {"CPUS": "2", "RAY_USAGE_STATS_ENABLED": "0"}


def raylet_of(run, machine):
    """What runs on each node of Ray, by the machine's index; None before."""
    for pid in processes.with_variable(MARK, run.mark):
        words = processes.command(pid).split()
        if words and words[0].endswith("/raylet") and \
                processes.environment(pid).get("LOCKSTEP_MACHINE") == str(machine):
            return pid
    return None


def test_machines_form_one_ray_cluster_that_ends_with_its_program(python_with, example):
    code, report, output = example(python_with("torch"), "ray.yaml", "whole",
                                   variables=VARIABLES).finish(300)
    assert code == 0, output
    assert "4 processors of 2 nodes did [8, 8] tasks" in output, output
    assert "pi is 3.1" in output and len(report["generations"]) == 1, output


def test_job_names_machine_of_killed_raylet_and_starts_new_cluster(python_with, example):
    run = example(python_with("torch"), "ray.yaml", "killed", "2", "2", variables=VARIABLES)
    found = wait_until(lambda: raylet_of(run, 0) and raylet_of(run, 1), "the node on machine 1",
                       patience=120)
    os.kill(found, signal.SIGKILL)
    code, report, output = run.finish(300)
    assert code == 0, output
    assert "the process on machine 1 exited with code 1" in output, output
    assert "4 processors of 2 nodes did [4, 4] tasks" in output and len(report["generations"]) == 2, output


def test_ray_train_has_a_worker_on_each_machine(python_with, example):
    code, report, output = example(python_with("torch"), "ray-train.yaml", "whole", "40",
                                   variables=VARIABLES).finish(400)
    assert code == 0, output
    assert "2 workers did step 39" in output and len(report["generations"]) == 1, output


def test_ray_train_resumes_from_checkpoint_in_new_cluster(python_with, example):
    run = example(python_with("torch"), "ray-train.yaml", "killed", "40", "0.5",
                  variables=VARIABLES)
    # A checkpoint counts from when it is in this file.
    kept = run.folder / "kept/line/checkpoint_manager_snapshot.json"
    wait_until(kept.exists, "a checkpoint", patience=300)
    os.kill(raylet_of(run, 1), signal.SIGKILL)
    code, report, output = run.finish(400)
    assert code == 0, output
    assert len(report["generations"]) == 2, output
    assert re.search(r"training from step [123]0\b", output), output
    assert "2 workers did step 39" in output, output
