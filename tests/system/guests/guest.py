"""Small machines of another kind than this one: real kernels in QEMU, with several NUMA nodes or for arm64.

    with tempfile.TemporaryDirectory() as folder:
        results = Guest(nodes=2, cpus=4, sockets=2).run(folder, [Check("strict", {"bind": "Node"}), ...])
    results["strict"].ranks[1]["cpus"] == "2-3"

A guest boots Debian's cloud kernel and an initramfs of busybox and Lockstep's static programs, runs
a `lockstep run` for each check, one after the other, says all on its serial line and powers off. It is
emulated: it shows where things are put, and nothing about speed.
"""

import dataclasses
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess

from paths import ROOT
from tls import binary

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
ARM64 = CACHE / "lockstep/arm64"
PATIENCE = 600  # seconds, for all checks of a guest, which take one; on a machine shared by many
MIB = 16  # that each rank touches
# All processors of a guest share a thread. With a thread each, a kernel at times waited for itself for
# ever, interrupts off, in one of three boots.
EMULATOR = ["-accel", "tcg,thread=single"]


@dataclasses.dataclass(frozen=True)
class Architecture:
    emulator: tuple
    kernel: pathlib.Path
    kernel_options: str
    busybox: str
    programs: pathlib.Path | None = None  # None: those of LOCKSTEP_BIN

    def program(self, name):
        return str(self.programs / name) if self.programs else binary(name)


AMD64 = Architecture(
    ("qemu-system-x86_64", "-cpu", "max"), CACHE / "lockstep/guest-kernel/vmlinuz",
    # At boot the kernel does not look whether its clock ticks: on a busy machine it does not, for a while.
    "console=ttyS0 no_timer_check", shutil.which("busybox") or "/bin/busybox")


def arm64(pages):
    """With pages of so many KiB: 4 or 16."""
    return Architecture(
        # Pointer authentication as the architecture has it is very slow in QEMU; impdef is another one.
        ("qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"),
        ARM64 / f"kernel-{pages}k/vmlinuz", "console=ttyAMA0", str(ARM64 / "sysroot/bin/busybox"),
        ROOT / "build/release-arm64/bin")


INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
ifconfig lo up
check() { # NAME CPUS MEMS WRAPPER...
  echo "@@begin $1"
  name=$1 group=/sys/fs/cgroup/$1 cpus=$2 mems=$3
  shift 3
  mkdir $group
  [ $cpus = - ] || echo $cpus >$group/cpuset.cpus
  [ $mems = - ] || echo $mems >$group/cpuset.mems
  sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' $group "$@" lockstep run -v --no-table --no-hints /jobs/$name.yaml 2>&1
  echo "@@end $name $?"
}
say() { # NAME COMMAND...
  echo "@@begin $1"
  name=$1
  shift
  "$@" 2>&1
  echo "@@end $name $?"
}
gpus() { # NODE...: from here on there seem to be NVIDIA GPUs, on these NUMA nodes
  mount -t tmpfs pci /sys/bus/pci/devices
  minor=0
  for node in "$@"; do
    device=/sys/bus/pci/devices/0000:$((10 + minor)):00.0
    mkdir $device
    echo 0x10de >$device/vendor
    echo 0x030200 >$device/class
    echo $node >$device/numa_node
    mknod /dev/nvidia$minor c 195 $minor
    minor=$((minor + 1))
  done
}
. /checks
echo @@done
poweroff -f
"""


WAITS = r"""page=/tmp/page.$RANK tries=600
until wget -qO- http://$MASTER_ADDR:7071/metrics | grep ^lockstep_rank >$page &&
      grep -qE "$UNTIL" $page || [ $((tries -= 1)) = 0 ]; do sleep 0.1; done
[ $RANK != 0 ] || cat $page
"""


@dataclasses.dataclass
class Check:
    """One `lockstep run`: what the job asks, and what the machine lets it; or one command of its own."""

    name: str
    topology: dict = dataclasses.field(default_factory=dict)
    processes: int = 2
    cpus: str = "-"  # of a cpuset around it
    mems: str = "-"
    seccomp: bool = False
    env: dict = dataclasses.field(default_factory=dict)
    spec: dict = dataclasses.field(default_factory=dict)
    gpus: bool = False  # seem to be there
    command: str = ""  # in place of `lockstep run`
    until: str = ""  # after their first step the ranks wait for such a line of the agent's page


@dataclasses.dataclass
class Outcome:
    code: int
    ranks: list  # what each rank said, by rank
    log: list  # of the agent
    metrics: list  # lines of its page, of a check with `until`
    said: str  # all of it

    def bound(self, rank):
        """What the agent says of the rank's binding: at its start, and then when that has changed."""
        first = [re.split(r"  +", line.split("]: ")[1])[-1] for line in self.log
                 if re.search(rf"\]: {rank}  ", line)]
        return first + [line.split(f"rank {rank} after its first step: ")[1] for line in self.log
                        if f"rank {rank} after its first step: " in line]


