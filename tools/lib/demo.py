"""The story that tools/demo tells: a job trains, one of its ranks is killed, the job goes on; and the
same job, left alone, ends with the same weights to the bit.

    demo.py LOCKSTEP JOB.yaml RANK
"""

import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

CHECKPOINTS = "/tmp/lockstep-demo"
LOGS = "/tmp/lockstep-demo-logs"
DEADLINE = 120  # seconds until the job has committed its third checkpoint


def wait_for_commits(job: subprocess.Popen, count: int) -> bool:
    """True once the first generation has committed `count` checkpoints."""
    folder = os.path.join(CHECKPOINTS, "checkpoints", "1-1")
    deadline = time.monotonic() + DEADLINE
    while job.poll() is None and time.monotonic() < deadline:
        names = os.listdir(folder) if os.path.isdir(folder) else []
        if sum(name[:6].isdigit() for name in names) >= count:
            return True
        time.sleep(0.05)
    return False


def find_rank(rank: int) -> int:
    """The process of this computer that is this rank of the demo's job; 0 if there is none."""
    wanted = {f"RANK={rank}".encode(),
              f"LOCKSTEP_CHECKPOINT_DIR={CHECKPOINTS}/checkpoints/1-1".encode()}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted <= set(file.read().split(b"\0")):
                    return int(name)
        except OSError:
            continue  # it ended, or is another user's
    return 0


def milliseconds(seconds) -> str:
    return "?" if seconds is None else f"{seconds * 1000:.1f} ms"


BLINK = 0.3  # seconds that an eye is shut for


def tell_gap(report: dict, step_seconds: float) -> None:
    """From the kill to the next step: what somebody who watches would have to see."""
    respawn = report["generations"][0]["respawn"]
    if not respawn or None in (respawn["seconds"], respawn["firstStep"]):
        return
    gap = respawn["seconds"] + respawn["firstStep"]
    lost = report["history"][0].get("lostSteps")
    print(f"  kill -9 to the end of the next step: {milliseconds(gap)}, some"
          f" {milliseconds(step_seconds)} of them the step's own; a blink takes {milliseconds(BLINK)}")
    print("  the rest was for " + ", ".join(
        f"{what} {milliseconds(respawn[part])}" for what, part in
        (("noticing", "detect"), ("stopping", "stop"), ("starting", "spawn"))) +
        " and the program's own start" + ("" if lost is None else f"; steps done twice: {lost}"))


def tell(report: dict) -> None:
    for number, generation in enumerate(report["generations"]):
        failure, respawn = generation["failure"], generation["respawn"]
        resume = generation["resume"]
        where = f"from {os.path.basename(resume)}" if resume else "from the beginning"
        print(f"  generation {generation['generation']} trained {where}")
        if respawn:
            killed_by = failure.get("signal")
            name = signal.Signals(killed_by).name if killed_by else failure["cause"]
            print(f"    ended by {name} of rank {failure.get('rank')} on machine "
                  f"{failure.get('machine')}")
            print(
                f"    all ranks exec'ed again after {milliseconds(respawn['seconds'])}"
                f" (detect {milliseconds(respawn['detect'])}, stop {milliseconds(respawn['stop'])},"
                f" spawn {milliseconds(respawn['spawn'])})"
            )
            print(f"    its first step was done after another {milliseconds(respawn['firstStep'])}")
        elif number == len(report["generations"]) - 1:
            print(f"    ended: {report['reason']}")
    print(f"  the job: {report['state']}, in {report['seconds']:.1f} s")


class Ran:
    """One run of the job, from nothing."""

    def __init__(self, lockstep: str, job_file: str, kill_rank=None):
        for folder in (CHECKPOINTS, LOGS):
            shutil.rmtree(folder, ignore_errors=True)
        self.victim, self.report = 0, None
        with tempfile.TemporaryDirectory() as folder:
            report_file = pathlib.Path(folder, "report.json")
            job = subprocess.Popen(
                [lockstep, "run", job_file, "--report", str(report_file), "--checkpoint",
                 CHECKPOINTS, "--resume", "Never", "--logs", LOGS, "--no-hints"])
            try:
                if kill_rank is not None and wait_for_commits(job, 3):
                    self.victim = find_rank(kill_rank)
                if self.victim:
                    os.kill(self.victim, signal.SIGKILL)  # said at the end: a live table is drawn now
                self.status = job.wait()
            except KeyboardInterrupt:
                self.status = job.wait()
            if report_file.exists():
                self.report = json.loads(report_file.read_text())

    def training(self) -> dict:
        """What rank 0 said, by what it is: the first loss, the last one, the weights' SHA-256, and
        how long a step took."""
        said = "".join(file.read_text() for file in sorted(pathlib.Path(LOGS).rglob("*"))
                       if file.is_file())
        losses = dict(re.findall(r"step (\d+)/\d+ +loss ([\d.]+)", said))
        steps_took = [float(ms) for ms in re.findall(r"tokens/s +([\d.]+) ms", said)]
        weights = re.findall(r"weights after step \d+: sha256 ([0-9a-f]{64})", said)
        steps = sorted(losses, key=int)
        return {"first": losses[steps[0]], "last": losses[steps[-1]], "weights": weights[-1],
                "step": statistics.median(steps_took) / 1000}


def main() -> int:
    lockstep, job_file, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    killed = Ran(lockstep, job_file, rank)
    if not killed.report or killed.status:
        return killed.status or 1
    if not killed.victim:
        print("demo: the job ended before its third checkpoint: no rank was killed", file=sys.stderr)
        return 1
    print(f"\n  demo: kill -9 {killed.victim}, which was rank {rank}; what became of it:")
    tell(killed.report)
    disturbed = killed.training()
    tell_gap(killed.report, disturbed["step"])
    print(f"  the loss fell from {disturbed['first']} to {disturbed['last']}")

    print("\n  demo: the same job, left alone:\n", flush=True)
    alone = Ran(lockstep, job_file)
    if not alone.report or alone.status:
        return alone.status or 1
    undisturbed = alone.training()
    same = disturbed["weights"] == undisturbed["weights"]
    print("\n  SHA-256 of the final weights")
    print(f"    one rank killed   {disturbed['weights']}")
    print(f"    left alone        {undisturbed['weights']}")
    print(f"  {'the same, to the bit' if same else 'DIFFERENT: this is a bug'}")
    fell = float(disturbed["last"]) < float(disturbed["first"])
    return 0 if same and fell else 1


if __name__ == "__main__":
    sys.exit(main())
