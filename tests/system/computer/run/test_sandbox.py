"""A gang in a sandbox whose seccomp profile is older than the kernel."""

import ctypes
import re
import subprocess

from tls import binary

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
CLOSE_RANGE = 436  # of every architecture
ALLOW, ERRNO_ENOSYS = 0x7FFF0000, 0x00050026


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8),
                ("operand", ctypes.c_uint32)]


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("first", ctypes.POINTER(Instruction))]


def refuse_close_range():
    """As profiles do with system calls that they do not know: for this process and its children."""
    instructions = (Instruction * 4)(
        Instruction(0x20, 0, 0, 0),            # load the number of the system call
        Instruction(0x15, 0, 1, CLOSE_RANGE),  # is it this one?
        Instruction(0x06, 0, 0, ERRNO_ENOSYS),
        Instruction(0x06, 0, 0, ALLOW))
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    filtered = Filter(len(instructions), instructions)
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filtered), 0, 0) == 0


def test_gang_runs_and_heals_where_close_range_is_refused():
    script = "[ $TORCHELASTIC_RESTART_COUNT != 0 ] || { [ $RANK != 0 ] || exit 3; sleep 60; }; echo healed $RANK"
    done = subprocess.run([binary("lockstep"), "run", "-p", "2", "--no-table", "--", "sh", "-c", script],
                          preexec_fn=refuse_close_range, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"healed (\d)", done.stdout)) == ["0", "1"]
    assert "too old" not in done.stderr
