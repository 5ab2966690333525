"""What runs on this computer, as /proc has it."""

import os
import pathlib
import re
import signal


def children(pid):
    found = []
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        pass
    return found


def environment(pid):
    """Empty for a process that is gone, or dead and not reaped."""
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries)
    return {name: value for name, equals, value in pairs if equals}


def name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def state(pid):
    """"R", "S", "T" (stopped), "Z" (dead, not reaped), ...; "" when there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def started(pid):
    """When, in ticks since the computer was; 0 when there is none."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def control_groups(pid):
    """As the kernel writes them, one line a hierarchy."""
    try:
        return pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def alive(pid):
    return state(pid) not in ("", "Z", "X")


def has_signal(pid, mask, number):
    """Whether a signal is in this mask of a process: SigBlk (blocked), SigIgn (ignored) or SigCgt
    (caught). Of a program that has just begun none is: it comes to that."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return bool(int(re.search(rf"^{mask}:\s*(\w+)", status, re.MULTILINE)[1], 16) >> number - 1 & 1)


def kill_all(pids):
    """At one moment: none of them sees another's end."""
    pids = list(pids)
    for each in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, each)


def with_variable(variable, value):
    """Every live process with this in its environment: children inherit it, daemons too."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [pid for pid in pids if environment(pid).get(variable) == value and alive(pid)]


def usage(pid):
    """Seconds of CPU so far, and MiB of memory now."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return cpu, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def parent(pid):
    """0 for a process that is gone."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def pod(pid):
    """UID of the pod that it runs in, which its cgroup names; "" outside of pods."""
    found = re.search(r"/pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", control_groups(pid))
    return found[1] if found else ""
