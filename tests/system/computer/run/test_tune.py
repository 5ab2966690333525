"""`lockstep tune`: short trials of a program with several numbers of processes."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import yaml
from paths import MODULES
from processes import children
from tls import binary
from waiting import wait_until

# The more ranks, the longer a step: 50 ms more for each beyond the first.
PRINTS = """\
import os, sys, time
ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
if ranks == 4:
    sys.exit("no room for 4")
for step in range(1, 10**6):
    time.sleep(0.05 * ranks)
    if rank == 0:
        print(f"step {step} loss 1.5", flush=True)
"""

REPORTS = """\
import os, pathlib, time, lockstep
pathlib.Path(os.environ["SEEN"]).write_text(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
for step in range(1, 10**6):
    time.sleep(0.02)
    lockstep.report(step=step, loss=1.5, tokens=100)
"""


def tune(folder, *words):
    return subprocess.run([binary("lockstep"), "tune", "--seconds", "1", "--warm-up", "0.2", *words],
                          check=False, timeout=300, capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(MODULES)})


def command(folder, source):
    program = folder / "program.py"
    program.write_text(source)
    return [sys.executable, str(program)]


def test_settings_are_compared_by_steps_that_rank_0_prints(tmp_path):
    done = tune(tmp_path, "-p", "1,2,4", "-r", "2", "--json", "all.json", "--html", "page.html",
                "-o", "best.yaml", "--framework", "None", "--", *command(tmp_path, PRINTS))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "all.json").read_text())
    one, two, four = report["settings"]
    assert one["stepsPerSecond"]["median"] > two["stepsPerSecond"]["median"], done.stdout
    assert one["work"]["trials"] == two["work"]["trials"] == 2
    assert one["efficiency"] == 1
    assert "no room for 4" in four["failed"] or "code 1" in four["failed"], four
    assert "work" not in four
    assert report["best"] in (0, 1)
    best = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert best["spec"].get("processesPerMachine", 1) == report["best"] + 1
    assert best["spec"]["command"][-1].endswith("program.py")
    assert "Most work: 1 machine" in done.stdout
    assert "<svg" in (tmp_path / "page.html").read_text()
    kept = pathlib.Path(done.stderr.split("output: ")[1].split()[0])
    assert "no room for 4" in kept.read_text()


def test_trial_writes_no_checkpoint_where_the_job_does(tmp_path):
    seen = tmp_path / "seen"
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "tuned"},
        "spec": {"framework": "None", "command": command(tmp_path, REPORTS),
                 "env": [{"name": "SEEN", "value": str(seen)}], "checkpoint": {"path": str(tmp_path / "kept")}}}))
    done = tune(tmp_path, "-p", "1", "-r", "1", "--json", "-", str(job))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["unit"] == "tokens/s"
    assert report["settings"][0]["work"]["median"] > report["settings"][0]["stepsPerSecond"]["median"]
    assert str(tmp_path / "lockstep-tune-") in seen.read_text()
    assert not (tmp_path / "kept").exists()
    assert not list(tmp_path.glob("lockstep-tune-*"))


def test_interrupted_tune_shows_what_it_has_and_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [binary("lockstep"), "tune", "--framework", "None", "-p", "1,2", "--seconds", "600", "--",
         *command(tmp_path, PRINTS)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        run = wait_until(lambda: children(process.pid), "the first trial to begin")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143
    assert "not tried" in said
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in run)


def test_usage_errors_name_what_to_change(tmp_path):
    done = tune(tmp_path, "-p", "1,2", "-r", "100", "--threads", "1,2,3", "--", *command(tmp_path, PRINTS))
    assert done.returncode == 2
    assert "600 trials are more than 500" in done.stderr
    done = tune(tmp_path)
    assert done.returncode == 2
    assert "give a FILE, or -- and a command line" in done.stderr
