"""`lockstep-trainer preflight` among four machines, each a network namespace: it names the one whose
link is slow and the one whose core is, and a gang replaces the machine."""

import contextlib
import json
import os
import shlex
import subprocess

import pytest
from run import Run
from tls import binary

MACHINES = 4
# The slow core is the last CPU: whoever is there is outweighed ten times by a neighbour. All others
# are on the first.
CPUS = sorted(os.sched_getaffinity(0))
GOOD, SLOW = f"taskset -c {CPUS[0]}", f"taskset -c {CPUS[-1]} nice -n 10"
NEIGHBOUR = ["taskset", "-c", str(CPUS[-1]), "sh", "-c", "while :; do :; done"]
PROBE = subprocess.run(["unshare", "--net", "ip", "link", "add", "v0", "type", "bridge"],
                       capture_output=True, check=False)


class Network:
    """Machines 10.9.0.1 and on, on one bridge."""

    def __init__(self, ends):
        self.ends = ends
        self.hub = self._namespace()
        self.machines = [self._namespace() for _ in range(MACHINES)]
        self.within(self.hub, "ip link add br0 type bridge")
        self.within(self.hub, "ip link set br0 up")
        for i, machine in enumerate(self.machines):
            self.within(self.hub, f"ip link add m{i} type veth peer name eth0 netns {machine}")
            self.within(self.hub, f"ip link set m{i} master br0 up")
            for words in ("link set lo up", f"addr add 10.9.0.{i + 1}/24 dev eth0", "link set eth0 up"):
                self.within(machine, f"ip {words}")

    def _namespace(self):
        holder = self.ends.enter_context(subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True))
        holder.stdout.readline()
        self.ends.callback(holder.kill)
        return holder.pid

    @staticmethod
    def _enter(namespace):
        return ["nsenter", f"--net=/proc/{namespace}/ns/net"]

    def within(self, namespace, command):
        subprocess.run([*self._enter(namespace), *command.split()], check=True)

    def slow_link(self, machine):
        """20 Mbit/s both ways."""
        for namespace, device in ((self.hub, f"m{machine}"), (self.machines[machine], "eth0")):
            self.within(namespace, f"tc qdisc add dev {device} root tbf rate 20mbit burst 32k latency 50ms")

    def preflight(self, *options, slow_core=None):
        """(exit codes, what rank 0 said as JSON, what each rank complained of)."""
        ranks = []
        if slow_core is not None:
            self.ends.callback(self.ends.enter_context(subprocess.Popen(NEIGHBOUR)).kill)
        for i, machine in enumerate(self.machines):
            env = {**os.environ, "RANK": str(i), "WORLD_SIZE": str(MACHINES), "LOCAL_RANK": "0",
                   "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.9.0.1", "MASTER_PORT": "29500",
                   "LOCKSTEP_JOB_UID": "preflight", "LOCKSTEP_GENERATION": "1-1", "OMP_NUM_THREADS": "1"}
            core = SLOW if i == slow_core else GOOD
            ranks.append(self.ends.enter_context(subprocess.Popen(
                [*self._enter(machine), *core.split(), binary("lockstep-trainer"),
                 "preflight", "--backend=gloo", "--json", *options],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
            self.ends.callback(ranks[-1].kill)
        said = [rank.communicate(timeout=240) for rank in ranks]
        report = json.loads(said[0][0]) if said[0][0] else None
        return [rank.returncode for rank in ranks], report, [err for _, err in said]


needs_cores = pytest.mark.skipif(len(CPUS) < 2, reason="needs a core that is slow and one that isn't")


@pytest.fixture
def network():
    if PROBE.returncode != 0:
        pytest.skip("needs network namespaces and a bridge")
    with contextlib.ExitStack() as ends:
        yield Network(ends)


# Beside other work a figure may halve: slow is less than two fifths of the median.
MARGIN = "--margin=0.6"


@needs_cores
def test_a_slow_link_and_a_slow_core_are_found_and_nobody_else_is_blamed(network, tmp_path):
    network.slow_link(1)
    codes, report, complaints = network.preflight(MARGIN, f"--folder={tmp_path}", slow_core=2)
    assert codes == [75, 76, 76, 75], (report, complaints)
    slow = [" ".join(machine["slow"]) for machine in report["machines"]]
    assert slow[0] == slow[3] == "", report
    assert "link 0.00" in slow[1] and "products" not in slow[1], report
    assert "products" in slow[2], report
    assert "machine 1 is slow, and to be replaced: link" in complaints[1]
    assert all(machine["disk"] > 0 for machine in report["machines"])


def test_machines_that_are_alike_pass_and_are_measured_once(network, tmp_path):
    once = f"--once={tmp_path}/well"
    codes, report, complaints = network.preflight("--margin=0.9", once)
    assert codes == [0] * MACHINES, (report, complaints)
    assert report["passed"] and report["busbw"] > 0
    assert "disk" not in report["machines"][0]
    assert network.preflight("--margin=0.9", once) == ([0] * MACHINES, None, [""] * MACHINES)


def test_a_machine_below_the_least_is_slow_whatever_the_others_have(network):
    codes, report, _ = network.preflight("--margin=1", "--least-memory=1e6")
    assert codes == [76] * MACHINES
    assert all("and 1e+06 GB/s is the least" in machine["slow"][0] for machine in report["machines"])


@needs_cores
def test_a_gang_replaces_the_machine_that_is_slow_and_says_which_it_was(tmp_path):
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
