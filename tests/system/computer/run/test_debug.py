"""`lockstep debug` of a run on this computer: it shows where each rank stands, and changes nothing."""

import os
import signal
import subprocess
import sys
import uuid

from run import Run
from tls import binary
from waiting import wait_until

PROGRAM = """
import lockstep, os, sys, time
def load_{mark}():
    time.sleep(3600)
def wait_{mark}():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
lockstep.report(step=1)
if os.environ["RANK"] == "2" and not os.path.exists(sys.argv[1]):
    try:
        load_{mark}()
    except KeyboardInterrupt:
        pass
wait_{mark}()
"""


def debug(*arguments):
    done = subprocess.run([binary("lockstep"), "debug", *arguments], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.stdout, done.stderr


def test_debug_shows_current_function_of_each_local_rank_and_run_continues(tmp_path):
    mark, end = uuid.uuid4().hex[:8], tmp_path / "end"  # other runs may be under way
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.replace("{mark}", mark))
    run = Run(tmp_path, "-m", "2", "-p", "2", "--", sys.executable, str(program), str(end))
    ranks = run.wait_ranks(4)
    said = ""

    def all_stand():  # between two sleeps a rank is elsewhere for a moment
        nonlocal said
        said = debug()[0]
        return any("ranks 0-1,3 are in wait_" in line and "rank 2 is in load_" in line
                   for line in said.splitlines() if f"_{mark} (train.py:" in line)

    wait_until(all_stand, lambda: f"where all stand; last:\n{said}", patience=60)
    for rank in range(4):
        assert f"--- rank {rank}, machine {rank // 2} ---\n== process " in said
    assert "\nthread " not in said
    assert "\nthread " in debug("train", "--kernel")[0]  # the run's name is its program's
    alone, _ = debug("--rank", "3")
    assert "--- rank 3, machine 1 ---" in alone and "--- rank 0," not in alone
    end.touch()
    os.kill(ranks[2][0], signal.SIGINT)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(report["generations"]) == 1, report

