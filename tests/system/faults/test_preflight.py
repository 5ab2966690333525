"""Preflight among four machines, each a network namespace: the one whose link is slow and the one
whose core is are named and replaced. By the agents (spec.preflight), and by `lockstep-trainer
preflight` in front of a program."""

import contextlib
import json
import os
import re
import shlex
import subprocess

import namespaces
import pytest
from gang import Gang
from run import Run
from tls import binary
from waiting import wait_until

MACHINES = 4
# The slow core is the last CPU: whoever is there is outweighed ten times by a neighbour. All others
# are on the first.
CPUS = sorted(os.sched_getaffinity(0))
GOOD, SLOW = f"taskset -c {CPUS[0]}", f"taskset -c {CPUS[-1]} nice -n 10"
NEIGHBOUR = ["taskset", "-c", str(CPUS[-1]), "sh", "-c", "while :; do :; done"]


@contextlib.contextmanager
def neighbour():
    with subprocess.Popen(NEIGHBOUR) as busy:
        try:
            yield
        finally:
            busy.kill()


def preflight(network, *options, slow_core=None):
    """(exit codes, what rank 0 said as JSON, what each rank complained of)."""
    with contextlib.ExitStack() as ends:
        ranks = []
        if slow_core is not None:
            ends.enter_context(neighbour())
        for i, machine in enumerate(network.machines):
            env = {**os.environ, "RANK": str(i), "WORLD_SIZE": str(MACHINES), "LOCAL_RANK": "0",
                   "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.9.0.1", "MASTER_PORT": "29500",
                   "LOCKSTEP_JOB_UID": "preflight", "LOCKSTEP_GENERATION": "1-1", "OMP_NUM_THREADS": "1"}
            core = SLOW if i == slow_core else GOOD
            ranks.append(ends.enter_context(subprocess.Popen(
                [*network.enter(machine), *core.split(), binary("lockstep-trainer"),
                 "preflight", "--backend=gloo", "--json", *options],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
            ends.callback(ranks[-1].kill)
        said = [rank.communicate(timeout=240) for rank in ranks]
        report = json.loads(said[0][0]) if said[0][0] else None
        return [rank.returncode for rank in ranks], report, [err for _, err in said]


class Spread(Gang):
    """Each agent in the namespace of its machine; nobody but the others reaches it."""

    def __init__(self, network, folder, **spec):
        self.network = network
        super().__init__(folder, machines=MACHINES, **spec)

    @staticmethod
    def _free_block(_):
        return ""

    def address(self, machine):
        return self.network.address(machine)

    def begin(self, machine, attempt, core=GOOD):
        entry = self.network.enter(self.network.machines[machine])
        self.start_agent(machine, attempt, prefix=(*entry, *core.split()), interface="eth0")

    def wait_said(self, words):
        self.agents[0].wait_log(words)
        return self.agents[0].log


needs_cores = pytest.mark.skipif(len(CPUS) < 2, reason="needs a core that is slow and one that isn't")


@pytest.fixture
def network():
    if not namespaces.POSSIBLE:
        pytest.skip("needs network namespaces and a bridge")
    with namespaces.Network(MACHINES) as made:
        yield made


# Beside other work a figure may halve: slow is less than two fifths of the median.
MARGIN = "--margin=0.6"
# Both are slow there, but beside other work one of them may be so elsewhere, too.
SLOW_CORE = "(products|memory)"


@needs_cores
def test_preflight_names_only_machines_with_slow_link_or_slow_core(network, tmp_path):
    network.slow_link(1)
    codes, report, complaints = preflight(network, MARGIN, f"--folder={tmp_path}", slow_core=2)
    assert codes == [75, 76, 76, 75], (report, complaints)
    slow = [" ".join(machine["slow"]) for machine in report["machines"]]
    assert slow[0] == slow[3] == "", report
    assert "link 0.00" in slow[1] and "products" not in slow[1], report
    assert re.search(SLOW_CORE, slow[2]), report
    assert "machine 1 is slow, and to be replaced: link" in complaints[1]
    assert all(machine["disk"] > 0 for machine in report["machines"])


def test_equal_machines_pass_preflight_and_are_measured_once(network, tmp_path):
    once = f"--once={tmp_path}/well"
    codes, report, complaints = preflight(network, "--margin=0.9", once)
    assert codes == [0] * MACHINES, (report, complaints)
    assert report["passed"] and report["busbw"] > 0
    assert "disk" not in report["machines"][0]
    assert preflight(network, "--margin=0.9", once) == ([0] * MACHINES, None, [""] * MACHINES)


def test_preflight_rejects_every_machine_below_minimum_memory_bandwidth(network):
    codes, report, _ = preflight(network, "--margin=1", "--least-memory=1e6")
    assert codes == [76] * MACHINES
    assert all("and 1e+06 GB/s is the least" in machine["slow"][0] for machine in report["machines"])


@needs_cores
def test_gang_names_and_replaces_slow_machine(tmp_path):
    program = tmp_path / "program.sh"
    program.write_text(f"""
check="lockstep-trainer preflight --backend=gloo --margin=0.6 --once=$LOCKSTEP_LOCAL_DIR/well"
core="{GOOD}"
if [ $LOCKSTEP_MACHINE = 2 ] && mkdir {tmp_path}/first 2>/dev/null; then
  core="{SLOW}"
  {shlex.join(NEIGHBOUR)} &
fi
$core $check && echo trained
""")
    env_path = str(os.path.dirname(binary("lockstep-trainer")))
    code, report, output = Run(tmp_path, "-m", "3", "--no-table", "--", "sh", "-c",
                               f"PATH={env_path}:$PATH; . {program}").finish()
    assert code == 0, output
    first, last = report["generations"][0], report["generations"][-1]
    assert first["failure"]["machine"] == 2 and first["failure"]["exitCode"] == 76, report
    assert "machine 2 is slow" in first["failure"]["stderr"]
    assert last["failure"].get("machine") is None
    assert output.count("trained") == 3


@needs_cores
def test_agents_name_only_machines_with_slow_link_or_core_before_ranks_start(
        network, tmp_path):
    # Agents' children share a core here: a link that they hardly use must be no slower than this.
    network.slow_link(1, "4mbit")
    limits = {"enabled": True, "margin": 0.6}
    with Spread(network, tmp_path, checkpoint="checkpoints", preflight=limits) as gang:
        gang.checkpoint.mkdir()
        with neighbour():
            for machine in range(MACHINES):
                gang.begin(machine, 1, SLOW if machine == 2 else GOOD)
            gang.wait_said("preflight: machine 1 is slow, and to be replaced: link 0.00")
            said = gang.wait_said("preflight: machine 2 is slow, and to be replaced: ")
        assert re.search(f"machine 2 is slow, and to be replaced: {SLOW_CORE}", said), said
        assert "machine 0 is slow" not in said and "machine 3 is slow" not in said
        assert not any(agent.ranks() for agent in gang.agents.values())
        network.quick_link(1)
        for machine in (1, 2):
            gang.agents[machine].kill()
            gang.begin(machine, 2)
        wait_until(lambda: all(len(agent.ranks()) == 1 for agent in gang.agents.values()),
                   lambda: f"every rank to run\n{gang.logs()}")
        gang.open_gates()
        wait_until(lambda: not any(agent.running for agent in gang.agents.values()),
                   lambda: f"all agents to leave\n{gang.logs()}")
        assert gang.agents[0].termination["exitCode"] == 0


@needs_cores
def test_job_fails_with_reason_when_machines_are_below_preflight_minimum(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("""
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: demanding}
spec:
  numMachines: 2
  command: ["true"]
  preflight: {enabled: true, margin: 0.9, minMemoryGBps: 1000000}
""")
    code, report, output = Run(tmp_path, str(job), "--no-table").finish()
    assert code == 78, output
    assert "is slower than spec.preflight allows" in output
    assert output.count("it is slow: memory") == 1, "machine 0 once; then machine 0 ends the job"
    assert all(each["announced"] is None for each in report["generations"]), "no rank ran"
