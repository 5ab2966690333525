"""lockstep.run(): a job on this computer, by the real `lockstep run`."""

import asyncio
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import lockstep
import processes
import pytest
from lockstep_client import local
from paths import MODULES
from pythons import pythons
from waiting import wait_until

NEVER = {"prestart": "Never"}


def job(program, name="gpt", machines=2, processes=2, **fields):
    return lockstep.Job(name, machines=machines, processes=processes,
                        command=[sys.executable, "-c", program], **{**NEVER, **fields})


@pytest.fixture
def gate(tmp_path):
    """A file; ranks of UNTIL wait for it. It is there after two minutes: no test waits for ever."""
    file = tmp_path / "gate"
    late = threading.Timer(120, file.touch)
    late.start()
    yield file
    late.cancel()


UNTIL = """\
import os, time
print("rank", os.environ["RANK"], flush=True)
while not os.path.exists({gate!r}): time.sleep(0.01)
"""


def until(gate, before=""):
    return before + "\n" + UNTIL.format(gate=str(gate))


def test_a_job_runs_and_its_output_is_printed_and_kept(capfd):
    with lockstep.run(job('import os; print("hello from", os.environ["RANK"])')) as run:
        status = run.wait(timeout=60)
    assert (status.state, run.state) == ("Succeeded", "Succeeded")
    assert status.verdict.exit_code == 0 and status.processes == 4
    assert list(run.logs(rank=3)) == ["hello from 3"]
    assert sorted(run.logs(machine=0)) == ["[m0 r0] hello from 0", "[m0 r1] hello from 1"]
    assert len(list(run.logs())) == 4
    said = capfd.readouterr()
    assert "[m1 r3] hello from 3" in said.out and "job gpt succeeded" in said.err
    assert any("job gpt succeeded" in event.message for event in run.events())


def test_a_failure_names_the_rank_and_its_last_lines():
    program = 'import os\nif os.environ["RANK"] == "3": raise ValueError("no such file: x")\n' \
              'import time; time.sleep(60)'
    failing = job(program, failure_policy=lockstep.FailurePolicy(max_restarts=0))
    with pytest.raises(lockstep.JobFailed) as caught, lockstep.run(failing, echo=False) as run:
        run.wait(timeout=60)
    error = caught.value
    assert (error.rank, error.machine, error.exit_code, error.cause) == (3, 1, 1, "ProcessExit")
    assert error.last_lines[-1] == "ValueError: no such file: x"
    words = str(error)
    assert words.startswith("job gpt failed: rank 3 on machine 1 exited with code 1")
    assert words.endswith("| ValueError: no such file: x")


def test_a_job_that_is_not_valid_is_refused_with_the_words_of_lockstep(capfd):
    wrong = job("", trainer=lockstep.Trainer(data=["x"]))
    with pytest.raises(lockstep.JobInvalid, match="spec.trainer|spec.command"):
        lockstep.run(wrong, echo=False).wait(timeout=60)


def test_the_status_and_the_logs_follow_a_job_that_runs(gate):
    report = "import lockstep; lockstep.report(step=3, total_steps=10, loss=0.5)"
    running = job(until(gate, report), env={"PYTHONPATH": str(MODULES)})
    with lockstep.run(running, echo=False) as run:
        lines = run.logs(follow=True, timeout=60)
        assert {next(lines) for _ in range(4)} == {
            f"[m{rank // 2} r{rank}] rank {rank}" for rank in range(4)}
        status = wait_until(lambda: (run.status.progress and run.status.progress.step == 3
                                     and run.status), lambda: f"a report: {run.status}")
        assert status.state == "Running" and status.ready == "2/2"
        assert "job gpt: Running, 2/2 machines, 3/10" in repr(run)
        html = run._repr_html_()
        assert 'value="30"' in html and "machine 1: Running" in html
        with pytest.raises(lockstep.WaitTimeout, match="the job continues"):
            run.wait(timeout=0.05)
        gate.touch()
        assert list(lines) == []
        run.wait(timeout=60)


def test_the_time_is_up_for_a_job_that_prints_without_a_pause(gate, monkeypatch):
    with lockstep.run(job(until(gate)), echo=False) as run:
        def print_new(shown=run._print_new):
            shown()
            with run._changed:
                run._keep("the next line is there already")

        with monkeypatch.context() as patched:
            patched.setattr(run, "_print_new", print_new)
            with pytest.raises(lockstep.WaitTimeout, match="the job continues"):
                run.wait(timeout=0.3)
        with pytest.raises(lockstep.WaitTimeout, match="the job continues"):
            for _ in run.logs(follow=True, timeout=0.3):
                with run._changed:
                    run._keep("the next line is there already")


