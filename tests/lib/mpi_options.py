"""A real mpirun, asked for its options, and what each makes of a start and of a converted job.

    mpirun = Mpirun(program, help_text, folder)
    words = mpirun.taken("-ppn")            # ["-ppn", "1"]
    mpirun.differences(["-n", "2", *words])  # [] if the converted job gives its ranks the same

Names come from the launcher's own help. The number of words behind an option comes from the
launcher, too: its program must start with its own arguments.
"""

import itertools
import json
import os
import random
import re
import subprocess

import yaml
from launches import PROGRAM, convert, remarks

PYTHON = "/usr/bin/python3"
ARGUMENTS = ["--lr", "a b", "$x", "-n", "3"]
WORLD = ["-n", "2"]  # of every start that says no other size

# Values of options, where neither the help lists some nor "1" is one. FOLDER is the test's.
VALUES = {
    "hosts": "localhost:2", "host": "localhost:2", "H": "localhost:2", "rankmap": "(vector,0,0)",
    "launcher": "fork", "bind-to": "none", "map-by": "slot", "rank-by": "slot", "iface": "lo",
    "localhost": "localhost", "nameserver": "localhost:1", "order-nodes": "ascending",
    "genvlist": "PATH,DESCRIBE_TO,SET", "envlist": "PATH,DESCRIBE_TO,SET", "genv": "ADDED a=b",
    "env": "ADDED a=b", "x": "ADDED=a=b", "wdir": "FOLDER", "wd": "FOLDER", "f": "FOLDER/hosts",
    "hostfile": "FOLDER/hosts", "machinefile": "FOLDER/hosts", "default-hostfile": "FOLDER/hosts",
    "outfile-pattern": "FOLDER/out", "errfile-pattern": "FOLDER/err", "stdin": "all",
    "output-filename": "FOLDER/out", "report-uri": "FOLDER/uri", "report-pid": "FOLDER/pid",
    "mca": "btl self,tcp", "gmca": "btl self,tcp", "tune": "FOLDER/tune", "am": "FOLDER/tune",
    "personality": "ompi", "usize": "4", "timeout": "60", "path": "/bin", "rf": "FOLDER/ranks",
    "rankfile": "FOLDER/ranks", "cpu-set": "0", "cpu-list": "0", "ppr": "2:node",
    "launch-agent": "orted", "memory-alloc-kinds": "system", "max-vm-size": "2",
}
# Variables that the launcher makes anew at each start.
OF_EACH_START = (r"DESCRIBE_TO|PMI_\w+|HYDI?_\w+|MPI_LOCAL\w+|OMPI_(?!MCA_btl)\w+|PMIX_\w+|PRTE_\w+"
                 r"|ORTE_\w+|MPIR_\w+|IPATH_\w+|HFI_\w+|PATH|(DY)?LD_LIBRARY_PATH|OLDPWD|PWD|_|SHLVL|PYTEST_\w+")
# Options that alone name hosts.
HOSTS = {"-hosts", "-f", "-host", "--host", "-H", "-hostfile", "--hostfile", "-machinefile"}


def of_help(text):
    """The spellings of all options, with their dashes."""
    spellings = []
    for line in text.splitlines():
        found = re.match(r"\s*((?:--?[\w-]+[|/])*--?[a-zA-Z][\w-]*)(?=\s|$)", line)
        spellings += re.split(r"[|/]", found[1]) if found else []
    return sorted(set(spellings))


def pairs(lists, number):
    """`number` joined pairs of lists of words, the same ones at each run."""
    chosen = random.Random(number).sample(list(itertools.combinations(lists, 2)), number)
    return [one + other for one, other in chosen]


def per_host(ranks):
    """How many ranks each host has, from the ranks' numbers on their hosts."""
    locals_ = [int(rank["environment"].get("MPI_LOCALRANKID")
                   or rank["environment"]["OMPI_COMM_WORLD_LOCAL_RANK"]) for rank in ranks]
    return sorted(sum(locals_.count(number) > host for number in set(locals_))
                  for host in range(locals_.count(0)))


class Mpirun:
    def __init__(self, program, help_text, folder, variables=None):
        self.program, self.folder = str(program), folder
        self.variables = {"SET": "by the shell", **(variables or {})}
        self.spellings = of_help(help_text)
        self.listed = {name: first for name, first in re.findall(
            r"^\s+-([\w-]+) .*\((\w+)[ )]", help_text, re.M) if first != "default"}
        self.starts = 0
        self.plain = self.start(WORLD)[0]["environment"]

    def value(self, spelling):
        name = spelling.lstrip("-")
        text = VALUES.get(name) or self.listed.get(name) or "1"
        return [word.replace("FOLDER", str(self.folder)) for word in text.split(" ")]

    def line(self, options):
        return [self.program, *options, PYTHON, PROGRAM, *ARGUMENTS]

    def start(self, options):
        """What each rank was given; None if the program did not start with its own arguments."""
        self.starts += 1
        to = self.folder / f"start-{self.starts}"
        to.mkdir()
        run = subprocess.run(self.line(options), cwd=self.folder, capture_output=True, check=False,
                             timeout=60, stdin=subprocess.DEVNULL,
                             env={**os.environ, **self.variables, "DESCRIBE_TO": str(to)})
        ranks = [json.loads(file.read_text()) for file in to.glob("*.json")]
        good = ranks and run.returncode == 0 and all(r["arguments"] == ARGUMENTS for r in ranks)
        return ranks if good else None

    def taken(self, spelling):
        """The option with as many words as the launcher takes for its value, and the ranks."""
        for words in [[spelling], [spelling, *self.value(spelling)]]:
            if ranks := self.start([*WORLD, *words]):
                return words, ranks
        return None, None

    def differences(self, options, ranks=None):
        """[(name, the launcher's value, the job's)], where no remark names an option of the line."""
        ranks = ranks or self.start(options)
        run = convert("--", *self.line(options))
        if run.returncode != 0:
            # A line that the launcher takes is refused with a reason, not for want of a name.
            return [run.stderr] if ranks and "is known here" in run.stderr else []
        if ranks is None:
            return []
        said = " ".join(remarks(run.stdout))
        named = [word for word in options if word.startswith("-")
                 and re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", said)]
        found = self.compared(options, ranks, yaml.safe_load(run.stdout)["spec"],
                              "LOOK AT THIS" in said)
        return [(" ".join(options), *each) for each in found
                if not named or each[0] in ("program", "world")]

    def compared(self, options, ranks, spec, looks):
        world = [spec.get("processesPerMachine", 1)] * spec.get("numMachines", 1)
        started = per_host(ranks)
        if not HOSTS & set(options):  # of a batch system as a rule, here of this computer alone
            started, world = [sum(started)], [sum(world)]
        if started != world and not looks:
            yield "world", started, world
        program = spec["command"][spec["command"].index(PYTHON):]
        if spec["command"][0] != self.program or program != [PYTHON, PROGRAM, *ARGUMENTS]:
            yield "program", spec["command"]
        if spec.get("workingDir", str(self.folder)) != ranks[0]["folder"]:
            yield "folder", ranks[0]["folder"], spec.get("workingDir")
        added = {entry["name"]: entry.get("value", "") for entry in spec.get("env", [])}
        ours, theirs = {**self.plain, **added}, ranks[0]["environment"]
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name) and not re.fullmatch(OF_EACH_START, name):
                yield name, theirs.get(name), ours.get(name)
