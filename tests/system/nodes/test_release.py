"""Helm, where Lockstep is installed and jobs run."""

import json
import subprocess

from e2e_install import upgrade
from e2e_stack import SYSTEM
from paths import ROOT, VERSION
from registry import registry

REGISTRY = "registry.test"  # as nodes call it
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


def package(*arguments):
    """What tools/package printed last."""
    return subprocess.run([ROOT / "tools/package", *arguments], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split()[-1]


def test_packed_chart_runs_a_job_with_the_images_of_a_registry_by_digest(site, tmp_path):
    subprocess.run([ROOT / "tools/deps", "--images"], check=True)
    with registry("") as served:
        images = [package(command, "--no-build", "--out", tmp_path, "--push", served.host)
                  for command in ("image", "worker-image")]
        package("chart", "--out", tmp_path, "--registry", REGISTRY,
                *(f"--image={image}" for image in images))
        site.stack.nodes.use_registry(REGISTRY, served.server_port)
        try:
            site.stack.helm("upgrade", "lockstep", tmp_path / f"lockstep-{VERSION}.tgz",
                            "--namespace", SYSTEM, "--wait", "--timeout", "5m", "--reset-values")
            job = site.program("gpt", ["sh", "-c", "exit 0"], numMachines=3)
            job.wait_state("Succeeded")
            operator, worker = (
                f"{REGISTRY}/lockstep/{image.replace('=', '@')}" for image in images)
            assert {each.spec.containers[0].image for each in site.stack.operators()} == {operator}
            assert {container.image for pod in job.pods() for container in pod.spec.init_containers
                    } == {worker}
        finally:
            upgrade(site.stack)
