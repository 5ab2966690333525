"""What the agent's binding is worth on real kernels with several NUMA nodes, in and out of cpusets
and with and without a container's seccomp filter.

CPUs and policies are what each rank reads of itself, and `pages` where the kernel put its memory.
"""

import json
import re

import pytest
from guest import MIB, Check, Guest

pytestmark = pytest.mark.slow  # each guest is booted, by an emulator

PAGES = MIB << 8
NODE = {"bind": "Node"}
STRICT = {"bind": "Node", "memoryPolicy": "Strict"}
# The page as it is once the agent has looked at the ranks after their first step.
TOUCHED = r'numa_memory_bytes\{.*rank="0",locality="local"\} [0-9]{8}'
SEEN_FAR = r'binding_info\{.*rank="1",mode="Partial"\} 1'


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """CPUs 0 and 1 on node 0, 2 and 3 on node 1; in the last checks two GPUs beside them on each."""
    guest = Guest(nodes=2, cpus=4, sockets=2, gpus=(0, 0, 1, 1), distances={(0, 1): 21})
    isolated = {"bind": "Node", "gpuVisibility": "Isolated"}
    last_two = {"CUDA_VISIBLE_DEVICES": "2,3"}
    return guest.run(tmp_path_factory.mktemp("two"), [
        Check("none", {"bind": "None"}),
        Check("node", NODE, until=TOUCHED),
        Check("node-first-touch", {"bind": "Node", "memoryPolicy": "None"}),
        Check("strict", STRICT),
        Check("cpuset-of-one-node", NODE, cpus="2-3", mems="0-1"),
        Check("cpuset-without-memory", NODE, mems="0"),
        Check("seccomp", NODE, seccomp=True),
        Check("seccomp-strict", STRICT, seccomp=True),
        Check("seccomp-in-a-cpuset", NODE, cpus="2-3", mems="0-1", seccomp=True),
        Check("far-memory", NODE, env={"MEMORY_NODE": "0"}, until=SEEN_FAR),
        Check("bench", command="lockstep bench numa --quick --json -"),
        Check("gpus", NODE, gpus=True, spec={"resourcesPerProcess": {"gpu": 2}}),
        Check("isolated", isolated, gpus=True, spec={"resourcesPerProcess": {"gpu": 2}}),
        Check("isolated-choice", isolated, gpus=True, env=last_two),
    ])


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory):
    """Two CPUs on each, two nodes a package: as a processor split into NUMA nodes shows itself."""
    near = {(a, b): 12 if a // 2 == b // 2 else 21 for a in range(4) for b in range(a + 1, 4)}
    return Guest(nodes=4, cpus=8, sockets=2, distances=near).run(tmp_path_factory.mktemp("four"), [
        Check("node", NODE, processes=4),
        Check("strict-in-a-cpuset", STRICT, cpus="4-7", mems="2-3"),
        Check("socket", {"bind": "Socket"}),
        Check("core-complex", {"bind": "CoreComplex"}, processes=4),
        Check("exclusive", {"bind": "Exclusive"}, processes=8),
        Check("interleave", {"bind": "Interleave"}),
        Check("interleave-seccomp", {"bind": "Interleave"}, seccomp=True),
        Check("interleaved-nodes", {"bind": "Socket", "memoryPolicy": "Interleave"}),
        Check("map", {"bind": "Map", "map": [{"cpus": "6-7", "memory": "0"}, {"cpus": "0,2"}]}),
        Check("launcher", NODE, processes=4, spec={"launch": "PerMachine"}),
    ])


def seen(outcome, *keys):
    assert outcome.code == 0, outcome
    return [tuple(rank[key] for key in keys) for rank in outcome.ranks]


def test_unbound_ranks_run_anywhere_under_no_policy(two_nodes):
    assert seen(two_nodes["none"], "cpus", "policy") == [("0-3", "default")] * 2


def test_two_ranks_have_the_cpus_and_memory_of_one_node_each(two_nodes):
    assert seen(two_nodes["node"], "cpus", "policy", "pages") == [
        ("0-1", "prefer (many):0", {"0": PAGES}), ("2-3", "prefer (many):1", {"1": PAGES})]
    assert two_nodes["node"].bound(1) == ["Node (asked Node)"]


def test_agent_metrics_report_local_and_remote_memory_of_a_rank(two_nodes):
    page = "\n".join(two_nodes["node"].metrics)
    near = float(re.search(r'numa_memory_bytes{.*rank="0",locality="local"} (\S+)', page)[1])
    far = float(re.search(r'numa_memory_bytes{.*rank="0",locality="remote"} (\S+)', page)[1])
    assert near >= MIB << 20 and far < 1 << 20, page
    assert re.search(r'binding_info{.*rank="0",mode="Node"} 1', page), page


def test_agent_reports_memory_on_the_wrong_node_after_the_first_step(two_nodes):
    assert seen(two_nodes["far-memory"], "cpus", "pages") == [
        ("0-1", {"0": PAGES}), ("2-3", {"0": PAGES})]
    assert two_nodes["far-memory"].bound(0) == ["Node (asked Node)"]
    # On a busy machine the agent may look for the first time when it is there already.
    *start, later = two_nodes["far-memory"].bound(1)
    assert start in ([], ["Node (asked Node)"])
    assert re.fullmatch(r"Partial \(asked Node\): 9\d % of its memory is not on NUMA node 1", later)


def test_processes_run_on_the_nodes_of_their_gpus_and_see_all_gpus(two_nodes):
    assert seen(two_nodes["gpus"], "cpus", "pages", "LOCAL_RANK") == [
        ("0-1", {"0": PAGES}, "0"), ("2-3", {"1": PAGES}, "1")]
    assert not any("CUDA_VISIBLE_DEVICES" in rank for rank in two_nodes["gpus"].ranks)


def test_isolated_processes_see_only_their_own_gpus_and_have_local_rank_0(two_nodes):
    assert seen(two_nodes["isolated"], "cpus", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK") == [
        ("0-1", "0,1", "0"), ("2-3", "2,3", "0")]


def test_isolated_processes_divide_the_gpus_of_cuda_visible_devices(two_nodes):
    assert seen(two_nodes["isolated-choice"], "cpus", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK") == [
        ("2-3", "2", "0"), ("2-3", "3", "0")]


def test_bench_numa_measures_memory_on_the_requested_nodes(two_nodes):
    assert two_nodes["bench"].code == 0, two_nodes["bench"].said
    said = two_nodes["bench"].said
    report = json.loads(said[said.index("{"):said.rindex("}") + 1])
    rows = [row for row in report["settings"] if row["setting"] != "baseline"]
    measured = {(row["setting"], row["cpuNode"], tuple(row["memoryNodes"])) for row in rows}
    assert {("local", 0, (0,)), ("local", 1, (1,)), ("remote", 0, (1,)), ("remote", 1, (0,)),
            ("interleaved", 0, (0, 1)), ("interleaved", 1, (0, 1)), ("latency", 0, (1,))} <= measured
    messages = [row for row in rows if row["setting"] == "messages"]
    assert {(row["cpuNode"], row["toNode"]) for row in messages} == {(0, 0), (0, 1), (1, 1)}
    for row in rows:
        assert "failed" not in row and row["placed"] == (None if row in messages else 1), row


# A pod of the restricted profile: seccomp RuntimeDefault, every capability dropped.
@pytest.mark.parametrize("check", ["seccomp", "seccomp-in-a-cpuset"])
def test_first_touch_under_a_seccomp_filter_is_local_and_counts_as_bound(two_nodes, check):
    outcome = two_nodes[check]
    for rank, (policy, pages, cpus) in enumerate(seen(outcome, "policy", "pages", "cpus")):
        assert policy == "default"
        assert pages == {"0" if cpus == "0-1" else "1": PAGES}
        assert outcome.bound(rank) == [
            "Node (asked Node): memory by first touch (set_mempolicy: EPERM)"]


def test_strict_memory_under_a_seccomp_filter_is_partial_and_names_the_remedy(two_nodes):
    assert seen(two_nodes["seccomp-strict"], "policy", "pages") == [
        ("default", {"0": PAGES}), ("default", {"1": PAGES})]
    assert two_nodes["seccomp-strict"].bound(0) == [
        "Partial (asked Node): set_mempolicy: EPERM, give the container the capability SYS_NICE"]


def test_strict_memory_is_bound(two_nodes):
    assert seen(two_nodes["strict"], "policy", "pages") == [
        ("bind:0", {"0": PAGES}), ("bind:1", {"1": PAGES})]


def test_first_touch_is_local_to_bound_cpus(two_nodes):
    assert seen(two_nodes["node-first-touch"], "policy", "pages") == [
        ("default", {"0": PAGES}), ("default", {"1": PAGES})]


def test_ranks_share_the_only_node_with_cpus_in_their_cpuset(two_nodes):
    assert seen(two_nodes["cpuset-of-one-node"], "cpus", "pages", "OMP_NUM_THREADS") == [
        ("2", {"1": PAGES}, "1"), ("3", {"1": PAGES}, "1")]


def test_agent_reports_a_cpuset_without_memory_of_the_node(two_nodes):
    assert seen(two_nodes["cpuset-without-memory"], "cpus", "mems", "pages") == [
        ("0-1", "0", {"0": PAGES}), ("2-3", "0", {"0": PAGES})]
    assert two_nodes["cpuset-without-memory"].bound(1) == [
        "Partial (asked Node): this container gets no memory from NUMA node 1 (cpuset.mems 0)"]


def test_four_ranks_have_four_nodes(four_nodes):
    assert seen(four_nodes["node"], "cpus", "policy", "pages") == [
        (f"{2 * node}-{2 * node + 1}", f"prefer (many):{node}", {f"{node}": PAGES})
        for node in range(4)]


def test_strict_ranks_keep_to_the_nodes_of_their_cpuset(four_nodes):
    assert seen(four_nodes["strict-in-a-cpuset"], "cpus", "policy", "pages") == [
        ("4-5", "bind:2", {"2": PAGES}), ("6-7", "bind:3", {"3": PAGES})]


def on(outcome):
    """For each rank its CPUs, and the nodes that its memory is on."""
    return [(cpus, set(pages)) for cpus, pages in seen(outcome, "cpus", "pages")]


def test_socket_binding_gives_a_rank_all_nodes_of_a_package(four_nodes):
    assert [(cpus, pages <= {"0", "1"}) for cpus, pages in on(four_nodes["socket"])] == [
        ("0-3", True), ("4-7", False)]
    assert on(four_nodes["socket"])[1][1] <= {"2", "3"}
    assert four_nodes["socket"].bound(0) == ["Socket (asked Socket)"]


def test_core_complex_binding_gives_each_rank_the_cpus_of_one_cache(four_nodes):
    assert on(four_nodes["core-complex"]) == [
        (f"{2 * node}-{2 * node + 1}", {f"{node}"}) for node in range(4)]
    assert four_nodes["core-complex"].bound(0) == ["CoreComplex (asked CoreComplex)"]


def test_exclusive_gives_each_of_eight_its_own_core(four_nodes):
    assert on(four_nodes["exclusive"]) == [(f"{cpu}", {f"{cpu // 2}"}) for cpu in range(8)]
    assert four_nodes["exclusive"].bound(7) == ["Exclusive (asked Exclusive)"]


def test_interleave_takes_pages_from_all_nodes_in_turn(four_nodes):
    for cpus, policy, pages in seen(four_nodes["interleave"], "cpus", "policy", "pages"):
        assert (cpus, policy) == ("0-7", "interleave:0-3")
        assert set(pages) == {"0", "1", "2", "3"} and max(pages.values()) <= PAGES // 2, pages
    assert four_nodes["interleave"].bound(0) == ["Interleave (asked Interleave)"]


def test_memory_may_be_interleaved_over_the_nodes_that_a_process_is_bound_to(four_nodes):
    low, high = seen(four_nodes["interleaved-nodes"], "policy", "pages")
    assert (low[0], set(low[1])) == ("interleave:0-1", {"0", "1"})
    assert (high[0], set(high[1])) == ("interleave:2-3", {"2", "3"})


def test_agent_reports_interleaving_under_a_seccomp_filter_as_partial(four_nodes):
    assert "SYS_NICE" in four_nodes["interleave-seccomp"].bound(0)[0]
    assert four_nodes["interleave-seccomp"].bound(0)[0].startswith("Partial (asked Interleave)")


def test_ranks_get_the_cpus_and_memory_of_their_map_entries(four_nodes):
    assert on(four_nodes["map"])[0] == ("6-7", {"0"})
    assert on(four_nodes["map"])[1][0] == "0,2"
    assert on(four_nodes["map"])[1][1] <= {"0", "1"}
    assert four_nodes["map"].bound(0) == ["Map (asked Map)"]


def test_a_launcher_has_the_cores_of_all_its_ranks(four_nodes):
    [(cpus, threads)] = seen(four_nodes["launcher"], "cpus", "OMP_NUM_THREADS")
    assert (cpus, threads) == ("0-7", "2")
