"""Users' own programs in an image with nothing of Lockstep in it."""

import pathlib
import re

import pytest
from e2e_install import TORCH

ROOT = pathlib.Path(__file__).parents[2]
# The example as it lies in the repository, which it expects around itself.
FILES = {"ddp.py": ("examples", ROOT / "examples/ddp.py"),
         "lockstep.py": ("worker/python", ROOT / "worker/python/lockstep.py")}
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


def ddp(site, name, command, **spec):
    """A job of examples/ddp.py, which is mounted together with what it imports."""
    site.files("program", {**{n: path.read_text() for n, (_, path) in FILES.items()},
                           "launch.py": LAUNCHER})
    mounts = [{"name": "program", "mountPath": f"/work/{folder}"}
              for folder in ("examples", "worker/python")]
    site.make_volume(name)
    return site.program(
        name, command, image=TORCH,
        checkpoint={"claim": name, "path": "/checkpoints"},
        template={"spec": {"volumes": [{"name": "program", "configMap": {"name": "program"}}],
                           "containers": [{"name": "worker", "volumeMounts": mounts}]}}, **spec)


def test_a_pytorch_job_goes_on_from_its_checkpoint_after_a_rank_was_killed(site):
    job = ddp(site, "ddp", ["python3", "/work/examples/ddp.py", "--seconds-per-step=0.05"])
    job.wait_trained()
    before = job.uids()
    job.kill(rank=1)
    status = job.wait_state("Succeeded")
    assert status["restarts"]["application"] == 1
    assert {pod.metadata.uid for pod in job.pods()} == set(before.values())
    assert re.search(r"training from step [1-9]\d* of /checkpoints/", job.log())
    assert "trained to step 200" in job.log()


@pytest.mark.slow
def test_a_launcher_of_the_users_own_starts_the_ranks_of_its_machine(site):
    job = ddp(site, "launched", ["python3", "/work/examples/launch.py", "/work/examples/ddp.py"],
              launch="PerMachine")
    job.wait_state("Succeeded")
    assert "trained to step 200" in job.log(0)
    for machine in (0, 1):
        assert f"launched 2 on machine {machine}" in job.log(machine)
