"""lockstep.train(): a function on the ranks of a real `lockstep run`, and its value back."""

import os
import subprocess
import sys
import textwrap
import threading

import lockstep
import pytest
from paths import EXAMPLES, MODULES


def test_the_function_runs_on_every_rank_and_rank_0_gives_the_value(capfd):
    def world(factor, plus=0):
        print("in rank", os.environ["RANK"])
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) * factor + plus

    value = lockstep.train(world, machines=2, processes=2, args=[10], kwargs={"plus": 1}, timeout=60)
    assert value == (0, 41)
    said = capfd.readouterr().out
    assert all(f"[m{rank // 2} r{rank}] in rank {rank}" in said for rank in range(4))


def test_a_failure_has_the_traceback_of_the_rank(capfd):
    def fails():
        if os.environ["RANK"] == "3":
            raise ValueError("boom")

    with pytest.raises(lockstep.JobFailed) as caught:
        lockstep.train(fails, machines=2, processes=2, timeout=60, echo=False)
    error = caught.value
    assert (error.rank, error.machine) == (3, 1)
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert "in fails" in error.traceback and "lockstep_call.py" not in error.traceback
    assert str(error).endswith("| ValueError: boom") and "traceback of rank 3:" in str(error)
    assert capfd.readouterr().out == ""


def test_a_rank_that_fails_once_is_restarted_within_max_restarts(tmp_path):
    def fails_once(folder):
        mark = os.path.join(folder, "mark")
        if os.environ["RANK"] == "1" and not os.path.exists(mark):
            open(mark, "w").close()
            sys.exit(9)
        return os.environ["LOCKSTEP_RESTARTS"]

    assert lockstep.train(fails_once, processes=2, args=[str(tmp_path)], max_restarts=1,
                          timeout=60, echo=False) == "1"


def test_a_function_of_a_script_uses_its_globals_and_the_modules_beside_it(tmp_path):
    (tmp_path / "beside.py").write_text("def twice(x): return 2 * x\n")
    (tmp_path / "script.py").write_text(textwrap.dedent("""\
        import beside, lockstep
        FACTOR = 3
        def fit():
            return beside.twice(FACTOR)
        print("value", lockstep.train(fit, processes=2, timeout=60, echo=False))
        """))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(MODULES)}, timeout=120)
    assert "value 6" in done.stdout, done.stderr


def test_the_example_trains_with_torch_on_two_ranks():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "python_client.py", "--machines", "1", "--steps", "3"],
        capture_output=True, text=True, timeout=300)
    assert "rank 0's last loss: " in done.stdout, done.stdout + done.stderr
    assert "job fit succeeded" in done.stderr


def test_what_can_not_be_sent_or_returned_is_said():
    lock = threading.Lock()
    with pytest.raises(lockstep.LockstepError, match="can't be sent to other processes"):
        lockstep.train(lambda: lock.locked())

    def returns_a_lock():
        return threading.Lock()

    with pytest.raises(lockstep.JobFailed, match="cannot pickle"):
        lockstep.train(returns_a_lock, timeout=60, echo=False)

    def leaves():
        sys.exit(0)

    with pytest.raises(lockstep.LockstepError, match="rank 0 left without a value"):
        lockstep.train(leaves, timeout=60, echo=False)


def test_the_time_limit_stops_the_job():
    def sleeps():
        import time
        time.sleep(600)

    with pytest.raises(lockstep.WaitTimeout, match="sleeps took longer than 0.5 s and was stopped"):
        lockstep.train(sleeps, timeout=0.5, echo=False)


def test_the_ranks_variables_go_before_and_beside_this_process_search_path(tmp_path):
    (tmp_path / "only_here.py").write_text("VALUE = 5\n")

    def imports():
        import only_here
        return only_here.VALUE, os.environ["FLAVOUR"]

    env = {"PYTHONPATH": str(tmp_path), "FLAVOUR": "plain"}
    assert lockstep.train(imports, env=env, timeout=60, echo=False) == (5, "plain")


def test_a_function_without_a_usable_name_gives_the_job_one():
    assert lockstep.train(lambda: 7, timeout=60, echo=False) == 7
