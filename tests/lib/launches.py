"""What a launcher gives to its ranks, and what a job of `lockstep convert` gives to them.

    launched = described(tmp_path / "launched", line, tmp_path)
    ours = described(tmp_path / "ours", run_of(job, tmp_path), tmp_path)
    differences(launched, ours, reasons)
"""

import json
import os
import re
import subprocess

from paths import ROOT
from run import NO_SPARES
from tls import binary

PROGRAM = str(ROOT / "tests/lib/describe_itself.py")

# Why a variable may be there under one of the two alone, or have another value.
REASONS = {
    r"LOCKSTEP_.*": "Lockstep's own",
    r"MASTER_(ADDR|PORT)": "each start has its own",
    r"OMP_NUM_THREADS": "a rank is given its share of the cores, not one",
    r"TMPDIR": "a rank is given one of its own",
    r"(TORCHINDUCTOR|TRITON|JAX_COMPILATION)_CACHE_DIR": "it outlives a restart",
    r"TORCH_EXTENSIONS_DIR|PYTORCH_KERNEL_CACHE_PATH|CUDA_CACHE_PATH": "it outlives a restart",
    r"(NCCL|GLOO)_.*|TORCH_NCCL_.*": "interfaces, and errors of NCCL that end a rank",
    r"_|PWD|OLDPWD|SHLVL|LC_CTYPE": "a shell's or Python's",
}


class Refused(Exception):
    """The launcher ended with an error, or started no rank."""


def described(folder, command, cwd, variables=None, patience=100, rank="RANK"):
    """What each rank was given, in the order of ranks. `rank`: the variable that has its number."""
    folder.mkdir()
    run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False,
                         env={**os.environ, **(variables or {}), "DESCRIBE_TO": str(folder)},
                         stdin=subprocess.DEVNULL, timeout=patience)
    ranks = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    if run.returncode != 0 or not ranks:
        raise Refused(f"{command}\n{run.stdout}\n{run.stderr}")
    return sorted(ranks, key=lambda each: int(each["environment"].get(rank, 0)))


def convert(*command, text=None, cwd=None):
    return subprocess.run([binary("lockstep"), "convert", *command], input=text, cwd=cwd,
                          capture_output=True, text=True, check=False)


def remarks(text):
    """The comments of a converted job, each on one line."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    return re.sub(r"\n#   ", " ", "\n".join(comments)).splitlines()


def run_of(job, folder):
    """The command that runs a converted job, whose text is `job`, on this computer."""
    file = folder / "job.yaml"
    file.write_text(job)
    return [binary("lockstep"), "run", *NO_SPARES, str(file)]


def has_reason(name, launched, ours, reasons):
    return (str(launched).lower() == str(ours).lower()  # True and true
            or any(re.fullmatch(pattern, name) for pattern in reasons))


def differences(launched, ours, reasons):
    """(name, value under the launcher, value under `lockstep run`) of one rank."""
    for name in ("arguments", "folder", "umask", "limits", "executable"):
        if launched[name] != ours[name]:
            yield name, launched[name], ours[name]
    environments = launched["environment"], ours["environment"]
    for name in sorted({name for each in environments for name in each} - {"DESCRIBE_TO"}):
        values = [each.get(name) for each in environments]
        if not has_reason(name, *values, {**REASONS, **reasons}):
            yield name, *values