def test_several_threads_wait_for_one_job_and_read_its_logs(gate):
    with lockstep.run(job(until(gate)), echo=False) as run:
        found = []
        threads = [threading.Thread(target=lambda: found.append(run.wait(timeout=60).state))
                   for _ in range(4)]
        threads += [threading.Thread(target=lambda: found.append(
            list(run.logs(rank=3, follow=True, timeout=60)))) for _ in range(4)]
        for each in threads:
            each.start()
        gate.touch()
        for each in threads:
            each.join(60)
    assert found.count("Succeeded") == 4 and found.count(["rank 3"]) == 4


def test_an_async_program_waits_reads_logs_and_is_cancelled(gate):
    async def follow(run):
        lines = [line async for line in run.logs_async(rank=3, follow=True, timeout=60)]
        return lines, (await run.wait_async(timeout=60)).state

    async def main(run):
        with pytest.raises(lockstep.WaitTimeout):
            await run.wait_async(timeout=0.05)
        waiting = asyncio.ensure_future(run.wait_async())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert run.state in ("Pending", "Starting", "Running")
        gate.touch()
        return await asyncio.gather(follow(run), follow(run))

    with lockstep.run(job(until(gate)), echo=False) as run:
        assert asyncio.run(main(run)) == [(["rank 3"], "Succeeded")] * 2


def test_a_cancelled_reader_of_logs_does_not_wait_for_the_next_line(gate):
    async def main(run):
        read = asyncio.Event()

        async def follow():
            async for _ in run.logs_async(rank=3, follow=True):
                read.set()

        reading = asyncio.ensure_future(follow())
        await read.wait()  # now it looks for a second line, which does not come
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    with lockstep.run(job(until(gate)), echo=False) as run:
        asyncio.run(main(run))  # it waits for its threads
        assert run.state in ("Pending", "Starting", "Running")


def test_two_readers_of_logs_share_one_thread(gate):
    async def follow(run, rank, read):
        async for _ in run.logs_async(rank=rank, follow=True, timeout=60):
            read.set()

    async def main(run):
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        reading = []
        for rank in (0, 3):  # the second begins while the first looks for another line
            read = asyncio.Event()
            reading.append(asyncio.ensure_future(follow(run, rank, read)))
            await read.wait()
        gate.touch()
        await asyncio.gather(*reading)

    with lockstep.run(job(until(gate)), echo=False) as run:
        asyncio.run(main(run))


def test_a_restart_begins_a_new_generation_and_costs_nothing(gate):
    says = 'import os; print("in", os.environ["LOCKSTEP_GENERATION"], flush=True)'
    with lockstep.run(job(until(gate, says)), echo=False) as run:
        wait_until(lambda: sum(" in 1-1" in line for line in run.logs()) == 4, lambda: list(run.logs()))
        run.restart(reason="from Python")
        wait_until(lambda: sum(" in 1-2" in line for line in run.logs()) == 4, lambda: list(run.logs()))
        gate.touch()
        status = run.wait(timeout=60)
        with pytest.raises(lockstep.Unsupported, match="has ended"):
            run.restart()
    assert status.restarts.stopped == 1 and status.restarts.application == 0
    assert status.history[0].reason.endswith(": from Python")


def test_a_suspended_job_is_resumed_in_a_new_run(gate):
    with lockstep.run(job(until(gate)), echo=False) as run:
        next(run.logs(follow=True, timeout=60))
        run.suspend(timeout=60)
        assert run.state == "Suspended"
        with pytest.raises(lockstep.JobStopped, match="stopped on request"):
            run.wait(timeout=60)
        gate.touch()
        run.resume()
        assert run.wait(timeout=60).state == "Succeeded"
        with pytest.raises(lockstep.Unsupported, match="only a suspended job is resumed"):
            run.resume()
        with pytest.raises(lockstep.Unsupported, match="keeps its number of machines"):
            run.scale(3)


def test_leaving_the_block_stops_the_job(gate, monkeypatch, tmp_path):
    monkeypatch.setenv("CLIENT_UNDER_TEST", str(tmp_path))
    with lockstep.run(job(until(gate)), echo=False) as run:
        next(run.logs(follow=True, timeout=60))
        assert processes.with_variable("CLIENT_UNDER_TEST", str(tmp_path))
    assert run.state == "Suspended"
    wait_until(lambda: not processes.with_variable("CLIENT_UNDER_TEST", str(tmp_path)), "the end")


