"""tools/lib/idle: a command on processor time that nothing else wants."""

import os
import signal
import subprocess

from paths import ROOT

IDLE = ROOT / "tools/lib/idle"


def test_command_is_idle_process_in_session_of_its_own():
    shown = subprocess.run([IDLE, "bash", "-c", "ps -o pid=,sid=,cls= $$"], capture_output=True, text=True,
                           check=True).stdout.split()
    assert shown[0] == shown[1] and shown[2] == "IDL"
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_exit_code_is_that_of_command():
    assert subprocess.run([IDLE, "sh", "-c", "exit 3"], check=False).returncode == 3


def test_signal_to_group_stops_command_and_its_children():
    ran = subprocess.Popen([IDLE, "sh", "-c", "sleep 600 & echo here; wait"], stdout=subprocess.PIPE,
                           start_new_session=True)
    assert ran.stdout.readline() == b"here\n"
    os.killpg(ran.pid, signal.SIGTERM)
    # The pipe ends when the last process that holds it has ended.
    assert ran.stdout.read() == b"" and ran.wait() == -signal.SIGTERM
