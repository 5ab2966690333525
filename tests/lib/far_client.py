#!/usr/bin/env python3
"""A strict stand-in for srun, ssh and scontrol: the command runs on this computer, in a session of
its own, and all it hears of its client is the pipe that is its stdin, as with the real ones.

    folder = far_client.install(tmp_path)      # a folder for PATH
    environment = far_client.allocation(tmp_path, "n1,n2", tasks="2(x2)")

A command line, or an environment, that `lockstep run` should not give is an error. `$FAR/HOST`, a
file, is what a host says instead of running anything.
"""

import os
import pathlib
import subprocess
import sys
import threading

SRUN = ["--overlap", "--nodes=1", "--ntasks=1", "--nodelist=", "--cpu-bind=none", "--mpi=none",
        "--unbuffered", "--job-name=lockstep"]
SSH = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3",
       "ControlPath=none", "ClearAllForwardings=yes", "LogLevel=ERROR"]
SLURM = {"SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_WORKING_CLUSTER"}


def install(folder):
    """A folder that holds the programs; `folder` also holds what hosts say."""
    programs = folder / "far-bin"
    programs.mkdir()
    for name in ("srun", "ssh", "scontrol"):
        (programs / name).symlink_to(pathlib.Path(__file__).resolve())
    return programs


def reached(folder, **variables):
    """The environment of a `lockstep run` that finds the stand-ins."""
    return {"PATH": f"{install(folder)}:{os.environ['PATH']}", "FAR": str(folder), **variables}


def allocation(folder, nodes, tasks="1"):
    return reached(folder, SLURM_JOB_ID="7", SLURM_JOBID="7", SLURM_JOB_NODELIST=nodes,
                   SLURM_TASKS_PER_NODE=tasks, SLURM_NTASKS="99", SLURM_GPUS_PER_TASK="1")


def refuse(words):
    sys.exit(f"stand-in: {words}")


def srun(words):
    strange = {n for n in os.environ if n.startswith(("SLURM_", "SBATCH_", "PMI_"))} - SLURM
    if strange or os.environ.get("SLURM_JOB_ID") != "7":
        refuse(f"srun would take these for options: {strange}")
    given, command = words[:len(SRUN)], words[len(SRUN):]
    for option, word in zip(SRUN, given, strict=True):
        if not word.startswith(option):
            refuse(f"{word} instead of {option}")
    node = given[3].partition("=")[2]
    return node, command, {"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1", "SLURM_PROCID": "0"}


def ssh(words):
    options = [f"-o={option}" for option in SSH]
    given = [f"{a}={b}" for a, b in zip(words[1:15:2], words[2:15:2], strict=True)]
    if words[0] != "-T" or given != options or words[15] != "--":
        refuse(f"ssh is called otherwise: {words}")
    # sshd gives the words, one blank between, to the user's shell.
    command = ["/bin/sh", "-c", " ".join(words[17:])]
    return words[16], command, {"SSH_CONNECTION": "127.0.0.1 40000 127.0.0.1 22"}


def run(node, command, variables):
    said = pathlib.Path(os.environ["FAR"]) / node
    if said.exists():
        sys.exit(said.read_text().strip())
    far = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True,
                           env={**os.environ, **variables})

    def pump():
        while block := os.read(0, 65536):
            try:
                os.write(far.stdin.fileno(), block)
            except BrokenPipeError:
                return
        far.stdin.close()

    threading.Thread(target=pump, daemon=True).start()
    code = far.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    called, given_words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    if called == "scontrol":
        if given_words[:2] != ["show", "hostnames"] or len(given_words) != 3:
            refuse(f"scontrol {given_words}")
        print("\n".join(given_words[2].split(",")))
    else:
        run(*(srun if called == "srun" else ssh)(given_words))