def test_a_rank_that_ignores_sigterm_is_killed_after_the_time_of_delete(gate):
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    run = lockstep.run(job(until(gate, deaf)), echo=False)
    next(run.logs(follow=True, timeout=60))
    run.delete(timeout=0.1)
    assert run.state == "Suspended"


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, which the processes of pytest-xdist leave out."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_the_job(gate, interruptible):
    with lockstep.run(job(until(gate)), echo=False) as run:
        next(run.logs(follow=True, timeout=60))

        def print_new(shown=run._print_new):  # wait() calls it after its first look
            del run._print_new
            shown()
            signal.raise_signal(signal.SIGINT)

        run._print_new = print_new
        with pytest.raises(KeyboardInterrupt):
            run.wait(timeout=60)
        assert run.state == "Suspended"


def test_a_rank_or_machine_that_does_not_exist_is_named():
    with lockstep.run(job(""), echo=False) as run:
        for arguments, words in (({"rank": 4}, "ranks 0 to 3, not 4"),
                                 ({"machine": 2}, "machines 0 to 1, not 2"),
                                 ({"rank": 3, "machine": 0}, "rank 3 is on machine 1, not 0")):
            with pytest.raises(lockstep.NotFound, match=words):
                run.logs(**arguments)
        run.wait(timeout=60)


def test_lines_that_do_not_name_their_rank_are_not_searched_for_it():
    raw = job("print(1)", logs=lockstep.Logs(format="Raw"))
    with lockstep.run(raw, echo=False) as run:
        run.wait(timeout=60)
        with pytest.raises(lockstep.Unsupported, match="leaves out which rank"):
            run.logs(rank=0)
        assert list(run.logs()) == ["1"] * 4


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()"])
def test_a_job_ends_with_the_python_that_started_it(end, gate, tmp_path):
    program = f"""\
import os, signal, sys, lockstep
job = lockstep.Job("gpt", machines=2, command=[sys.executable, "-c", {until(gate)!r}],
                   prestart="Never")
run = lockstep.run(job, echo=False)
next(run.logs(follow=True, timeout=60))
{end}
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    folder = tmp_path / "temporary"
    folder.mkdir()
    variables = {**os.environ, "PYTHONPATH": str(MODULES), "CLIENT_UNDER_TEST": str(tmp_path),
                 "TMPDIR": str(folder)}
    subprocess.run([sys.executable, file], env=variables, timeout=60, stdout=subprocess.DEVNULL)
    wait_until(lambda: not processes.with_variable("CLIENT_UNDER_TEST", str(tmp_path)), "the end")
    assert list(folder.iterdir()) == []


def test_a_guard_takes_a_zombie_for_ended(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # it ended, and is not reaped
        subprocess.run(["/bin/sh", "-c", local._GUARD, str(zombie.pid), folder], timeout=30,
                       stdin=subprocess.DEVNULL)
    assert not folder.exists()


def test_lockstep_that_dies_is_reported_with_its_signal(gate):
    run = lockstep.run(job(until(gate)), echo=False)
    next(run.logs(follow=True, timeout=60))
    run._process.kill()
    with pytest.raises(lockstep.LockstepError, match="`lockstep run` was killed by SIGKILL"):
        run.wait(timeout=60)


def test_output_that_a_detached_program_holds_open_blocks_no_other_call(gate):
    run = lockstep.run(job(until(gate)), echo=False)
    next(run.logs(follow=True, timeout=60))
    held = os.open(f"/proc/{run._process.pid}/fd/1", os.O_WRONLY)
    run._process.kill()
    run._process.wait()
    looks = []
    look = threading.Thread(target=lambda: looks.append(run.state))
    look.start()
    with pytest.raises(lockstep.WaitTimeout):
        run.wait(timeout=0.1)
    look.join(5)
    assert looks in (["Pending"], ["Starting"], ["Running"])
    os.close(held)
    with pytest.raises(lockstep.LockstepError, match="was killed by SIGKILL"):
        run.wait(timeout=60)


def test_output_that_stays_open_is_not_waited_for_without_end(gate, monkeypatch):
    monkeypatch.setattr(local, "_OPEN_SECONDS", 0.1)
    run = lockstep.run(job(until(gate)), echo=False)
    next(run.logs(follow=True, timeout=60))
    held = os.open(f"/proc/{run._process.pid}/fd/1", os.O_WRONLY)
    run.delete(timeout=60)
    assert run.state == "Suspended"
    os.close(held)


def test_a_job_leaves_no_file_behind(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with lockstep.run(job(""), echo=False) as run:
        assert list(pathlib.Path(tmp_path).iterdir())
        run.wait(timeout=60)
    assert list(pathlib.Path(tmp_path).iterdir()) == []


def test_only_the_newest_output_is_kept(monkeypatch, capfd):
    monkeypatch.setattr("lockstep_client.local.KEPT_LINES", 10)
    monkeypatch.setattr("lockstep_client.local.KEPT_CHARACTERS", 1000)
    counts = job("for i in range(100): print(i)\nprint('x' * 300)", machines=1, processes=1)
    with lockstep.run(counts, echo=False) as run:
        run.wait(timeout=60)
        assert list(run.logs(rank=0)) == [*map(str, range(91, 100)), "x" * 300]
    flood = job("for i in range(100): print('y' * 300)", machines=1, processes=1)
    with lockstep.run(flood, echo=False) as run:
        run.wait(timeout=60)
        assert list(run.logs(rank=0)) == ["y" * 300] * 3


def test_a_program_that_forks_leaves_the_job_to_its_parent(tmp_path, gate):
    program = f"""\
