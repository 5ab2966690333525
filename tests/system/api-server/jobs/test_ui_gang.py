"""`kubectl lockstep ui` of a gang that runs, with the real operator and agents: its ranks' progress
and stacks, which the page asks the agents for by `kubectl exec`."""

import json
import os
import signal
import subprocess
import sys

import pytest
from cluster_page import ClusterPage, generations
from paths import ROOT
from tls import binary

PROGRAM = """\
import os, time, lockstep
step = 0
while not os.path.exists(os.environ["GATE"]):
    step += 1
    lockstep.report(step=step, total_steps=100000, loss=1 / step)
    time.sleep(0.05)
"""


@pytest.fixture
def kubectl(tmp_path):
    """The folder of a kubectl that execs as kubelet would: the agent, in the folder of that pod."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f"""#!/bin/sh
[ "$1" = exec ] || exit 64
pod=$2
while [ "$1" != -- ]; do shift; done
shift 2
for last; do :; done
[ "$last" = /run/lockstep/agent ] || exit 65
case $1 in
--status) exec {binary("lockstep-agent")} --status --follow {tmp_path}/$pod/run;;
--evidence) exec {binary("lockstep-agent")} --evidence {tmp_path}/$pod/run;;
esac
exit 66
""")
    program.chmod(0o755)
    return folder


def test_page_shows_each_ranks_progress_each_part_of_a_restart_and_stacks(jobs, tmp_path, kubectl):
    gate, script = tmp_path / "gate", tmp_path / "train.py"
    script.write_text(PROGRAM)
    jobs.apply("gpt", f"GATE={gate} PYTHONPATH={ROOT}/worker/python exec {sys.executable} {script}",
               failurePolicy={"maxRestarts": 5})
    jobs.wait_state("gpt", "Running")
    with ClusterPage(jobs.cluster.kubeconfig, "gpt", "-n", jobs.namespace, folder=kubectl) as page:
        view = page.wait(lambda view: view["gang"] and min(view.get("ranks", {}).get("step", [0])) > 5
                         and len(view["ranks"]["rank"]) == 4, "progress of four ranks")
        assert view["machines"]["state"] == ["Running", "Running"] and "notes" not in view
        assert view["heard"] is not None and view["heard"] <= view["now"]
        code, said = ask_agent(tmp_path, "gpt-0")
        assert code == 0 and json.loads(said)["gang"]["coordinator"] and json.loads(said)["age"] > 0
        code, said = ask_agent(tmp_path, "gpt-1")
        assert code != 0 and "only machine 0's agent knows the gang" in said
        stacks = page.ask("/api/stacks?rank=3")
        assert [rank["rank"] for rank in stacks["ranks"]] == [3] and not stacks["problems"], stacks
        pid = next(int(entry) for entry in os.listdir("/proc") if entry.isdigit()
                   and rank_of(entry, str(script)) == "2")
        os.kill(pid, signal.SIGKILL)
        view = page.wait(lambda view: len(generations(view)) == 2 and
                         generations(view)[1].get("firstStep"), "the next generation")
        ended = generations(view)[0]
        assert "rank 2 on machine 1 was killed by SIGKILL" in ended["failure"]["message"]
        for part in ("detect", "stop", "spawn", "firstStep", "seconds"):
            assert ended["respawn"][part] >= 0, ended
        jobs.kubelet.process("gpt-0").kill()
        view = page.wait(lambda view: view["gang"] and view["gang"]["generation"].startswith("2-")
                         and view.get("ranks", {}).get("step"), "a replaced machine 0")
        assert "the agent" not in " ".join(view.get("notes", []))
        gate.touch()
        page.wait(lambda view: view["status"]["state"] == "Succeeded" and not view["live"], "the end")


def ask_agent(folder, pod):
    """(exit code, output) of one question to the agent of that pod."""
    done = subprocess.run([binary("lockstep-agent"), "--status", folder / pod / "run"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout


def rank_of(pid, script):
    """"" of what is no rank of that script."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            if script.encode() not in words.read().split(b"\0"):
                return ""
        with open(f"/proc/{pid}/environ", "rb") as variables:
            return next((each[5:].decode() for each in variables.read().split(b"\0")
                         if each.startswith(b"RANK=")), "")
    except OSError:
        return ""
