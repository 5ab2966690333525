"""Launchers started for real, against the jobs that `lockstep convert` makes of their lines."""

import sys

import pytest
from launches import PROGRAM, convert, described, differences, run_of

# Debian's torch 1.13 starts nothing under Python 3.11 unless it redirects something.
STREAMS = ["-r", "1", "-t1"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", *STREAMS]

# Why a variable may be there under one of the two alone, or have another value.
REASONS = {
    r"TORCHELASTIC_.*": "each start has its own, and more restarts",
    r"GROUP_WORLD_SIZE|NODE_RANK|LOCAL_SIZE|ROLE_NAME": "of some versions alone",
    r"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "of later launchers",
    r"PYTHONUNBUFFERED": "torchrun runs python -u",
}
# A job of one process has a world, too; accelerate starts one without.
OURS_ALONE = {r"((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)": "a job of one process has a world"}

CASES = {
    "torchrun": [*TORCHRUN, "--standalone", "--nproc_per_node", "2", PROGRAM, "--lr", "a b", "$x"],
    "torchrun, cut short": [*TORCHRUN, "--nnode", "1", "--nproc", "2", "--no_p",
                            sys.executable, PROGRAM],
    "torch.distributed.launch": [sys.executable, "-m", "torch.distributed.launch", *STREAMS,
                                 "--nproc_per_node=2", "--master_port=29533",
                                 PROGRAM, "$(RANK)", "p$$w", "a${local_rank}"],
    "accelerate launch": [sys.executable, "-m", "accelerate.commands.launch", "--cpu",
                          "--num_processes", "1", PROGRAM, "--name", "~", "p$$w"],
}


@pytest.mark.parametrize("line", CASES.values(), ids=CASES)
def test_ranks_of_converted_job_are_given_what_the_launcher_gives(line, tmp_path):
    variables = {"HF_HOME": str(tmp_path), "T": "$(HOME)"}
    launched = described(tmp_path / "launched", line, tmp_path, variables)
    run = convert("--", *line)
    assert run.returncode == 0, run.stderr
    ours = described(tmp_path / "ours", run_of(run.stdout, tmp_path), tmp_path, variables)
    assert len(launched) == len(ours)
    has_world = "RANK" in launched[0]["environment"]
    reasons = REASONS if has_world else {**REASONS, **OURS_ALONE}
    assert [each for pair in zip(launched, ours) for each in differences(*pair, reasons)] == []
