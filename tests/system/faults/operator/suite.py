"""Plays fault plans against lockstep-operator and a real API server.

    run                   what CI runs: the crash plans of two scenarios, the plans in plans/, and a
                          seeded sample of all others
    run --all             every plan, and a minute without a write after each scenario
    run plans/x.json      these

The last line says how many plans were played and how many were violated; these are kept, each in a
file that can be given here again.
"""

import argparse
import asyncio
import contextlib
import pathlib
import random
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/lib", "tools/lib/cluster")]

import plans
import runs
import scenarios
from cluster import Cluster, cluster_in

KINDS = {"crash": plans.crash_plans, "answer": plans.answer_plans, "watch": plans.watch_plans}
ALWAYS = ("create", "machine_loss")  # scenarios whose crash plans are never left to chance
PLANS = pathlib.Path(__file__).parent / "plans"
SAMPLE = 60
AT_ONCE = 24
MINUTE = 60.0
TOLD_EVERY = 250  # plans


def main():
    given = parser().parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        cluster = (Cluster(given.cluster) if given.cluster
                   else stack.enter_context(cluster_in(folder / "cluster", *plans.CLUSTER)))
        bad = asyncio.run(play(cluster, folder, given))
    return 1 if bad else 0


def parser():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("plans", nargs="*", type=pathlib.Path, metavar="PLAN")
    arguments.add_argument("--all", action="store_true", help="every plan of every scenario")
    arguments.add_argument("--scenario", action="append", choices=scenarios.ALL,
                           help="only of this one; may be repeated")
    arguments.add_argument("--kind", choices=KINDS, help="only these plans")
    arguments.add_argument("--sample", type=int, default=SAMPLE, metavar="N",
                           help="how many of the plans that are not always played")
    arguments.add_argument("--seed", type=int, default=1, help="of the sample")
    arguments.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N")
    arguments.add_argument("--cluster", metavar="DIR", help="one that is up, with --gangs; else one is made")
    arguments.add_argument("--results", type=pathlib.Path, default=pathlib.Path("/tmp"),
                           metavar="DIR", help="where plans that were violated go")
    return arguments


async def play(cluster, folder, given):
    """What was violated, one text for each plan."""
    started, report = time.monotonic(), Report(given.results)
    async with runs.Testbed(cluster, folder) as testbed:
        wanted = [plans.Plan.read(path) for path in given.plans]
        names = {plan.scenario for plan in wanted} or given.scenario or scenarios.ALL
        references = await record_all(testbed, names, MINUTE if given.all else runs.QUIET)
        chosen = wanted or choose(references, given)
        report.planned = len(chosen)
        random.Random(given.seed).shuffle(chosen)
        await runs.play_all(testbed, chosen, references, given.at_once, report.add)
    print(f"{report.plans} plans in {time.monotonic() - started:.0f} s, in {report.not_struck} the "
          f"fault did not come; {len(report.violated)} violations", flush=True)
    return report.violated


async def record_all(testbed, names, quiet):
    """Each twice: what differs between two runs without faults says nothing."""
    recorded = await asyncio.gather(*(runs.record(testbed, name, quiet)
                                      for name in [*names, *names]))
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
    if not given.kind:
        always = [plan for plan in map(plans.Plan.read, sorted(PLANS.glob("*.json")))
                  if plan.scenario in references]
    for name, reference in references.items():
        for kind, make in kinds.items():
            (always if kind == "crash" and name in ALWAYS else others).extend(make(reference))
    if given.all:
        return always + others
    return always + random.Random(given.seed).sample(others, min(given.sample, len(others)))


class Report:
    def __init__(self, folder):
        self._folder = folder
        self.planned = self.plans = self.not_struck = 0
        self.violated = []

    def add(self, verdict):
        self.plans += 1
        if self.plans % TOLD_EVERY == 0:
            print(f"{self.plans} of {self.planned} plans", flush=True)
        self.not_struck += not verdict.struck
        if not verdict.violations:
            return
        kept = self._folder / f"violated-{len(self.violated) + 1}.json"
        verdict.plan.write(kept)
        self.violated.append("\n  ".join([
            f"violated after {verdict.seconds:.0f} s: {verdict.plan.name} ({kept})",
            *verdict.violations]))
        print(self.violated[-1])
        print("  the operator's last words:\n" + verdict.log, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
