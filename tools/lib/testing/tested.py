"""Which suites passed on which commit, under ~/.cache/lockstep/tested: a release asks for them.

CI and developers work in different clones, so the record is kept beside all of them.
"""

import datetime
import json
import os
import pathlib
import subprocess

ALL = ["unit", "integration", "slow", "faults", "e2e", "cpprestsdk", "asan", "fuzz", "tsan"]  # of `tools/test all`
FOLDER = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep/tested"


def commit_of(root):
    """The commit of the tree `root`; None if something in it is not committed."""
    def said(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)

    status, head = said("status", "--porcelain"), said("rev-parse", "HEAD")
    if status.returncode or head.returncode or status.stdout.strip():
        return None
    return head.stdout.strip()


def write(commit, suites, outcomes, folder=FOLDER):
    """Records each of `suites` that ran and in which nothing failed. A suite's outcomes have its name, or its
    name with a hyphen and more. A suite that failed loses its record.
    """
    for suite in suites:
        own = [each for each in outcomes if each.suite == suite or each.suite.startswith(f"{suite}-")]
        path = folder / commit / f"{suite}.json"
        if not own or any(each.failed for each in own) or not sum(each.passed for each in own):
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        made = path.with_suffix(".new")
        made.write_text(json.dumps({"passed": sum(each.passed for each in own),
                                    "skipped": sum(each.skipped for each in own), "at": now}) + "\n")
        made.replace(path)


def missing(commit, suites, folder=FOLDER):
    """Those of `suites` without a record."""
    return [suite for suite in suites if not (folder / commit / f"{suite}.json").is_file()]
