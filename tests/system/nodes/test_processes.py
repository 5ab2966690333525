"""Processes and pods that die, on nodes that are well."""

import os
import signal
import subprocess

from e2e_job import PATIENCE
from tls import binary
from waiting import wait_until


def test_killed_rank_restarts_all_ranks_in_place_from_checkpoint(site, undisturbed):
    job = site.train()
    job.wait_trained()
    before = job.uids()
    first = {rank.pid for rank in job.ranks()}
    job.kill(rank=2)
    status = job.wait(lambda s: s["restarts"]["application"] == 1, "the restart")
    assert status["lastFailure"]["rank"] == 2
    assert status["lastFailure"]["signal"] == signal.SIGKILL
    assert job.uids() == before
    # What is told as one status is not done at one moment.
    wait_until(lambda: len(new := {rank.pid for rank in job.ranks()}) == 4 and not first & new,
               "four new ranks", PATIENCE, 0.1)
    job.wait_state("Succeeded")
    assert "resuming at step" in job.log()
    assert job.weights() == undisturbed


def test_debug_reports_position_of_each_rank_without_disturbing_job(site, undisturbed):
    job = site.train()
    job.wait_trained()
    folders = [str(site.stack.folder / "bin"), *os.environ["PATH"].split(os.pathsep)]
    done = subprocess.run(
        [binary("lockstep"), "debug", job.name, "--namespace", site.namespace],
        env={**os.environ, "KUBECONFIG": str(site.stack.kubeconfig),
             "PATH": os.pathsep.join(folders)},
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        own = done.stdout.split(f"--- rank {rank}, machine {rank // 2} ---\n")[1].split("---")[0]
        assert "== process " in own and "Flight: " in own, done.stdout
    status = job.wait_state("Succeeded")
    assert not any(status["restarts"].values()), status["restarts"]
    assert job.weights() == undisturbed


def test_operator_replaces_deleted_pod_without_charging_replacement_budget(site, undisturbed):
    job = site.train(failurePolicy={"maxMachineReplacements": 0})
    job.wait_trained()
    before = job.uids()
    site.kubectl("delete", "pod", f"{job.name}-1", "--wait=false")
    job.wait(lambda s: s["epoch"] == 2 and s["state"] == "Running", "the replacement")
    after = job.uids()
    assert after[0] == before[0] and after[1] != before[1]
    job.wait_state("Succeeded")
    assert job.weights() == undisturbed


def test_kubectl_describe_names_failed_rank_and_its_error(site):
    script = 'if [ "$RANK" = 3 ]; then echo "no such file: x" >&2; exit 9; fi; sleep 600'
    job = site.program("bad", ["sh", "-c", script], failurePolicy={"maxRestarts": 0})
    status = job.wait_state("Failed")
    failure = status["lastFailure"]
    assert (failure["rank"], failure["machine"], failure["exitCode"]) == (3, 1, 9)
    described = site.kubectl("describe", "tj", "bad")
    assert "rank 3" in described and "no such file: x" in described
    wait_until(lambda: not job.ranks(), "the other ranks to end", PATIENCE, 0.1)


def test_status_names_machine_of_rank_that_runs_out_of_memory(site):
    hoard = 'if [ "$RANK" = 1 ]; then x=0123456789; while :; do x=$x$x; done; fi; sleep 600'
    job = site.program("hoard", ["sh", "-c", hoard], failurePolicy={"maxRestarts": 0},
                       resourcesPerProcess={"memory": "100Mi"})
    failure = job.wait_state("Failed")["lastFailure"]
    assert (failure["cause"], failure["machine"]) == ("OutOfMemory", 0)
    # With version 1 of cgroups the kernel kills that rank alone, with 2 the whole container.
    assert failure.get("rank", 1) == 1
