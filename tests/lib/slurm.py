"""A real SLURM on this computer: munged, slurmctld and two slurmd, n1 and n2, in a folder.

    with slurm.running_site(tmp_path) as site:
        job = site.sbatch("-N2", script)
        site.scancel(job)

    with slurm.running_site(tmp_path, cores=8, gpus=8) as site:  # of each node, as SLURM believes

Needs root, as munged's key does, and Debian's slurmctld, slurmd and munge.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

from ports import free_port
from waiting import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

CONF = """\
ClusterName=lockstep
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={control}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
KillWait=30
SchedulerParameters=sched_interval=1,requeue_delay=1
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n1 NodeHostName=localhost NodeAddr=127.0.0.1 Port={n1} {size} State=UNKNOWN
NodeName=n2 NodeHostName=localhost NodeAddr=127.0.0.1 Port={n2} {size} State=UNKNOWN
PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why there can be no SLURM here; "" if there can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=path())]
    if absent:
        return f"no {', '.join(absent)} here: tools/deps --frameworks"
    return "" if os.geteuid() == 0 else "munged wants root"


def path():
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "PATH": path(), "SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons = []

    def daemon(self, name, *words):
        log = open(self.folder / f"{name}.log", "w")
        self.daemons.append(subprocess.Popen(
            words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def ask(self, *words):
        done = subprocess.run(words, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def start(self, cores, gpus):
        (self.folder / "state").mkdir()
        size = f"CPUs={cores or os.cpu_count()} RealMemory=4000 Gres=gpu:{gpus}"
        (self.folder / "slurm.conf").write_text(CONF.format(
            folder=self.folder, size=size, control=free_port(), n1=free_port(), n2=free_port()))
        devices = [self.folder / f"gpu{number}" for number in range(gpus)]
        for device in devices:
            device.touch()
        lines = [f"NodeName=n[1-2] Name=gpu File={device}" for device in devices]
        (self.folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *lines, ""]))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}",
                    f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                    f"--seed-file={self.folder}/munge.seed", "--num-threads=1")
        wait_until(lambda: (self.folder / "munge.socket").exists(), self.said)
        self.daemon("slurmctld", "slurmctld", "-D", "-i")
        for node in ("n1", "n2"):
            self.daemon(node, "slurmd", "-D", "-N", node)
        wait_until(lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2",
                   self.said, patience=90, interval=0.2)

    def said(self):
        return "SLURM\n" + "\n".join(p.read_text()[-2000:] for p in self.folder.glob("*.log"))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def sbatch(self, *words, variables=None):
        done = subprocess.run(
            ["sbatch", "--parsable", f"--output={self.folder}/job-%j.out", *words],
            env={**self.environment, **(variables or {})}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def output(self, job):
        file = pathlib.Path(self.folder / f"job-{job}.out")
        return file.read_text() if file.exists() else ""

    def state(self, job):
        return self.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def wait_state(self, job, *states, patience=120):
        wait_until(lambda: self.state(job) in states,
                   lambda: f"{states}, not {self.state(job)}\n{self.output(job)}\n{self.said()}",
                   patience, 0.2)


@contextlib.contextmanager
def running_site(folder, cores=None, gpus=0):
    site = Site(folder)
    try:
        site.start(cores, gpus)
        yield site
    finally:
        site.ask("scancel", "-u", "root")
        site.stop()
