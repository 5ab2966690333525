"""Process 1 of a node: makes the node's own view of the file system, then reaps what is orphaned.

    unshare --mount --pid --net --uts --fork --kill-child node_init.py FOLDER

FOLDER/var becomes /var and /run is empty, so kubelet and containerd find their usual places, each
node's its own. All of it, mounts, network and processes, ends with this process: a node's power
goes at once. One line on standard output says that the node can be used.
"""

import os
import pathlib
import signal
import subprocess
import sys

# What kubelet would otherwise set for the whole computer.
TUNABLES = {
    "vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10",
    "kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def make_view(folder):
    # What the node mounts is not seen outside.
    mount("--make-rslave", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("--bind", folder / "var", "/var")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name, value in TUNABLES.items():
        file = pathlib.Path("/run/tunables") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value + "\n")
        mount("--bind", file, pathlib.Path("/proc/sys") / name)
    # Volumes that a container shares with the node are found in other containers.
    mount("--make-rshared", "/")
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def reap():
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


make_view(pathlib.Path(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
print("ready", flush=True)
reap()
