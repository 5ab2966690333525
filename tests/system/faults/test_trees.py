"""The agent is one file that runs in any x86-64 Linux image: in a tree with nothing but a shell,
and in Debian 12 and 13."""

import os
import pathlib
import shutil
import subprocess

import pytest
from gang import GATE
from tls import binary

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
TREES = CACHE / "lockstep/trees"
MIRROR = "http://deb.debian.org/debian"

# Each agent gets mounts and process numbers of its own, as in a container.
ENTER = """
mount -t proc proc "$0/proc" && mount --bind "$1" "$0/mnt" || exit 99
root=$0; shift
exec chroot "$root" "$@"
"""

PROBE = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
pytestmark = pytest.mark.skipif(PROBE.returncode != 0, reason="no mounts may be made here")


def debian(release):
    """A minimal Debian; made once, and kept."""
    tree = TREES / release
    if not tree.exists():
        TREES.mkdir(parents=True, exist_ok=True)
        made = TREES / f".{release}.{os.getpid()}"
        scripts = pathlib.Path("/usr/share/debootstrap/scripts")
        script = scripts / release if (scripts / release).exists() else scripts / "sid"
        subprocess.run(["debootstrap", "--variant=minbase", release, made, MIRROR, script],
                       check=True, stdout=subprocess.DEVNULL)
        made.rename(tree)
    return tree


def bare(folder):
    """A shell and two empty folders: no /etc, no /dev, no libraries."""
    tree = folder / "bare"
    for name in ("bin", "proc", "mnt"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    (tree / "bin/sh").symlink_to("busybox")
    return tree


def run_in(gang, tree):
    """Two machines in the tree; a rank is killed, and a machine."""
    made = gang(environment={"GATES": "/mnt/gates"}, command=["/bin/sh", "/mnt/rank.sh"])
    shutil.copy(binary("lockstep-agent"), made.folder / "lockstep-agent")
    shutil.copy(GATE, made.folder / "rank.sh")
    prefix = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", ENTER,
              str(tree), str(made.folder))

    def start(machine, attempt):
        own = f"/mnt/m{machine}.{attempt}"
        made.start_agent(machine, attempt, prefix=prefix, program="/mnt/lockstep-agent",
                         runDir=f"{own}/run", terminationPath=f"{own}/termination")

    made.epoch = 1
    start(0, 1)
    start(1, 1)
    made.wait_phase("Running")
    made.tell(1, 3)
    made.wait_status(lambda s: (s["phase"], s["generation"]) == ("Running", "1-2"), "a restart")
    made.agents[1].kill()
    made.epoch = 2
    start(1, 2)
    made.wait_status(lambda s: (s["phase"], s["generation"]) == ("Running", "1-3"), "a replacement")
    made.open_gates()
    assert made.verdict()["exitCode"] == 0


def test_the_agent_runs_in_a_tree_with_nothing_but_a_shell(gang, tmp_path):
    run_in(gang, bare(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_the_agent_runs_in_a_minimal_debian(gang, release):
    run_in(gang, debian(release))
