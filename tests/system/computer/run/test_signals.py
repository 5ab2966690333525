"""What each signal does to `lockstep run` and to an agent: the table in docs/reference/cli.md."""

import functools
import os
import signal
import subprocess

import processes
import pytest
from run import STOPS, TELLS, Run, listening
from tls import binary
from waiting import holds_for, wait_until


class Listening:
    """A run of two ranks that say when they are told to stop, and what it printed."""

    def __init__(self, folder, **options):
        self.log = folder / "output"
        self.run = Run(folder, "-m", "2", "--", *TELLS, **options)
        self.reader = subprocess.Popen(["tee", str(self.log)], stdin=self.run.process.stdout,
                                       stdout=subprocess.DEVNULL)
        wait_until(lambda: self.log.exists() and listening(self.output()) == 2, self.output)

    def output(self):
        return self.log.read_text() if self.log.exists() else ""

    def send(self, number):
        self.run.process.send_signal(number)

    def end(self):
        code = self.run.process.wait(timeout=60)
        self.reader.wait(timeout=60)
        return code


@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
def test_signal_that_asks_for_a_stop_lets_ranks_save(tmp_path, number):
    job = Listening(tmp_path)
    job.send(number)
    assert job.end() == 128 + number
    assert "told 0" in job.output() and "told 1" in job.output()


def test_signal_that_is_ignored_at_the_start_stays_ignored(tmp_path):
    job = Listening(tmp_path, ignores=[signal.SIGHUP, signal.SIGINT])
    job.send(signal.SIGHUP)
    job.send(signal.SIGINT)
    holds_for(1, lambda: job.run.process.poll() is None and "stopping" not in job.output(),
              "the run goes on")
    job.send(signal.SIGTERM)
    assert job.end() == 128 + signal.SIGTERM


def test_stop_after_a_warning_leaves_ranks_their_grace_period(tmp_path):
    slow = ["sh", "-c", "trap 'echo told; sleep 2; echo saved; exit 0' TERM; echo listens; "
            "while true; do sleep 0.1; done"]
    run = Run(tmp_path, "--", *slow)
    output = ""
    while "listens" not in output:
        output += run.process.stdout.readline()
    run.process.send_signal(signal.SIGUSR1)
    while "told" not in output:
        output += run.process.stdout.readline()
    run.process.send_signal(signal.SIGUSR1)
    run.process.send_signal(signal.SIGTERM)
    rest, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 128 + signal.SIGUSR1
    assert "saved" in rest and "killing" not in rest, output + rest


def test_second_stop_kills_at_once(tmp_path):
    run = Run(tmp_path, "--", "sh", "-c", "trap '' TERM; echo listens; sleep 1000")
    while "listens" not in run.process.stdout.readline():
        pass
    run.process.send_signal(signal.SIGINT)
    while "stopping" not in run.process.stdout.readline():
        pass
    run.process.send_signal(signal.SIGINT)
    rest, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 128 + signal.SIGINT and "killing" in rest


def test_run_that_is_suspended_and_resumed_goes_on(tmp_path):
    run = Run(tmp_path, "--", "sh", "-c", "echo began; sleep 3; echo done")
    while "began" not in run.process.stdout.readline():
        pass
    run.process.send_signal(signal.SIGWINCH)
    run.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: processes.state(run.process.pid) == "T", "it to be stopped")
    run.process.send_signal(signal.SIGCONT)
    code, _, output = run.finish()
    assert code == 0 and "done" in output


def test_run_whose_reader_is_gone_finishes_its_job(tmp_path):
    run = Run(tmp_path, "--", "sh", "-c", f"seq 1000; echo done > {tmp_path}/end")
    run.process.stdout.close()
    assert run.process.wait(timeout=60) == 0 and (tmp_path / "end").exists()


# A runtime sends an image's STOPSIGNAL in place of SIGTERM.
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1, signal.SIGRTMIN + 3])
def test_spare_exits_on_every_signal_that_an_image_may_name(number):
    # Blocked from the start: the signal may come before the spare waits for it.
    blocked = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, {number})
    spare = subprocess.Popen([binary("lockstep-agent"), "--spare"], preexec_fn=blocked)
    try:
        os.kill(spare.pid, number)
        assert spare.wait(timeout=60) == 0
    finally:
        spare.kill()
        spare.wait()
