"""A real launcher, asked for its options, and what each makes of a start and of a converted job.

    mpirun = Mpirun(program, help_text, folder)
    words, ranks = mpirun.taken("-ppn")      # ["-ppn", "1"], what each rank was given
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
    "npernode": "2", "N": "2", "npersocket": "2",
}
# Variables that the launcher makes anew at each start.
OF_EACH_START = (r"DESCRIBE_TO|TMPDIR|PMI_\w+|HYDI?_\w+|MPI_LOCAL\w+|OMPI_(?!MCA_btl)\w+|PMIX_\w+|PRTE_\w+"
                 r"|S(LURMD?|RUN|BATCH)_\w+|ORTE_\w+|MPIR_\w+|IPATH_\w+|HFI_\w+|PATH|(DY)?LD_LIBRARY_PATH|OLDPWD|PWD|_|SHLVL|PYTEST_\w+")


def of_help(text):
    """The spellings of all options, with their dashes."""
    spellings = []
    for line in text.splitlines():
        found = re.match(r"\s*((?:--?[\w-]+(?:[|/]|, +))*--?[a-zA-Z][\w-]*)(?=[\s=\[{]|$)", line)
        spellings += re.split(r"[|/]|, +", found[1]) if found else []
    return sorted(set(spellings))


def pairs(lists, number):
    """`number` joined pairs of lists of words, the same ones at each run."""
    chosen = random.Random(number).sample(list(itertools.combinations(lists, 2)), number)
    return [one + other for one, other in chosen]


class Launcher:
    """What mpirun and srun have in common. `size`: of every start that says no other."""

    hosts = set()  # options that alone say on how many hosts the ranks run
    joins = False  # a value may stand behind the option's =

    def __init__(self, program, help_text, folder, variables, size):
        self.program, self.folder, self.size = str(program), folder, size
        self.variables = {"SET": "by the shell", **variables}
        self.spellings = of_help(help_text)
        self.listed = {name: first for name, first in re.findall(
            r"^\s+-([\w-]+) .*\((\w+)[ )]", help_text, re.M) if first != "default"}
        self.starts = 0
        self.plain = self.start(size)[0]["environment"]

    def value(self, spelling):
        name = spelling.lstrip("-")
        text = VALUES.get(name) or self.listed.get(name) or "1"
        return [word.replace("FOLDER", str(self.folder)) for word in text.split(" ")]

    def line(self, options):
        return [self.program, *options, PYTHON, PROGRAM, *ARGUMENTS]

    def run(self, options, variables):
        return subprocess.run(self.line(options), cwd=self.folder, capture_output=True, check=False,
                              timeout=60, stdin=subprocess.DEVNULL,
                              env={**os.environ, **self.variables, **variables})

    def converted(self, options):
        return convert("--", *self.line(options))

    def start(self, options):
        """What each rank was given; None if the program did not start with its own arguments."""
        self.starts += 1
        to = self.folder / f"start-{self.starts}"
        to.mkdir()
        run = self.run(options, {"DESCRIBE_TO": str(to)})
        ranks = [json.loads(file.read_text()) for file in to.glob("*.json")]
        good = ranks and run.returncode == 0 and all(r["arguments"] == ARGUMENTS for r in ranks)
        return ranks if good else None

    def taken(self, spelling):
        """The option with as many words as the launcher takes for its value, and the ranks."""
        value = self.value(spelling)
        joined = [f"{spelling}={value[0]}"] if spelling.startswith("--") else [spelling + value[0]]
        for words in [[spelling], joined if self.joins else [spelling, *value]]:
            if ranks := self.start([*self.size, *words]):
                return words, ranks
        return None, None

    def differences(self, options, ranks=None):
        """[(name, the launcher's value, the job's)], where no remark names an option of the line."""
        ranks = ranks or self.start(options)
        run = self.converted(options)
        if run.returncode != 0:
            # A line that the launcher takes is refused with a reason, not for want of a name.
            return [run.stderr] if ranks and "is not a known option" in run.stderr else []
        if ranks is None:
            return []
        said = " ".join(remarks(run.stdout))
        named = [word for word in options if word.startswith("-")
                 and re.search(rf"(?<![\w-]){re.escape(word.split('=')[0])}(?![\w-])", said)]
        found = self.compared(options, ranks, yaml.safe_load(run.stdout)["spec"],
                              "LOOK AT THIS" in said)
        return [(" ".join(options), *each) for each in found
                if not named or each[0] in ("program", "world")]

    def compared(self, options, ranks, spec, looks):
        world = [spec.get("processesPerMachine", 1)] * spec.get("numMachines", 1)
        started = self.per_host(ranks)
        if not self.hosts & {option.split("=")[0] for option in options}:
            started, world = [sum(started)], [sum(world)]
        if started != world and not looks:
            yield "world", started, world
        program = spec["command"][spec["command"].index(PYTHON):]
        if self.changes(spec["command"]) or program != [PYTHON, PROGRAM, *ARGUMENTS]:
            yield "program", spec["command"]
        if spec.get("workingDir", str(self.folder)) != ranks[0]["folder"]:
            yield "folder", ranks[0]["folder"], spec.get("workingDir")
        added = {entry["name"]: entry.get("value", "") for entry in spec.get("env", [])}
        ours, theirs = {**self.plain, **added}, ranks[0]["environment"]
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name) and not re.fullmatch(OF_EACH_START, name):
                yield name, theirs.get(name), ours.get(name)

    def per_host(self, ranks):
        """How many ranks each host has."""
        raise NotImplementedError

    def changes(self, command):
        """Whether a job's command starts with other words than it should."""
        raise NotImplementedError


class Mpirun(Launcher):
    # Without them the hosts are a batch system's as a rule, and here this computer alone.
    hosts = {"-hosts", "-f", "-host", "--host", "-H", "-hostfile", "--hostfile", "-machinefile"}

    def __init__(self, program, help_text, folder, variables=None):
        super().__init__(program, help_text, folder, variables or {}, WORLD)

    def per_host(self, ranks):
        of_hosts = [int(rank["environment"].get("MPI_LOCALRANKID")
                        or rank["environment"]["OMPI_COMM_WORLD_LOCAL_RANK"]) for rank in ranks]
        return sorted(sum(of_hosts.count(number) > host for number in set(of_hosts))
                      for host in range(of_hosts.count(0)))

    def changes(self, command):
        return command[0] != self.program
