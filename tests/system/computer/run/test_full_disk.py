"""`lockstep run` where the user's program has filled the space that Lockstep writes to: each end is
reported as it was, and a job that is over is not run again."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from run import NO_SPARES, ROOT
from tls import binary


def run_on_small_disk(mounted, *arguments, script):
    """In a mount namespace where `mounted` has 4 MiB, all of which are taken before `script`."""
    prepare = 'mount -t tmpfs -o size=4m none "$1" && shift && exec "$@"'
    fill = f"dd if=/dev/zero of={mounted}/fill bs=64k 2>/dev/null; "
    return subprocess.run(
        ["unshare", "-U", "-r", "-m", "sh", "-c", prepare, "sh", str(mounted), binary("lockstep"),
         "run", *NO_SPARES, "--max-restarts", "0", *arguments, "--", "sh", "-c", fill + script],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=60, check=False)


@pytest.mark.parametrize(("script", "code", "said"), [
    ("exit 0", 0, "succeeded"), ("exit 3", 3, "exited with code 3"),
    ("kill -BUS $$", 135, "SIGBUS"), ("kill -KILL $$", 137, "SIGKILL")])
def test_ended_job_is_not_run_again_when_shared_memory_is_full(tmp_path, script, code, said):
    report = tmp_path / "report.json"
    done = run_on_small_disk("/dev/shm", "--report", str(report), script=script)
    assert done.returncode == code, done.stdout
    assert said in done.stdout, done.stdout
    told = json.loads(report.read_text())
    assert told.get("verdict", {}).get("exitCode") == code, told
    assert len(told["generations"]) == 1 and len(told["agents"]) == 1, told


def test_failure_is_reported_when_checkpoint_folder_is_full(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    done = run_on_small_disk(folder, "--checkpoint", str(folder), script="exit 3")
    assert done.returncode == 3 and "exited with code 3" in done.stdout, done.stdout


def test_success_is_said_when_report_finds_no_room(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    done = run_on_small_disk(folder, "--report", f"{folder}/r.json", script="exit 0")
    assert done.returncode == 0 and "succeeded" in done.stdout, done.stdout
    assert "no report: " in done.stdout and "No space left" in done.stdout, done.stdout


def test_status_that_finds_no_room_is_said_once_and_the_job_succeeds(tmp_path):
    folder = tmp_path / "statuses"
    folder.mkdir()
    done = run_on_small_disk(folder, "--status", f"{folder}/s.json", script="exit 0")
    assert done.returncode == 0 and "succeeded" in done.stdout, done.stdout
    assert done.stdout.count("no status: ") == 1 and "No space left" in done.stdout, done.stdout


@pytest.mark.parametrize("option", ["--report", "--status"])
def test_file_that_cannot_be_written_is_refused_before_job_starts(option, tmp_path):
    started = tmp_path / "started"
    for file in ("/nonexistent/r.json", str(tmp_path), "/dev/null"):
        done = subprocess.run(
            [binary("lockstep"), "run", option, file, "--", "touch", str(started)],
            capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and f"{option}: " in done.stderr, done.stderr
    assert not started.exists()


def test_last_status_is_that_of_the_report(tmp_path):
    report, status = tmp_path / "report.json", tmp_path / "status.json"
    subprocess.run([binary("lockstep"), "run", "-m", "2", *NO_SPARES, "--report", str(report),
                    "--status", str(status), "--", "true"],
                   capture_output=True, timeout=60, check=True)
    whole, last = json.loads(report.read_text()), json.loads(status.read_text())
    for name in ("state", "reason", "verdict", "machineStatuses", "counters"):
        assert last[name] == whole[name]
    assert last["state"] == "Succeeded"


def test_output_that_finds_no_room_is_said_once_and_costs_the_job_nothing():
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(
            [binary("lockstep"), "run", *NO_SPARES, "--", "sh", "-c", "echo one; echo two"],
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False)
    assert done.returncode == 0 and "succeeded" in done.stderr, done.stderr
    assert done.stderr.count("output of ranks is left out: standard output: No space left") == 1


SAVES_IN_MEMORY = """\
import os, sys
import lockstep
lockstep.report(step=1, total_steps=1)
part = os.path.join(lockstep.memory_dir(), "step-1")
os.makedirs(part)
with open(os.path.join(part, "weights"), "wb") as file:
    file.write(b"w" * 1000)
lockstep.commit(part)
fill = os.open(os.path.join(sys.argv[1], "fill"), os.O_WRONLY | os.O_CREAT)
try:
    while os.write(fill, b"x" * 65536):
        pass
except OSError:
    pass
"""


def test_checkpoint_in_memory_that_finds_no_room_is_said_and_kept(tmp_path):
    folder, program, job = tmp_path / "ckpt", tmp_path / "program.py", tmp_path / "job.yaml"
    folder.mkdir()
    program.write_text(SAVES_IN_MEMORY)
    job.write_text(f"""
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: memory}}
spec:
  command: [{sys.executable}, {program}, {folder}]
  prestart: Never
  checkpoint: {{path: {folder}, memory: {{size: 64Mi, replicas: 0}}}}
""")
    done = subprocess.run(
        ["unshare", "-U", "-r", "-m", "sh", "-c",
         'mount -t tmpfs -o size=1m none "$1" && exec "$2" run "$3"', "sh", str(folder),
         binary("lockstep"), str(job)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "worker/python")}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert "checkpoint step-1 in memory was not written" in done.stdout, done.stdout
    kept = re.search(r"is kept in memory, in (\S+): make room", done.stdout)
    assert kept, done.stdout
    weights = pathlib.Path(kept[1]) / "machine-0/weights"
    assert weights.read_bytes() == b"w" * 1000
    shutil.rmtree(kept[1])
