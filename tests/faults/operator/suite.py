"""Which plans are played, and what is said of them."""

import asyncio
import contextlib
import pathlib
import random
import sys
import tempfile
import time

import plans
import runs
import scenarios
from cluster import Cluster, cluster_in

KINDS = {"crash": plans.crash_plans, "answer": plans.answer_plans, "watch": plans.watch_plans}
ALWAYS = ("create", "machine_loss")  # scenarios whose crash plans are never left to chance
SAMPLE = 80
AT_ONCE = 24


def main(given):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        cluster = (Cluster(given.cluster) if given.cluster
                   else stack.enter_context(cluster_in(folder / "cluster")))
        bad = asyncio.run(play(cluster, folder, given))
    return 1 if bad else 0


async def play(cluster, folder, given):
    """How many plans were violated."""
    started, report = time.monotonic(), Report(given.results)
    async with runs.Ground(cluster, folder) as ground:
        wanted = [plans.Plan.read(path) for path in given.plans]
        names = {plan.scenario for plan in wanted} or given.scenario or scenarios.ALL
        references = await record_all(ground, names)
        chosen = wanted or choose(references, given)
        random.Random(given.seed).shuffle(chosen)
        await runs.play_all(ground, chosen, references, given.at_once, report.add)
    print(f"{report.plans} plans in {time.monotonic() - started:.0f} s, {report.not_struck} of them "
          f"without their fault; {report.violations} violations", flush=True)
    return report.violations


async def record_all(ground, names):
    """Each twice: what differs between two runs without faults says nothing."""
    recorded = await asyncio.gather(*(runs.record(ground, name) for name in [*names, *names]))
    references = {}
    for run in recorded:
        first = references.setdefault(run.scenario, run)
        unlike = runs.oracles.differences(first.end_state, run.end_state)
        if unlike:
            raise SystemExit(f"two runs of {run.scenario} without faults differ:\n" +
                             "\n".join(unlike))
    for name, run in references.items():
        print(f"{name}: {len(run.writes)} writes, {len(run.events)} watch events", flush=True)
    return references


def choose(references, given):
    kinds = {given.kind: KINDS[given.kind]} if given.kind else KINDS
    always, others = [], []
    for name, reference in references.items():
        for kind, make in kinds.items():
            (always if kind == "crash" and name in ALWAYS else others).extend(make(reference))
    if given.all:
        return always + others
    return always + random.Random(given.seed).sample(others, min(given.sample, len(others)))


class Report:
    def __init__(self, folder):
        self._folder = folder
        self.plans = self.violations = self.not_struck = 0

    def add(self, verdict):
        self.plans += 1
        self.not_struck += not verdict.struck
        if not verdict.violations:
            return
        self.violations += 1
        kept = self._folder / f"violated-{self.violations}.json"
        verdict.plan.write(kept)
        print(f"violated after {verdict.seconds:.0f} s: {verdict.plan.name} ({kept})")
        for violation in verdict.violations:
            print(f"  {violation}")
        print("  the operator's last words:\n" + verdict.log, file=sys.stderr, flush=True)
