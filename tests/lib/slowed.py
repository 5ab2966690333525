"""Processes that get less of the CPUs than they ask for, by a limit of the kernel's.

    with slowed(pids, share=0.05):
        ...

What they start meanwhile shares the limit. At the end they are as before.
"""

import contextlib
import os
import pathlib

from waiting import wait_until

PERIOD = 100_000  # microseconds
V1, V2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")


def _parent():
    """(the folder that takes further ones, whether it is of version 2); None where there is none."""
    if (V1 / "cpu.cfs_period_us").exists() or (V1 / "cpu.shares").exists():
        return (V1, False) if os.access(V1, os.W_OK) else None
    try:
        (V2 / "cgroup.subtree_control").write_text("+cpu")
    except OSError:
        return None
    return V2, True


def possible():
    return _parent() is not None


@contextlib.contextmanager
def slowed(pids, share):
    """`share`: of one CPU, for all of them together."""
    parent, unified = _parent()
    folder = parent / f"lockstep-slowed-{os.getpid()}"
    folder.mkdir()
    try:
        quota = int(share * PERIOD)
        if unified:
            (folder / "cpu.max").write_text(f"{quota} {PERIOD}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        _move(pids, folder)
        yield
    finally:
        _move((folder / "cgroup.procs").read_text().split(), parent)
        wait_until(lambda: not (folder / "cgroup.procs").read_text().split(), "an empty cgroup")
        folder.rmdir()


def _move(pids, folder):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            (folder / "cgroup.procs").write_text(str(pid))
