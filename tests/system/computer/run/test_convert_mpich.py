"""MPICH's mpiexec, started for real, against the jobs that `lockstep convert` makes of its lines."""

import itertools
import os
import pathlib
import subprocess

import pytest
from launches import convert, described, differences, run_of
from launcher_options import WORLD, Mpirun, pairs

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MPIEXEC = CACHE / "lockstep/frameworks/mpich/bin/mpiexec"  # of tools/deps
LONG = "LOCKSTEP_LONG" in os.environ

# Options that start no two ranks on this computer.
UNTRIED = {
    "-n": "the start's own", "-np": "the start's own", "-configfile": "takes the program's place",
    "-info": "prints, and starts nothing", "-gpus-per-proc": "needs GPUs",
    "-hybrid-hosts": "never ends on one host", "-skip-launch-node": "never ends on one host",
}
# Options of a line that a rank of a job can't see, and that may stand in one line.
SIZES = itertools.product(
    [[], ["-n", "4"], ["-np", "3"]], [[], ["-ppn", "2"]],
    [[], ["-hosts", "a,b"], ["-hosts", "a:2,b:2"], ["-f", "FILE"]])
LINES = [
    ["-n", "2", "-genv", "ADDED", "a=b $x $(HOME)", "-wdir", "FOLDER", "-bind-to", "none", "-l",
     "-localhost", "localhost", "-demux", "poll", "-print-all-exitcodes"],
    ["-hosts", "a:2,b:2", "-n", "4", "-launcher", "fork", "-prepend-rank", "-env", "ADDED", "", "-genv",
     "OTHER=c d=e"],
]
# Variables of the launcher's own, of which each start has others.
REASONS = {r"PMI_(FD|HOSTNAME|PORT|ID)|HYDI?_.*|MPIR_.*": "each start has its own",
           r"MPIEXEC_.*|HYDRA_.*|[IO]?MPI_.*|OMPI_.*|PRTE_.*|I_MPI_.*": "Lockstep's, for mpiexec",
           r"PATH|LD_LIBRARY_PATH": "Lockstep's remote shell stands first"}


@pytest.fixture(scope="module")
def mpiexec(tmp_path_factory):
    asked = subprocess.run([MPIEXEC, "--help"], capture_output=True, text=True, check=False)
    folder = tmp_path_factory.mktemp("mpich")
    (folder / "hosts").write_text("localhost:2\n")
    return Mpirun(MPIEXEC, asked.stdout + asked.stderr, folder)


@pytest.fixture(scope="module")
def taken(mpiexec):
    """{spelling: (its words, the ranks that it started)}"""
    return {spelling: mpiexec.taken(spelling)
            for spelling in mpiexec.spellings if spelling not in UNTRIED}


def test_each_option_means_the_same_to_a_converted_job(mpiexec, taken):
    assert len(taken) > 35
    assert [spelling for spelling, (words, _) in taken.items() if words is None] == []
    found = [mpiexec.differences([*WORLD, *words], ranks) for words, ranks in taken.values()]
    assert [each for of_one in found for each in of_one] == []


def test_options_that_are_not_tried_are_known(mpiexec):
    unknown = [option for option in UNTRIED if "is not a known option" in
               convert("--", "mpiexec", option, "1", "a").stderr]
    assert unknown == [] and set(UNTRIED) <= set(mpiexec.spellings)


def test_pairs_of_options_mean_the_same_to_a_converted_job(mpiexec, taken):
    words = [words for words, _ in taken.values()]
    found = [mpiexec.differences([*WORLD, *pair]) for pair in pairs(words, 300 if LONG else 12)]
    assert [each for of_one in found for each in of_one] == []


def test_converted_job_has_the_world_that_mpiexec_starts(mpiexec):
    file = mpiexec.folder / "two-hosts"
    file.write_text("a:2\nb:2\n")
    for parts in SIZES:
        options = [str(file) if word == "FILE" else word for part in parts for word in part]
        assert mpiexec.differences(["-launcher", "fork", *options]) == []


@pytest.mark.parametrize("options", LINES, ids=["one host", "two hosts"])
def test_ranks_of_converted_job_are_given_what_mpiexec_gives(options, mpiexec, tmp_path):
    line = mpiexec.line([word.replace("FOLDER", str(tmp_path)) for word in options])
    launched = described(tmp_path / "launched", line, tmp_path, rank="PMI_RANK")
    run = convert("--", *line)
    assert run.returncode == 0, run.stderr
    ours = described(tmp_path / "ours", run_of(run.stdout, tmp_path), tmp_path, rank="PMI_RANK")
    assert len(launched) == len(ours)
    assert [each for pair in zip(launched, ours) for each in differences(*pair, REASONS)] == []
