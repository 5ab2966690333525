"""libFuzzer programs: each runs for a while, from its seeds and from what earlier runs found.

An input that breaks a target breaks it each time, so none runs again.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import time

from outcome import Failure, Outcome

FIGURES = re.compile(r"(?:number_of_executed_units|new_units_added): +(.*)")


class Fuzzers:
    """The programs *_fuzz of `build`/bin. `seeds` holds a folder of inputs for each, and so does
    `corpora`, which outlives builds and clones and takes what is found."""

    def __init__(self, suite, build, seeds, corpora, seconds, say):
        self.suite = suite
        self._build = pathlib.Path(build)
        self._seeds = pathlib.Path(seeds)
        self._corpora = pathlib.Path(corpora)
        self._seconds = seconds
        self._say = say

        self._names = None

    def names(self):
        """Name -> its program in the build folder."""
        return {each.name: f"bin/{each.name}" for each in (self._build / "bin").glob("*_fuzz")}

    def only(self, names):
        """Leaves out all other targets."""
        self._names = set(names)

    def run(self, results):
        programs = [self._build / path for name, path in sorted(self.names().items())
                    if self._names is None or name in self._names]
        if not programs:
            return Outcome.broken(self.suite, "there are no fuzzers")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            failures = list(pool.map(self._run, programs))
        failed = [each for each in failures if each]
        return Outcome(self.suite, passed=len(programs) - len(failed), failed=failed)

    def _run(self, program):
        name = program.name.removesuffix("_fuzz")
        folder = self._build / "fuzz" / name
        found, seeds = self._corpora / name, self._seeds / name
        for each in (folder, found, seeds):
            each.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with open(folder / "log", "w") as log:
            code = subprocess.run(
                [program, f"-max_total_time={self._seconds}", "-timeout=10",
                 "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={folder}/",
                 found, seeds],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                timeout=self._seconds + 300).returncode
        text = (folder / "log").read_text(errors="replace")
        if code == 0:
            figures = " ".join(FIGURES.findall(text))
            self._say(f"fuzzed {name} for {time.monotonic() - started:.0f} s: {figures} inputs, new ones")
            return None
        self._say(f"the input that broke {name} is in {folder}; run: {program} FILE")
        return Failure(name, "\n".join(text.splitlines()[-40:]))
