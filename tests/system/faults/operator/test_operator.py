"""What CI plays of the fault plans. tests/system/faults/operator/run --all plays every one."""

import asyncio

import liars
import plans
import runs
import suite
from cluster_fixture import cluster_fixture


cluster = cluster_fixture("module", *plans.CLUSTER)


def test_job_reaches_reference_end_state_under_each_fault_plan(cluster, tmp_path):
    given = suite.parser().parse_args(["--results", str(tmp_path)])
    violated = asyncio.run(suite.play(cluster, tmp_path, given))
    assert not violated, "\n".join([f"{len(violated)} plans, of which the first:", *violated[:10]])


def test_lying_agents_delay_no_other_job(cluster, tmp_path):
    async def play():
        async with runs.Testbed(cluster, tmp_path) as testbed:
            return await liars.play(testbed)

    assert asyncio.run(play()) == []
