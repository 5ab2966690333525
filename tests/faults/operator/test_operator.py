"""What CI plays of the fault plans. tests/faults/operator/run --all plays every one."""

import asyncio

import suite


def test_whatever_is_broken_the_job_ends_up_as_if_nothing_had_been(cluster, tmp_path):
    given = suite.parser().parse_args(["--results", str(tmp_path)])
    assert asyncio.run(suite.play(cluster, tmp_path, given)) == 0
