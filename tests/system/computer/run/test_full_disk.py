"""`lockstep run` where the user's program has filled the space that Lockstep writes to: each end is
reported as it was, and a job that is over is not run again."""

import json
import subprocess

import pytest

from run import NO_SPARES
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


def test_report_that_cannot_be_written_is_refused_before_job_starts(tmp_path):
    started = tmp_path / "started"
    for report in ("/nonexistent/r.json", str(tmp_path), "/dev/null"):
        done = subprocess.run(
            [binary("lockstep"), "run", "--report", report, "--", "touch", str(started)],
            capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "--report: " in done.stderr, done.stderr
    assert not started.exists()
