"""Runs suites of tests: what tools/test does once Python is there. `tools/test --help` explains it."""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

import tested
from beside import Beside
from changed import (
    BuildGraph,
    PythonFiles,
    affects_everything,
    changed_files,
    default_base,
    programs_affected,
)
from closing import closing, slowest
from cost import Meter, table
from fuzzing import Fuzzers
from googletest import GoogleTests
from outcome import Outcome
from pythontest import PythonTests
from rerun import rerun

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep"
RESULTS = ROOT / "build/results"
CORES = os.cpu_count()

DEFAULT = ["unit", "integration"]
SUITES = [*tested.ALL, "frameworks", "arm64"]
# Of the suites integration and slow.
FOLDERS = ["tools", *(f"system/{name}" for name in (
    "api-server", "computer", "browser", "images", "monitoring", "guests"))]
USUAL = {"unit": 60, "integration": 300}  # seconds, until a suite has run here
# What tools/deps installs for a suite, beyond what each needs.
NEEDS = {
    "integration": ["--control-plane"],
    "slow": ["--control-plane", "--guests", "--cluster", "--monitoring"],
    "faults": ["--control-plane"],
    "e2e": ["--control-plane", "--cluster", "--monitoring"],
    "cpprestsdk": ["--control-plane", "--cluster"],
    "frameworks": ["--control-plane", "--frameworks"],
    "arm64": ["--arm64", "--control-plane"],
}
# Options of tools/deps that install nothing else, each a call of its own. The tests would install the
# same themselves, but a download takes longer than a test may.
ALONE = {"integration": ["--packaging", "--docs"], "slow": ["--release", "--images"]}
SANITIZED = {"asan": ["tests_unit", "tests_threaded", "tests_sim"], "fuzz": ["fuzzers"],
             "tsan": ["tests_threaded"]}
# All of the preset, if a suite isn't here.
TARGETS = {**SANITIZED, "arm64": ["lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "kubectl-lockstep",
                                  "lockstep-operator", "lockstep-trainer", "lockstep-guest", "base_test", "core_test"]}
# Suites that keep the cores busy. Those of a preset of their own also build it.
COMPUTE = ["unit", "asan", "fuzz", "tsan"]
# A suite's own preset; the others have --preset's.
PRESETS = {"asan": "asan", "fuzz": "asan", "tsan": "tsan", "arm64": "release-arm64"}


def say(text):
    print(f"test: {text}", file=sys.stderr, flush=True)


def lanes(suites):
    """(suites that run one after the other, suites that run beside them).

    Python tests mostly wait: for API servers, nodes, timers of the product. GoogleTest programs and
    fuzzers need cores and nothing else, so they use the cores that Python tests leave idle.
    """
    beside = [each for each in suites if each in COMPUTE]
    front = [each for each in suites if each not in COMPUTE]
    return (front, beside) if front else (beside, [])


def shell(command, *arguments):
    """Whether a function of tools/lib/common.sh succeeded."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", 'source "$1"; "${@:2}"', "test",
         str(ROOT / "tools/lib/common.sh"), command, *arguments]).returncode == 0


_built = set()


def build(preset, *targets):
    """Whether a preset's targets, or all of it, are built. Once a run: nothing changes meanwhile."""
    if (preset, *targets) not in _built and shell("build", preset, *targets):
        _built.add((preset, *targets))
    return (preset, *targets) in _built


def build_for(suite, preset):
    return build(PRESETS.get(suite, preset), *TARGETS.get(suite, []))


