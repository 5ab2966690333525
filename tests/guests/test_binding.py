"""What the agent's binding is worth on real kernels with several NUMA nodes, in and out of cpusets
and with and without a container's seccomp filter.

CPUs and policies are what each rank reads of itself, and `pages` where the kernel put its memory.
"""

import pytest
from guest import Check, Guest, MIB

pytestmark = pytest.mark.slow  # each guest is booted, by an emulator

PAGES = MIB << 8
NODE = {"bind": "Node"}
STRICT = {"bind": "Node", "memoryPolicy": "Strict"}


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """CPUs 0 and 1 on node 0, 2 and 3 on node 1."""
    return Guest(nodes=2, cpus=4, distances={(0, 1): 21}).run(tmp_path_factory.mktemp("two"), [
        Check("none", {"bind": "None"}),
        Check("node", NODE, metrics=True),
        Check("node-first-touch", {"bind": "Node", "memoryPolicy": "None"}),
        Check("strict", STRICT),
        Check("cpuset-of-one-node", NODE, cpus="2-3", mems="0-1"),
        Check("cpuset-without-memory", NODE, mems="0"),
    ])


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory):
    """A CPU on each, two nodes a package."""
    near = {(a, b): 12 if a // 2 == b // 2 else 21 for a in range(4) for b in range(a + 1, 4)}
    return Guest(nodes=4, cpus=4, distances=near).run(tmp_path_factory.mktemp("four"), [
        Check("node", NODE, processes=4),
        Check("strict-in-a-cpuset", STRICT, cpus="2-3", mems="2-3"),
    ])


def seen(outcome, *keys):
    assert outcome.code == 0, outcome
    return [tuple(rank[key] for key in keys) for rank in outcome.ranks]


def test_unbound_ranks_run_anywhere_under_no_policy(two_nodes):
    assert seen(two_nodes["none"], "cpus", "policy") == [("0-3", "default")] * 2


def test_each_rank_of_two_has_a_node_and_its_memory(two_nodes):
    assert seen(two_nodes["node"], "cpus", "policy", "pages") == [
        ("0-1", "prefer (many):0", {"0": PAGES}), ("2-3", "prefer (many):1", {"1": PAGES})]
    assert two_nodes["node"].bound(1) == ["bound: Node (asked Node)"]


def test_strict_memory_is_bound(two_nodes):
    assert seen(two_nodes["strict"], "policy", "pages") == [
        ("bind:0", {"0": PAGES}), ("bind:1", {"1": PAGES})]


def test_first_touch_is_local_to_bound_cpus(two_nodes):
    assert seen(two_nodes["node-first-touch"], "policy", "pages") == [
        ("default", {"0": PAGES}), ("default", {"1": PAGES})]


def test_ranks_share_the_node_that_a_cpuset_leaves_them(two_nodes):
    assert seen(two_nodes["cpuset-of-one-node"], "cpus", "pages", "OMP_NUM_THREADS") == [
        ("2", {"1": PAGES}, "1"), ("3", {"1": PAGES}, "1")]


def test_a_cpuset_without_the_nodes_memory_is_named(two_nodes):
    assert seen(two_nodes["cpuset-without-memory"], "cpus", "mems", "pages") == [
        ("0-1", "0", {"0": PAGES}), ("2-3", "0", {"0": PAGES})]
    assert two_nodes["cpuset-without-memory"].bound(1) == [
        "bound: Partial (asked Node): this container gets no memory from NUMA node 1 (cpuset.mems 0)"]


def test_four_ranks_have_four_nodes(four_nodes):
    assert seen(four_nodes["node"], "cpus", "policy", "pages") == [
        (f"{node}", f"prefer (many):{node}", {f"{node}": PAGES}) for node in range(4)]


def test_strict_ranks_keep_to_the_nodes_of_their_cpuset(four_nodes):
    assert seen(four_nodes["strict-in-a-cpuset"], "cpus", "policy", "pages") == [
        ("2", "bind:2", {"2": PAGES}), ("3", "bind:3", {"3": PAGES})]
