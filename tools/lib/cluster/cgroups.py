"""Control groups of nodes: below each the kubelet of one keeps those of its pods."""

import pathlib

from waiting import wait_until

ROOT = pathlib.Path("/sys/fs/cgroup")
PATIENCE = 60.0


def make(name):
    """An empty group in every hierarchy, in which containers may use all that this computer has."""
    if (ROOT / "cgroup.controllers").exists():
        wanted = (ROOT / "cgroup.controllers").read_text().split()
        (ROOT / "cgroup.subtree_control").write_text(" ".join("+" + each for each in wanted))
        (ROOT / name).mkdir(exist_ok=True)
        return
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
    for file in ("cpuset.cpus", "cpuset.mems"):
        (ROOT / "cpuset" / name / file).write_text((ROOT / "cpuset" / file).read_text())


def remove(prefix):
    """Every group whose name begins so, once its last process is gone."""
    def gone():
        left = [group for hierarchy in _hierarchies() for group in hierarchy.glob(f"{prefix}*")]
        for group in left:
            _remove_tree(group)
        return not left

    wait_until(gone, f"the control groups {prefix}* to be empty", PATIENCE, interval=0.05)


def _hierarchies():
    """Of version 1 there are several, one a controller; of version 2 there is one."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [folder for folder in ROOT.iterdir()
            if (folder / "cgroup.procs").exists() and not folder.is_symlink()]


def _remove_tree(group):
    try:
        for below in group.iterdir():
            if below.is_dir():
                _remove_tree(below)
        group.rmdir()
    except OSError:
        pass  # a process in it is not quite gone; the caller comes again