def runners(suite, preset, whole):
    """The runners of a suite. `whole` is --all: what is too long for CI, too."""
    programs = ROOT / "build" / PRESETS.get(suite, preset)

    def python(name, paths, marks="", at_once=1, **variables):
        variables = {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
                     "LOCKSTEP_BIN": str(programs / "bin"), **variables}
        return PythonTests(name, ROOT, [f"tests/{path}" for path in paths], marks, at_once, variables,
                           ROOT / ".venv/bin/python")

    match suite:
        case "unit":
            return [GoogleTests("unit", programs, [])]
        case "integration":
            return [python("integration", FOLDERS, "not slow", CORES)]
        case "slow":
            return [python("slow", FOLDERS, "slow", CORES)]
        case "faults":
            return [python("faults", ["system/faults"], at_once=CORES)]
        case "e2e" if whole:
            seconds = os.environ.get("LOCKSTEP_CHAOS_SECONDS", "600")
            return [python("e2e", ["system/nodes"], at_once=CORES, LOCKSTEP_CHAOS_SECONDS=seconds)]
        case "e2e":
            return [python("e2e", ["system/nodes"], "not slow", CORES)]
        case "cpprestsdk":
            one = "system/nodes/test_lifecycle.py::test_the_readmes_example_trains_across_two_nodes"
            return [python("cpprestsdk", [one, "system/api-server/jobs/test_jobs.py"], "not slow", CORES,
                           LOCKSTEP_HTTP="cpprestsdk")]
        case "frameworks":
            return [python("frameworks", ["system/frameworks"])]
        case "arm64":
            return [GoogleTests("arm64", programs, ["-R", "^core$"]), python("arm64-guests", ["system/arm64"])]
        case "asan":
            return [GoogleTests("asan", programs, ["-L", "unit|threaded|sim"])]
        case "tsan":
            return [GoogleTests("tsan", programs, ["-L", "threaded"])]
        case "fuzz":
            return [Fuzzers("fuzz", programs, ROOT / "tests/fuzz/corpus", CACHE / "fuzz",
                            int(os.environ.get("FUZZ_SECONDS", "10")), say)]


def installation(suites):
    """The line of bash that installs what the suites need."""
    needs = sorted({need for suite in suites for need in NEEDS.get(suite, [])})
    alone = sorted({need for suite in suites for need in ALONE.get(suite, [])})
    deps = str(ROOT / "tools/deps")
    return " && ".join(shlex.join([deps, *options]) for options in [needs, *([each] for each in alone)])


def prepare(suites, preset):
    """Runs tools/deps beside the build. A suite reports what could not be built."""
    subprocess.run([ROOT / "tools/deps", "--demo"], check=True)  # what the build needs
    deps = subprocess.Popen(["bash", "-c", installation(suites)])
    if set(suites) - set(PRESETS):
        if not (ROOT / "build" / preset).exists():
            say("building Lockstep and its tests, once: about 10 minutes on 2 cores")
        build(preset)
    if deps.wait():
        sys.exit(deps.returncode)


class Selection:
    """What --changed leaves of a suite's runners, once the suite is built."""

    def __init__(self, changed):
        self._changed = changed
        self._python = PythonFiles(ROOT)

    def narrow(self, runners, programs):
        """The runners with something left to run. Prints what is left out."""
        graph, kept = BuildGraph(ROOT, programs), []
        for runner in runners:
            names = runner.names()
            if isinstance(names, dict):
                affected = programs_affected(ROOT, graph, names, self._changed)
            else:
                affected = self._python.affected(names, self._changed, graph.shipped(self._changed))
            left_out = sorted(set(names) - set(affected))
            say(f"{runner.suite}: {len(affected)} of {len(names)} can be affected"
                + (f"; left out: {' '.join(left_out)}" if left_out else ""))
            if affected:
                runner.only(affected)
                kept.append(runner)
        return kept


def changes(base):
    """The Selection for what changed since `base`; None if that can affect everything."""
    base = base or default_base(ROOT)
    changed = changed_files(ROOT, base)
    say(f"{len(changed)} files changed since {base[:12]}")
    if widest := next(filter(affects_everything, changed), ""):
        say(f"{widest} can affect everything: nothing is left out")
        return None
    return Selection(changed)


