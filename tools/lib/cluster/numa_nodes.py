"""A node that seems to have two NUMA nodes, to a kubelet that aligns pods by them.

Kubelet reads /sys/devices/system/node, so a folder of ours lies over it on that node. The first
half of the computer's CPUs seems to be on node 0, the rest on node 1. All memory is really on node
0, so only there can kubelet's memory manager confine a container; node 1's CPUs are reserved, and
what is to be aligned finds CPUs on node 0 alone.
"""

import os
import pathlib

SYSTEM = "/sys/devices/system/node"
RESERVED_MEMORY = "64Mi"  # on each


def write(folder):
    """The two nodes as sysfs has them. Returns the CPUs of each."""
    cpus = sorted(os.sched_getaffinity(0))
    halves = [cpus[:len(cpus) // 2], cpus[len(cpus) // 2:]]
    for index, half in enumerate(halves):
        node = pathlib.Path(folder) / f"node{index}"
        (node / "hugepages").mkdir(parents=True, exist_ok=True)
        (node / "meminfo").write_text(f"Node {index} MemTotal: {_memory() // 2} kB\n")
        (node / "distance").write_text("10 21\n" if index == 0 else "21 10\n")
        for cpu in half:
            link = node / f"cpu{cpu}"
            link.unlink(missing_ok=True)
            link.symlink_to(f"/sys/devices/system/cpu/cpu{cpu}")
    return halves


def kubelet(halves):
    """What to set in a KubeletConfiguration."""
    reserved = [{"numaNode": node, "limits": {"memory": RESERVED_MEMORY}} for node in (0, 1)]
    return {
        "topologyManagerPolicy": "restricted",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": ",".join(map(str, halves[1])),
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": "128Mi"}, "reservedMemory": reserved,
    }


def _memory():
    """Of the computer, in KiB."""
    return next(int(line.split()[1]) for line in pathlib.Path("/proc/meminfo").open()
                if line.startswith("MemTotal:"))
