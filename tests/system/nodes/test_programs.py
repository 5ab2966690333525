"""Users' own programs in an image with nothing of Lockstep in it."""

import re

import pytest
from paths import ROOT

# What torchrun is to PerMachine: one process a machine that starts the ranks itself.
LAUNCHER = """
import os, subprocess, sys
count, node, nodes = (int(os.environ[f"PET_{name}"])
                      for name in ("NPROC_PER_NODE", "NODE_RANK", "NNODES"))
address, port = os.environ["PET_MASTER_ADDR"], os.environ["PET_MASTER_PORT"]
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]], env={
    **os.environ, "RANK": str(node * count + local), "LOCAL_RANK": str(local),
    "WORLD_SIZE": str(nodes * count), "MASTER_ADDR": address, "MASTER_PORT": port})
    for local in range(count)]
codes = [rank.wait() for rank in ranks]
print("launched", count, "on machine", node, flush=True)
sys.exit(max(map(abs, codes)))
"""


def ddp(site, name, image, command, **spec):
    """A job of examples/ddp.py, with what it imports where it lies in the repository, too."""
    folders = {"ddp.py": "examples", "lockstep.py": "worker/python"}
    programs = {file: (ROOT / folder / file).read_text() for file, folder in folders.items()}
    site.files("program", {**programs, "launch.py": LAUNCHER})
    mounts = [{"name": "program", "mountPath": f"/work/{folder}"} for folder in folders.values()]
    site.volume(name)
    return site.program(
        name, command, image=image,
        checkpoint={"claim": name, "path": "/checkpoints"},
        template={"spec": {"volumes": [{"name": "program", "configMap": {"name": "program"}}],
                           "containers": [{"name": "worker", "volumeMounts": mounts}]}}, **spec)


@pytest.mark.slow
def test_pytorch_job_resumes_from_checkpoint_after_rank_is_killed(site, torch):
    job = ddp(site, "ddp", torch, ["python3", "/work/examples/ddp.py", "--seconds-per-step=0.05"])
    job.wait_trained()
    before = job.uids()
    job.kill(rank=1)
    status = job.wait_state("Succeeded")
    assert status["restarts"]["application"] == 1
    assert {pod.metadata.uid for pod in job.pods()} == set(before.values())
    assert re.search(r"training from step [1-9]\d* of /checkpoints/", job.log())
    assert "trained to step 200" in job.log()


@pytest.mark.slow
def test_users_launcher_starts_ranks_of_each_machine(site, torch):
    job = ddp(site, "launched", torch, launch="PerMachine",
              command=["python3", "/work/examples/launch.py", "/work/examples/ddp.py"])
    job.wait_state("Succeeded")
    assert "trained to step 200" in job.log(0)
    for machine in (0, 1):
        assert f"launched 2 on machine {machine}" in job.log(machine)


@pytest.mark.slow
def test_image_volume_delivers_agent_without_init_container(site, python):
    says = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
    with site.stack.installed_with("agent.delivery=image-volume"):
        job = site.program("plain", ["python3", "-c", says], image=python)
        job.wait_state("Succeeded")
    assert all(not pod.spec.init_containers for pod in job.pods())
    assert "rank 3 of 4" in job.log(1)
