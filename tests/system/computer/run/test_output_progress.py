"""Programs that print their progress and report none: the step is read from what they print."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
import yaml
from run import Run
from run_output import Output
from tls import binary

REPORTS = """\
import lockstep
for i in range(1, 6):
    print(f"step {i * 100} loss 9.0", flush=True)
    lockstep.report(step=i, total_steps=5, loss=2.5)
"""

HANGS = """\
import os, threading, lockstep
for step in range(1, 6):
    lockstep.report(step=step, total_steps=5)
    if os.environ["LOCKSTEP_GENERATION"] == "1-1" and step == 3 + int(os.environ["RANK"]):
        threading.Event().wait()
"""


def job(folder, command, **spec):
    """A job file of one machine that runs this shell line."""
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "printed"},
        "spec": {"command": ["/bin/sh", "-c", command], "framework": "None", **spec}}))
    return str(file)


def finished(folder, file):
    code, report, output = Run(folder, file).finish(patience=60)
    assert code == 0, output
    return report["progress"], report


def test_step_total_and_loss_are_read_from_the_lines_of_an_unchanged_program(tmp_path):
    lines = "for i in 1 2 3 4; do echo \"step $i/4 loss 2.$i\"; done"
    progress, _ = finished(tmp_path, job(tmp_path, lines))
    assert (progress["step"], progress["totalSteps"], progress["source"]) == (4, 4, "Output")
    assert {"name": "loss", "value": "2.4"} in progress["metrics"]


def test_output_without_progress_gives_no_step(tmp_path):
    lines = "for i in 1 2 3 4; do echo \"Step $i/4 : RUN make\"; done"
    _, report = Run(tmp_path, job(tmp_path, lines)).finish(patience=60)[0:2]
    assert "progress" not in report


def test_pattern_of_the_user_is_read(tmp_path):
    pattern = r"done (?P<step>\d+) of (?P<total>\d+)"
    file = job(tmp_path, "echo done 7 of 9", progress={"patterns": [pattern]})
    progress, _ = finished(tmp_path, file)
    assert (progress["step"], progress["totalSteps"]) == (7, 9)


def test_reports_win_over_output(tmp_path):
    (tmp_path / "train.py").write_text(REPORTS)
    progress, _ = finished(tmp_path, job(tmp_path, f"{sys.executable} {tmp_path}/train.py"))
    assert (progress["step"], progress["source"]) == (5, "Reports")


@pytest.mark.parametrize("source", ["Reports", "Never"])
def test_output_is_not_read_if_the_job_says_so(tmp_path, source):
    lines = "for i in 1 2 3 4; do echo \"step $i/4 loss 2.$i\"; done"
    _, report = Run(tmp_path, job(tmp_path, lines, progress={"from": source})).finish(60)[0:2]
    assert "progress" not in report


def test_hang_timeout_that_watches_nothing_is_said_once(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    run = Run(tmp_path, job(tmp_path, f"read -r x <{gate}", health={"hangTimeout": "1s"}))
    said = Output(run)
    said.wait(r"hangTimeout \(1s\) has no effect: no process has called", "the warning")
    os.write(held, b"go\n")
    assert run.process.wait(60) == 0
    assert said.join().count("has no effect") == 1
    os.close(held)


def test_hang_timeout_counts_output_if_the_job_says_so(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    # The first generation prints three steps and hangs.
    lines = ("for i in 1 2 3; do echo \"step $i loss 2.$i\"; done; "
             f"[ -e {tmp_path}/hung ] && exit 0; touch {tmp_path}/hung; read -r x <{gate}")
    file = job(tmp_path, lines, health={"hangTimeout": "1s"}, progress={"from": "Output"})
    code, report, output = Run(tmp_path, file).finish(patience=60)
    os.close(held)
    assert code == 0, output
    assert [each["cause"] for each in report["history"]] == ["Hang"], report


def test_plan_shows_what_is_found_in_a_saved_output(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("".join(f"iter {i}: loss 2.{i}, time 3ms\n" for i in range(1, 6)) + textwrap.dedent("""\
        val: iter 1 loss 3
        val: iter 2 loss 3
        """))
    command = [binary("lockstep"), "plan", "--try-log", str(log)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "step    5\n" in shown and "loss  2.5" in shown and '"val"' in shown, shown
    shown = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown)["progress"]["step"] == 5
    missing = subprocess.run([*command[:-1], str(tmp_path / "none")], capture_output=True, text=True)
    assert missing.returncode == 2 and "cannot read" in missing.stderr


def test_run_shows_where_ranks_stand_before_hang_timeout_restarts_them(tmp_path):
    (tmp_path / "train.py").write_text(HANGS)
    file = job(tmp_path, f"exec {sys.executable} {tmp_path}/train.py", processesPerMachine=2,
               health={"hangTimeout": "10s"})
    code, report, output = Run(tmp_path, file).finish(patience=100)
    assert code == 0, output
    suspected = re.search(r"no step since step 3 for 5 s.*a hang is suspected; (.*)", output)
    assert suspected, output
    assert suspected[1] == (
        "ranks 0-1 are in <module> (train.py:5); the gang restarts at spec.health.hangTimeout")
    assert report["lastFailure"]["cause"] == "Hang"
    assert output.index("a hang is suspected") < output.index("made no progress for hangTimeout")
