"""Plays plans against the real API server, many at once, and judges each."""

import asyncio
import contextlib
import dataclasses
import secrets
import time

import oracles
import queue_writer
import scenarios
from api_client import ApiClient, ApiError, ApiServer
from api_proxy import Certificate
from cluster import CRDS
from kubelet_writer import Nodes
from world import World

QUIET = 3.0       # seconds without a write once everything matches
PATIENCE = 90.0   # seconds for the end state to match and for quiet to come


@dataclasses.dataclass
class Recording:
    """What a plan left behind."""

    scenario: str
    end_state: dict
    writes: list
    events: list
    usage: dict


@dataclasses.dataclass
class Verdict:
    plan: object
    violations: list
    struck: bool
    seconds: float
    log: str = ""


class Testbed:
    """The parts that all plans share: the cluster with the CRD, nodes, a certificate for proxies."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.server = ApiServer.from_kubeconfig(cluster.kubeconfig)
        self.certificate = Certificate(folder)
        self.nodes = None

    async def __aenter__(self):
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", CRDS)
        self._api = ApiClient(self.server)
        await self._make_queues()
        mark = secrets.token_hex(4)
        self.nodes = Nodes(self._api, [f"faults-{mark}-{index}" for index in range(4)])
        await self.nodes.make()
        self._beating = asyncio.create_task(self.nodes.beat())
        return self

    async def _make_queues(self):
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for crd in queue_writer.CRDS:
            if not await self._api.find(f"{crds}/{crd['metadata']['name']}"):
                await self._api.call("POST", crds, crd)
        group = "/apis/kueue.x-k8s.io/v1beta2"
        while not await self._serves(f"{group}/workloads", f"{group}/resourceflavors",
                                     "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
                                     "/apis/scheduling.k8s.io/v1alpha2/podgroups"):
            await asyncio.sleep(0.05)
        if not await self._api.find(f"{group}/resourceflavors/plain"):
            await self._api.call("POST", f"{group}/resourceflavors", queue_writer.FLAVOR)

    async def _serves(self, *paths):
        try:
            return all([await self._api.call("GET", path) for path in paths])
        except ApiError:
            return False

    async def __aexit__(self, *_):
        self._beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._beating
        await self.nodes.remove()
        self._api.close()


async def record(testbed, scenario, quiet=QUIET):
    """A run without faults, to which all others of the scenario are compared."""
    async with World(testbed, []) as world:
        await scenarios.ALL[scenario](world)
        await _quiet(world, quiet)
        return await _left_behind(world, scenario)


async def play(testbed, plan, reference):
    started = time.monotonic()
    world = World(testbed, plan.made_faults(), plan.operators, plan.options)
    try:
        async with world:
            violations = await _judge(world, plan, reference)
    except Exception as error:  # one that cannot be judged is told like any other
        violations = [f"{type(error).__name__}: {error}"]
    return Verdict(plan, violations, any(fault.fired for fault in world.proxy.faults),
                   time.monotonic() - started,
                   world.operators[0].log_end() if violations else "")


async def play_all(testbed, plans, references, at_once, on_verdict):
    waiting = iter(plans)

    async def work():
        for plan in waiting:
            on_verdict(await play(testbed, plan, references[plan.scenario]))

    await asyncio.gather(*(work() for _ in range(at_once)))


async def _judge(world, plan, reference):
    await scenarios.ALL[plan.scenario](world)
    deadline = time.monotonic() + PATIENCE
    while True:
        await _quiet(world)
        run = await _left_behind(world, plan.scenario)
        unlike = oracles.differences(reference.end_state, run.end_state)
        if not unlike or time.monotonic() > deadline:
            break
    writes = run.writes
    return [
        *unlike,
        *oracles.as_often_as(oracles.creations(reference.writes), oracles.creations(writes),
                             "created"),
        *oracles.as_often_as(oracles.deletions(reference.writes), oracles.deletions(writes),
                             "deleted"),
        *oracles.nothing_foreign_written(writes, world.uids),
        *oracles.epoch_before_pods(writes),
        *oracles.group_before_pods(writes),
        *oracles.nothing_while_anothers(writes, world.claim.held),
        *(oracles.pods_only_while_admitted(writes, world.queue.admitted_at)
          if world.queue.admitted_at else []),
        *oracles.few_writes(reference.writes, writes, len(plan.faults)),
        *oracles.no_growth(reference.usage, run.usage),
        *(f"an operator ended by itself: {code}"
          for operator in world.operators for code in operator.deaths),
        *([] if await world.decoys_now() == world.decoys else ["a foreign object was changed"]),
    ]


async def _quiet(world, seconds=QUIET):
    """Waits for so long in which an operator leads and writes nothing but its Lease."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        before = len(world.proxy.calls)
        await asyncio.sleep(seconds)
        written = [call for call in world.proxy.calls[before:] if call.is_write]
        if written and all(call.key.resource == "leases" for call in written):
            return
    raise AssertionError(f"still writes, or does not lead, after {PATIENCE:g} s: "
                         f"{[str(call.key) for call in world.proxy.writes()[-5:]]}")


async def _left_behind(world, scenario):
    objects = await world.objects()
    return Recording(scenario, oracles.end_state(objects, world.uids, world.namespace),
               world.proxy.writes(), list(world.proxy.events), world.operators[0].usage())