import os, sys, lockstep
job = lockstep.Job("gpt", command=[sys.executable, "-c", {until(gate)!r}], prestart="Never")
run = lockstep.run(job, echo=False)
next(run.logs(follow=True, timeout=60))
if os.fork() == 0:
    sys.exit()
os.wait()
open({str(gate)!r}, "w").close()
print(run.wait(timeout=60).state)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=120, text=True,
                          env={**os.environ, "PYTHONPATH": str(MODULES)}, stdout=subprocess.PIPE)
    assert done.stdout == "Succeeded\n"


def test_errors_go_through_pickle_as_they_are():
    status = lockstep.Status.from_dict({
        "state": "Failed", "reason": "why", "lastFailure": {"rank": 3, "stderr": "last"}})
    for error in (lockstep.JobFailed("gpt", status), lockstep.JobInvalid(["a", "b"]),
                  lockstep.WaitTimeout("late")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert type(error).__module__ == "lockstep"
    assert pickle.loads(pickle.dumps(lockstep.JobInvalid(["a", "b"]))).problems == ["a", "b"]


def test_html_of_a_status_is_escaped():
    from lockstep_client import view

    status = lockstep.Status.from_dict({
        "state": "Failed", "reason": "<b>x", "progress": {"percent": '"><q>'},
        "machineStatuses": [{"index": '"><s>', "node": '"><i>'}],
        "lastFailure": {"message": "<script>", "stderr": "<img src=x>"}, "newField": 1})
    text = view.html("<u>", status)
    assert not any(each in text
                   for each in ("<b>x", "<q>", "<s>", "<i>", "<script>", "<img", "<u>"))
    assert "&lt;img src=x&gt;" in text


RUNS = """\
import sys, lockstep
job = lockstep.Job(
    "gpt", machines=2, processes=2, prestart="Never", env={"CODE": "7"}, framework="Torch",
    command=["sh", "-c", 'echo "of $RANK" >&2; [ "$RANK" != 3 ] || exit "$CODE"'],
    failure_policy=lockstep.FailurePolicy(max_restarts=0, rules=[
        lockstep.FailureRule(exit_codes=[7], action="Fail")]))
assert lockstep.Job.from_manifest(job.manifest()) == job
for wrong in ({"framework": "Pytorch"}, {"shared_memory": 1.5}, {"env": {"A": 1}}):
    try:
        lockstep.Job("gpt", **wrong)
    except lockstep.JobInvalid as error:
        print(list(wrong)[0], len(error.problems))
try:
    with lockstep.run(job, echo=False) as run:
        run.wait(timeout=60)
except lockstep.JobFailed as failure:
    print(failure.rank, failure.machine, failure.exit_code, failure.last_lines)
"""


@pytest.mark.parametrize("version", [f"3.{minor}" for minor in range(9, 15)])
def test_each_python_runs_jobs(version):
    found = pythons().get(version)
    if found is None:
        pytest.skip(f"no Python {version} here: tools/deps --pythons")
    variables = {**os.environ, "PYTHONPATH": str(MODULES)}
    done = subprocess.run([found, "-c", RUNS], env=variables, capture_output=True, text=True,
                          timeout=120)
    assert done.stdout == ("framework 1\nshared_memory 1\nenv 1\n3 1 7 ['of 3']\n"), done.stderr
