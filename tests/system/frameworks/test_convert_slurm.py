"""srun and sbatch of a real SLURM with two nodes, against the jobs of `lockstep convert`."""

import itertools
import os
import subprocess

import pytest
import slurm
from launcher_options import Launcher, of_help, pairs
from launches import convert, described, differences, run_of

LONG = "LOCKSTEP_LONG" in os.environ
SIZE = ["-N2", "--ntasks-per-node=2"]

# Options with which this site starts no four ranks that describe themselves, without dashes.
UNTRIED = {
    "h": "starts nothing", "help": "starts nothing", "usage": "starts nothing",
    "export-file": "needs a file of variables",
    "V": "starts nothing", "version": "starts nothing", "H": "waits for a person",
    "hold": "waits for a person", "multi-prog": "takes the program's place",
    "container": "the site has no containers", "het-group": "the job has one part",
    "jobid": "there is no other job", "x": "leaves one node", "exclude": "leaves one node",
    "M": "the site is one cluster", "clusters": "the site is one cluster",
    "reservation": "the site has none", "L": "the site has none", "licenses": "the site has none",
    "C": "the nodes have no features", "constraint": "the nodes have no features",
    "cluster-constraint": "the site is one cluster", "q": "the site has none",
    "qos": "the site has none", "array": "several jobs", "a": "several jobs",
    "Z": "needs names of nodes", "no-allocate": "needs names of nodes",
    "pty": "needs a terminal", "bb": "the site has none", "bbf": "the site has none",
    "b": "waits", "begin": "waits", "d": "waits", "dependency": "waits",
    "r": "leaves one node", "relative": "leaves one node", "tmp": "the nodes say no disk",
    "cpus-per-gpu": "needs GPUs beside it", "mem-per-gpu": "needs GPUs beside it",
    "gpus-per-socket": "needs sockets beside it",
}
VALUES = {
    "nodes": "2", "N": "2", "n": "4", "ntasks": "4", "ntasks-per-node": "2", "time": "5", "t": "5",
    "gres": "gpu:2", "mem": "100M", "mem-per-cpu": "10M", "mem-per-gpu": "10M", "gpus": "4",
    "G": "4", "nodelist": "n[1-2]", "w": "n[1-2]", "chdir": "FOLDER", "D": "FOLDER",
    "partition": "p", "p": "p", "export": "ALL,ADDED=b", "signal": "TERM@60", "mpi": "none",
    "distribution": "block", "m": "block", "profile": "none", "mail-type": "NONE",
    "deadline": "now+1hour", "input": "none", "i": "none", "output": "FOLDER/out",
    "o": "FOLDER/out", "error": "FOLDER/err", "e": "FOLDER/err", "F": "FOLDER/nodes",
    "nodefile": "FOLDER/nodes", "cpu-bind": "none", "gpu-bind": "none", "extra-node-info": "1",
    "propagate": "ALL", "wait": "30", "acctg-freq": "task=0", "ntasks-per-gpu": "1", "bcast": "",
    "task-prolog": "/bin/true", "task-epilog": "/bin/true", "prolog": "/bin/true",
    "epilog": "/bin/true", "exclusive": "user", "uid": "0", "gid": "0", "cpu-freq": "low",
    "switches": "1", "gres-flags": "disable-binding", "gpu-freq": "low", "reboot": "",
}
# Sizes: of nodes, of tasks, of GPUs.
SIZES = list(itertools.product(
    [[], ["-N2"], ["--nodes=1-2"]], [[], ["-n4"], ["--ntasks-per-node=2"],
                                     ["-n", "4", "--ntasks-per-node", "2"]],
    [[], ["--gpus-per-node=4"], ["--gpus=4", "--ntasks-per-gpu=1"], ["--gpus-per-task=1"]]))
# SLURM's own, which a job has none of.
REASONS = {r"(SLURM|SRUN|SBATCH|SLURMD)_.*|SLURMD_NODENAME": "SLURM's", r"TMPDIR": "Lockstep's",
           r"(CUDA_VISIBLE|ROCR_VISIBLE|GPU|ZE_AFFINITY)_.*": "of nodes with GPUs",
           r"((LOCAL|GROUP|ROLE)_)?(RANK|WORLD_SIZE)|LOCAL_SIZE|NODE_RANK|TORCHELASTIC_.*":
               "torchrun's, which srun's ranks lack"}


