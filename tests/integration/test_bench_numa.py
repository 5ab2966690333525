"""`lockstep bench numa` and the signals that end it, or don't."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

from tls import binary


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
    return found


def mask(pid, name):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1], 16)
    return 0


def has(pid, name, number):
    return mask(pid, name) >> (number - 1) & 1


def children(pid):
    return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def bench(only, **options):
    process = subprocess.Popen([binary("lockstep"), "bench", "numa", "--array-size", "4", "-r", "1000",
                                "--only", only],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        wait_for(lambda: has(process.pid, "SigCgt", signal.SIGTERM))
        yield process
    finally:
        process.kill()
        process.wait()


def test_sigterm_to_the_program_alone_ends_it_and_its_workers():
    with bench("processes") as process:

        def stop_a_worker():
            for pid in children(process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.01)
                    if "State:\tT" in pathlib.Path(f"/proc/{pid}/status").read_text():
                        return pid
            return None

        worker = wait_for(stop_a_worker)  # its team never ends by itself
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        assert not pathlib.Path(f"/proc/{worker}").exists()


def test_a_hang_up_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with bench("baseline") as process:
            assert has(process.pid, "SigIgn", signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 143
    finally:
        signal.signal(signal.SIGHUP, before)
