"""Helm, where Lockstep is installed and jobs run."""

import json

from e2e_stack import SYSTEM
from paths import ROOT

CHART = ROOT / "helm/lockstep"


def test_helm_test_reports_success_of_its_job(stack):
    said = stack.helm("test", "lockstep", "--namespace", SYSTEM, "--timeout", "5m")
    assert "Failed" not in said and "Succeeded" in said


def test_helm_upgrade_and_rollback_do_not_disturb_running_job(site):
    job = site.program("gpt", ["sh", "-c", "sleep 3600"])
    before = job.wait_state("Running")
    pods, leader = job.uids(), site.stack.holder()

    revision = json.loads(site.stack.helm("history", "lockstep", "--namespace", SYSTEM,
                                           "--output", "json"))[-1]["revision"]
    for change in (["upgrade", "lockstep", CHART, "--set", "logLevel=debug"],
                   ["rollback", "lockstep", revision]):
        site.stack.helm(*change, "--namespace", SYSTEM, "--wait", "--timeout", "5m")
        site.stack.wait_leader(other_than=leader)
        leader = site.stack.holder()
        after = job.status()
        assert job.uids() == pods
        assert [after[each] for each in ("state", "epoch", "gangGeneration", "restarts")] == [
            before[each] for each in ("state", "epoch", "gangGeneration", "restarts")]
    # And the operators that came know it: they do what they are asked to.
    job.patch(suspend=True)
    job.wait_state("Suspended")