class Srun(Launcher):
    hosts = {"-N2", "--ntasks-per-node", "--nodelist", "-w"}
    joins = True

    def __init__(self, site, folder, program="srun"):
        self.site = site
        (folder / "nodes").write_text("n1\nn2\n")
        asked = site.ask(program, "--help")
        super().__init__(program, asked, folder, site.environment, SIZE)

    def value(self, spelling):
        return [VALUES.get(spelling.lstrip("-"), "1").replace("FOLDER", str(self.folder))]

    def per_host(self, ranks):
        nodes = [rank["environment"]["SLURM_NODEID"] for rank in ranks]
        return sorted(map(nodes.count, set(nodes)))

    def changes(self, command):
        return len(command) != len([word for word in self.line([]) if word != self.program])


class Sbatch(Srun):
    """The options stand in lines of a script, whose srun has none."""

    def __init__(self, site, folder):
        super().__init__(site, folder, "sbatch")

    def script(self, options):
        lines = [f"#SBATCH {option}" for option in options]
        words = " ".join(f"'{word}'" for word in super().line([])[1:])
        return "\n".join(["#!/bin/sh", *lines, f"srun {words}", ""])

    def run(self, options, variables):
        file = self.folder / f"script-{self.starts}"
        file.write_text(self.script(options))
        return subprocess.run(["sbatch", "--wait", str(file)], cwd=self.folder, check=False,
                              env={**os.environ, **self.variables, **variables}, timeout=60,
                              capture_output=True, stdin=subprocess.DEVNULL)

    def converted(self, options):
        return convert("-", text=self.script(options))

    def compared(self, options, *others):
        # Told --export by root, sbatch adds what the user's login shell sets.
        adds = any(option.startswith("--export=") for option in options)
        for name, *values in super().compared(options, *others):
            if not adds or name in ("ADDED", *self.plain) or values[-1] is not None:
                yield name, *values


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if why := slurm.missing():
        pytest.skip(why)
    with slurm.running_site(tmp_path_factory.mktemp("slurm"), cores=8, gpus=8) as made:
        yield made


@pytest.fixture(scope="module", params=[Srun, Sbatch], ids=["srun", "sbatch"])
def launcher(request, site, tmp_path_factory):
    return request.param(site, tmp_path_factory.mktemp("launcher"))


@pytest.fixture(scope="module")
def taken(launcher):
    """{spelling: (its words, the ranks that it started)}"""
    return {spelling: launcher.taken(spelling) for spelling in launcher.spellings
            if spelling.lstrip("-") not in UNTRIED}


def test_each_option_means_the_same_to_a_converted_job(launcher, taken):
    assert [spelling for spelling, (words, _) in taken.items() if words is None] == []
    found = [launcher.differences([*SIZE, *words], ranks) for words, ranks in taken.values()]
    assert len(taken) > 60 and [each for of_one in found for each in of_one] == []


def test_options_that_are_not_tried_are_known_if_they_start_something(site):
    """convert refuses the others, such as --help."""
    names = [name for name in of_help(site.ask("srun", "--help"))
             if UNTRIED.get(name.lstrip("-"), "starts nothing") != "starts nothing"]
    assert len(names) > 20
    unknown = [name for name in names
               if "is not a known option" in convert("--", "srun", "-N2", name, "1", "a").stderr]
    assert unknown == []


def test_pairs_of_options_mean_the_same_to_a_converted_job(launcher, taken):
    words = [words for words, _ in taken.values() if words]
    found = [launcher.differences([*SIZE, *pair]) for pair in pairs(words, 200 if LONG else 25)]
    assert [each for of_one in found for each in of_one] == []


def test_converted_job_has_the_world_that_slurm_starts(launcher):
    found = [launcher.differences(sum(parts, [])) for parts in SIZES]
    assert [each for of_one in found for each in of_one] == []


@pytest.mark.parametrize("options", [SIZE, ["-N1", "-n2", "--export=ALL,ADDED=a b"]],
                         ids=["two nodes", "one node"])
def test_ranks_of_converted_job_are_given_what_srun_gives(options, site, tmp_path):
    srun = Srun(site, tmp_path)
    line = srun.line(options)
    launched = described(tmp_path / "launched", line, tmp_path, srun.variables,
                         rank="SLURM_PROCID")
    run = convert("--", *line)
    assert run.returncode == 0, run.stderr
    ours = described(tmp_path / "ours", run_of(run.stdout, tmp_path), tmp_path, srun.variables)
    assert len(launched) == len(ours)
    assert [each for pair in zip(launched, ours) for each in differences(*pair, REASONS)] == []
