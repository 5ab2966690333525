"""`lockstep bench numa` and the signals that end it, or don't."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

from processes import children, has_signal, state
from tls import binary
from waiting import wait_until


@contextlib.contextmanager
def bench(only, **options):
    process = subprocess.Popen([binary("lockstep"), "bench", "numa", "--array-size", "4", "-r", "1000",
                                "--only", only],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_until(lambda: has_signal(process.pid, "SigCgt", signal.SIGTERM), "the bench to begin")
        yield process
    finally:
        process.kill()
        process.wait()


def test_sigterm_to_main_process_alone_ends_benchmark_and_its_workers():
    with bench("processes") as process:

        def stop_a_worker():
            for pid in children(process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.01)
                    if state(pid) == "T":
                        return pid
            return None

        worker = wait_until(stop_a_worker, "a worker to stop")  # its team never ends by itself
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        assert not pathlib.Path(f"/proc/{worker}").exists()


def test_benchmark_under_nohup_keeps_ignoring_sighup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with bench("baseline") as process:
            assert has_signal(process.pid, "SigIgn", signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 143
    finally:
        signal.signal(signal.SIGHUP, before)