def _outcome(code, lines):
    ranks = [json.loads(line[line.index("{"):]) for line in lines if "{" in line and '"cpus":' in line]
    return Outcome(code, sorted(ranks, key=lambda rank: rank["rank"]),
                   [line for line in lines if "lockstep-agent[" in line],
                   [line[line.index("lockstep_"):] for line in lines if "r0] lockstep_" in line],
                   "\n".join(lines))


@dataclasses.dataclass
class Guest:
    nodes: int
    cpus: int
    sockets: int
    gpus: tuple = ()  # for checks with `gpus`: the NUMA node of each
    distances: dict = dataclasses.field(default_factory=dict)  # (from, to): as ACPI's SLIT has it
    architecture: Architecture = AMD64
    files: dict = dataclasses.field(default_factory=dict)  # path in the guest, without /: file here
    memory: int = 256  # MiB, of each node

    def run(self, folder, checks):
        """Outcomes by name; AssertionError with all that it said, where it did not come to its end."""
        folder = pathlib.Path(folder)
        self._initramfs(folder, checks)
        said = self._boot(folder)
        assert "@@done" in said, said
        parts = re.findall(r"@@begin (\S+)\n(.*?)@@end \1 (\d+)\n", said, re.DOTALL)
        return {name: _outcome(int(code), text.splitlines()) for name, text, code in parts}

    def _boot(self, folder):
        """All that it said."""
        done = subprocess.run(self._command(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, errors="replace")
        return done.stdout.replace("\r", "")

    def _command(self, folder):
        each = self.cpus // self.nodes
        command = [*self.architecture.emulator, *EMULATOR, "-nographic", "-no-reboot", "-nodefaults",
                   "-serial", "stdio", "-m", f"{self.memory * self.nodes}M",
                   "-smp", f"{self.cpus},sockets={self.sockets},cores={self.cpus // self.sockets}",
                   "-kernel", str(self.architecture.kernel), "-initrd", str(folder / "initramfs.gz"),
                   "-append", f"{self.architecture.kernel_options} quiet panic=-1"]
        for node in range(self.nodes):
            command += ["-object", f"memory-backend-ram,id=m{node},size={self.memory}M", "-numa",
                        f"node,nodeid={node},cpus={node * each}-{node * each + each - 1},memdev=m{node}"]
        for (source, target), value in self.distances.items():
            command += ["-numa", f"dist,src={source},dst={target},val={value}"]
        return command

    def _initramfs(self, folder, checks):
        tree = folder / "tree"
        for name in ("bin", "proc", "sys", "dev", "tmp", "jobs", "etc", "usr"):
            (tree / name).mkdir(parents=True)
        (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
        shutil.copy(self.architecture.busybox, tree / "bin/busybox")
        for program in ("lockstep", "lockstep-agent", "lockstep-guest"):
            shutil.copy(self.architecture.program(program), tree / "bin" / program)
        for path, source in self.files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tree / path)
        (tree / "init").write_text(INIT)
        (tree / "init").chmod(0o755)
        first, second = ("".join(_line(check) for check in checks if check.gpus == gpus)
                         for gpus in (False, True))
        (tree / "checks").write_text(f"{first}gpus {' '.join(map(str, self.gpus))}\n{second}")
        for check in checks:
            (tree / f"jobs/{check.name}.yaml").write_text(json.dumps(_job(check)))
        archive = subprocess.run("find . | busybox cpio -o -H newc", shell=True, cwd=tree, check=True,
                                 capture_output=True).stdout
        (folder / "initramfs.gz").write_bytes(gzip.compress(archive, 1))


def _line(check):
    if check.command:
        return f"say {check.name} {check.command}\n"
    wrapper = " lockstep-guest confined" if check.seccomp else ""
    return f"check {check.name} {check.cpus} {check.mems}{wrapper}\n"


def _job(check):
    variables = {"THEN": WAITS, "UNTIL": check.until} if check.until else {}
    return {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": check.name},
            "spec": {"numMachines": 1, "processesPerMachine": check.processes,
                     "command": ["lockstep-guest", "rank", str(MIB)],
                     "env": [{"name": name, "value": value}
                             for name, value in {**variables, **check.env}.items()],
                     "topology": check.topology, **check.spec}}
