"""Launchers started for real, against the jobs that `lockstep convert` makes of their lines."""

import json
import os
import re
import subprocess
import sys

import pytest
from paths import ROOT
from run import NO_SPARES
from tls import binary

PROGRAM = str(ROOT / "tests/lib/describe_itself.py")
# Debian's torch 1.13 starts nothing under Python 3.11 unless it redirects something.
STREAMS = ["-r", "1", "-t1"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", *STREAMS]

# Why a variable may be there under one of them alone, or have another value.
REASONS = {
    r"LOCKSTEP_.*": "Lockstep's own",
    r"MASTER_(ADDR|PORT)": "each start has its own",
    r"TORCHELASTIC_.*": "each start has its own, and more restarts",
    r"OMP_NUM_THREADS": "a rank is given its share of the cores, not one",
    r"TMPDIR": "a rank is given one of its own",
    r"(TORCHINDUCTOR|TRITON|JAX_COMPILATION)_CACHE_DIR": "it outlives a restart",
    r"TORCH_EXTENSIONS_DIR|PYTORCH_KERNEL_CACHE_PATH|CUDA_CACHE_PATH": "it outlives a restart",
    r"(NCCL|GLOO)_.*|TORCH_NCCL_.*": "interfaces, and errors of NCCL that end a rank",
    r"GROUP_WORLD_SIZE|NODE_RANK|LOCAL_SIZE|ROLE_NAME": "of some versions alone",
    r"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "of later launchers",
    r"_|PWD|OLDPWD|SHLVL|LC_CTYPE": "a shell's or Python's",
    r"PYTHONUNBUFFERED": "torchrun runs python -u",
}

# A job of one process has a world, too; accelerate starts one without.
OURS_ALONE = r"((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)"

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


def environment(folder):
    return {**os.environ, "DESCRIBE_TO": str(folder), "HF_HOME": str(folder.parent), "T": "$(HOME)"}


def described(folder, command, cwd):
    """What each rank was given, in the order of ranks."""
    folder.mkdir()
    run = subprocess.run(command, env=environment(folder), cwd=cwd, capture_output=True, text=True,
                         stdin=subprocess.DEVNULL, timeout=100, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    ranks = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return sorted(ranks, key=lambda rank: int(rank["environment"].get("RANK", 0)))


def converted(command, folder):
    run = subprocess.run([binary("lockstep"), "convert", "--", *command], capture_output=True,
                         text=True, check=False)
    assert run.returncode == 0, run.stderr
    file = folder / "job.yaml"
    file.write_text(run.stdout)
    return [binary("lockstep"), "run", *NO_SPARES, str(file)]


def has_reason(name, launched, ours):
    if str(launched).lower() == str(ours).lower():  # True and true
        return True
    patterns = [*REASONS, OURS_ALONE] if launched is None else REASONS
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def differences(launched, ours):
    for name in ("arguments", "folder", "umask", "limits", "executable"):
        if launched[name] != ours[name]:
            yield name, launched[name], ours[name]
    environments = launched["environment"], ours["environment"]
    for name in sorted({name for each in environments for name in each} - {"DESCRIBE_TO"}):
        values = [each.get(name) for each in environments]
        if not has_reason(name, *values):
            yield name, *values


@pytest.mark.parametrize("line", CASES.values(), ids=CASES)
def test_ranks_of_converted_job_are_given_what_the_launcher_gives(line, tmp_path):
    launched = described(tmp_path / "launched", line, tmp_path)
    ours = described(tmp_path / "ours", converted(line, tmp_path), tmp_path)
    assert len(launched) == len(ours)
    assert [each for pair in zip(launched, ours) for each in differences(*pair)] == []
