"""The story that tools/demo tells: a job runs, one of its ranks is killed, the job goes on.

    demo.py LOCKSTEP JOB.yaml RANK
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CHECKPOINTS = "/tmp/lockstep-demo"
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
    """The process of this computer that is this rank of the job `demo`; 0 if there is none."""
    wanted = {f"RANK={rank}".encode(), b"LOCKSTEP_JOB=demo"}
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


def tell(report: dict) -> None:
    for number, generation in enumerate(report["generations"]):
        cause, respawn = generation["cause"], generation["respawn"]
        resume = generation["resume"]
        where = f"from {os.path.basename(resume)}" if resume else "from the beginning"
        print(f"  generation {generation['generation']} trained {where}")
        if cause and respawn:
            name = signal.Signals(cause["signal"]).name if cause.get("signal") else cause["cause"]
            print(f"    ended by {name} of rank {cause.get('rank')} on machine {cause.get('machine')}")
            print(
                f"    all ranks exec'ed again after {milliseconds(respawn['seconds'])}"
                f" (detect {milliseconds(respawn['detect'])}, stop {milliseconds(respawn['stop'])},"
                f" spawn {milliseconds(respawn['spawn'])})"
            )
            print(
                "    first new step after another"
                f" {milliseconds(respawn['firstStep'])}: Python and PyTorch starting up"
            )
        elif number == len(report["generations"]) - 1:
            print(f"    ended: {report['reason']}")
    print(f"  the job: {report['state']}, in {report['seconds']:.1f} s")


def main() -> int:
    lockstep, job_file, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    shutil.rmtree(CHECKPOINTS, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        report_file = os.path.join(folder, "report.json")
        job = subprocess.Popen([lockstep, "run", job_file, "--report", report_file])
        try:
            victim = find_rank(rank) if wait_for_commits(job, 3) else 0
            if victim:
                os.kill(victim, signal.SIGKILL)  # said at the end: the job draws a live table now
            status = job.wait()
        except KeyboardInterrupt:
            return job.wait()
        if not os.path.exists(report_file):
            return status or 1
        with open(report_file, encoding="utf-8") as file:
            report = json.load(file)
    if not victim:
        print("demo: the job ended before its third checkpoint, so no rank was killed", file=sys.stderr)
        return status or 1
    print(f"\n  demo: kill -9 {victim}, which was rank {rank}; what became of it:")
    tell(report)
    killed_once = [g for g in report["generations"] if g["cause"]]
    return status if len(killed_once) == 1 else status or 1


if __name__ == "__main__":
    sys.exit(main())