def outcome_of(runner):
    """A runner that fails itself is one failure, and the other suites go on."""
    try:
        return runner.run(RESULTS)
    except Exception as error:
        return Outcome.broken(runner.suite, f"the runner failed: {error!r}")


def tests(suite, preset, whole, selection):
    """Pairs of runner and Outcome."""
    chosen = runners(suite, preset, whole)
    if selection:
        chosen = selection.narrow(chosen, ROOT / "build" / PRESETS.get(suite, preset))
    return [(each, outcome_of(each)) for each in chosen]


def timed(suite, preset, whole, selection):
    """(pairs of runner and Outcome, Costs of the build and of the tests). Prints how long the suite is
    about to take and how it went."""
    times = CACHE / "times" / suite
    usual = times.read_text().strip() if times.exists() else USUAL.get(suite)
    say(f"suite {suite}" + (f", about {usual} s" if usual else ""))
    started, costs = time.monotonic(), []
    with Meter(f"{suite}: build", costs):
        built = build_for(suite, preset)
    with Meter(f"{suite}: tests", costs):
        run = tests(suite, preset, whole, selection) if built else [
            (None, Outcome.broken(suite, "the build failed"))]
    seconds = round(time.monotonic() - started)
    passed, failed = (sum(count) for count in zip(
        (0, 0), *((each.passed, len(each.failed)) for _, each in run)))
    say(f"suite {suite} took {seconds} s: {passed} passed, {failed} failed")
    if not selection and not failed:
        times.parent.mkdir(parents=True, exist_ok=True)
        times.write_text(f"{seconds}\n")
    return run, costs


def parse():
    parser = argparse.ArgumentParser(prog="tools/test", add_help=False)
    parser.add_argument("--preset", default="release")
    parser.add_argument("--all", action="store_true", dest="whole")
    parser.add_argument("--changed", nargs="?", const="", metavar="BASE")
    parser.add_argument("--slowest", type=int, default=0, metavar="N")
    parser.add_argument("suites", nargs="*")
    given = parser.parse_args()
    if given.changed in [*SUITES, "all"]:  # --changed without a BASE, then a suite
        given.suites.insert(0, given.changed)
        given.changed = ""
    for suite in given.suites:
        if suite not in [*SUITES, "all"]:
            say(f"there is no suite '{suite}'; see tools/test --help")
            sys.exit(2)
    return given


def main():
    given = parse()
    suites = tested.ALL if "all" in given.suites else given.suites or DEFAULT
    total = []
    with Meter("tools/deps and the build", total):
        prepare(suites, given.preset)
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    selection = changes(given.changed) if given.changed is not None else None
    commit = tested.commit_of(ROOT)
    front, behind = lanes(suites)

    def all_of(suites):
        run, costs = [], []
        for suite in suites:
            pairs, cost = timed(suite, given.preset, given.whole, selection)
            run += pairs
            costs += cost
        return run, costs

    with Meter("all suites", total), Beside(lambda: all_of(behind), RESULTS / "beside.log") as beside:
        run, costs = all_of(front)
        try:
            more, beside_costs = beside.result()
            run += more
        except RuntimeError as error:
            beside_costs = []
            run.append((None, Outcome.broken(" ".join(behind), str(error))))
    lines = table([*total, *costs, *beside_costs])
    (RESULTS / "costs.txt").write_text("\n".join(lines) + "\n")
    flaky = rerun(run, RESULTS, say)
    outcomes = [outcome for _, outcome in run]
    for line in lines:
        print(line)
    for line in slowest(outcomes, given.slowest):
        print(line)
    if commit and commit == tested.commit_of(ROOT) and not selection and given.preset == "release":
        tested.write(commit, suites, outcomes)
    lines, passed = closing(outcomes, flaky)
    print("\n".join(lines), flush=True)
    if selection:
        say(f"suites left out: {' '.join(each for each in SUITES if each not in suites)}")
        return 1 if any(each.failed for each in outcomes) else 0
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
