#!/usr/bin/python3
"""A stand-in of mpirun and of its daemon, as strict as they are of what they find.

    stand_in_mpirun.py STYLE FOLDER [MODE]      STYLE: openmpi4, openmpi5, mpich or intel

It reads the hosts where STYLE looks for them, calls the remote shell with the words that STYLE has
for it, and waits for each daemon to call back. Then it leaves FOLDER/up and waits for FOLDER/go.
MODE: `leave` ends while the daemons run, `skip` asks no other machine, `refused` asks for a host
that is none, `fail CODE` ends so, `flood` has daemons write 8 MiB, `die CODE` has them exit so.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ME = str(pathlib.Path(__file__).resolve())
AGENT = {"openmpi4": "OMPI_MCA_plm_rsh_agent", "openmpi5": "PRTE_MCA_plm_ssh_agent",
         "mpich": "HYDRA_LAUNCHER_EXEC", "intel": "I_MPI_HYDRA_BOOTSTRAP_EXEC"}
HOSTS = {"openmpi4": "OMPI_MCA_orte_default_hostfile",
         "openmpi5": "PRTE_MCA_prte_default_hostfile",
         "mpich": "HYDRA_HOST_FILE", "intel": "I_MPI_HYDRA_HOST_FILE"}
MUST_BE = {"openmpi4": {"OMPI_MCA_plm_rsh_no_tree_spawn": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "OMPI_MCA_orte_leave_session_attached": "1"},
           "openmpi5": {"PRTE_MCA_plm_ssh_no_tree_spawn": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
                        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
           "mpich": {"HYDRA_LAUNCHER": "ssh"}, "intel": {"I_MPI_HYDRA_BOOTSTRAP": "ssh"}}


def hosts(style):
    """[(name, slots)]"""
    lines = pathlib.Path(os.environ[HOSTS[style]]).read_text().splitlines()
    between = " slots=" if style.startswith("openmpi") else ":"
    found = [tuple(line.split(between)) for line in lines]
    assert found[0][0] == socket.gethostname(), found
    return [(name, int(slots)) for name, slots in found]


def call(style, host, port, mode):
    daemon = [ME, "daemon", style, host, str(port), *mode]
    agent = os.environ[AGENT[style]]
    return {
        "openmpi4": [agent, host, f" {daemon[0]}", *daemon[1:], "-mca", "ess", '"env"'],
        "openmpi5": [agent, host, f"PRTE_PREFIX=/p;export PRTE_PREFIX;{daemon[0]}", *daemon[1:],
                     "--daemonize", "--prtemca", "ess", '"env"'],
        "mpich": [agent, "-x", host, f'"{daemon[0]}"', *daemon[1:], "--control-port",
                  f"vm:{port}"],
        "intel": [agent, "-q", "-x", host, *daemon, "--upstream-host", "vm"],
    }[style]


def daemon(style, host, port, *mode):
    assert "--daemonize" not in sys.argv
    assert sys.stdin.read() == "", "it has no standard input"
    line = socket.create_connection(("127.0.0.1", int(port)))
    if mode[0] == "die":
        sys.exit(int(mode[1]))
    if mode[0] == "flood":
        for _ in range(128):
            print("x" * 65535)
        sys.stdout.flush()
    own = {"host": host, "pid": os.getpid(), "namespace": os.readlink("/proc/self/ns/pid"),
           "prefix": os.environ.get("PRTE_PREFIX"), "tmpdir": os.environ["TMPDIR"],
           "generation": os.environ["LOCKSTEP_GENERATION"], "name": socket.gethostname(),
           "address": socket.gethostbyname(socket.gethostname()),
           "machine 0": socket.gethostbyname(os.environ["LOCKSTEP_JOB"] + "-0"),
           "master": os.environ["MASTER_ADDR"]}
    line.sendall(json.dumps(own).encode() + b"\n")
    sys.exit(0 if line.recv(4) == b"quit" else 1)


def mpirun(style, folder, mode="wait", code="0"):
    folder = pathlib.Path(folder)
    for name, value in MUST_BE[style].items():
        assert os.environ.get(name) == value, name
    others = hosts(style)[1:]
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    if mode == "refused":
        refused = subprocess.run(call(style, "elsewhere", port, ["wait"]), capture_output=True,
                                 text=True, stdin=subprocess.DEVNULL, check=False)
        assert refused.returncode == 255 and "no other machine of that name" in refused.stderr
    if mode == "past":
        shells = folder / "shell"
        if not shells.exists():
            shells.write_text(pathlib.Path(os.environ[AGENT[style]]).read_text())
            shells.chmod(0o700)
            sys.exit(3)
        os.environ[AGENT[style]] = str(shells)
        past = subprocess.run(call(style, others[0][0], port, ["wait"]), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False)
        assert past.returncode == 255 and "has ended" in past.stderr, past
        (folder / "fenced").touch()
    if mode in ("skip", "past"):
        sys.exit(0)
    shells = [subprocess.Popen(call(style, host, port, [mode, code]), stdin=subprocess.DEVNULL)
              for host, _ in others]
    lines = [server.accept()[0] for _ in others]
    if mode == "die":
        assert [shell.wait() for shell in shells] == [int(code)] * len(shells)
        signal.pause()
    told = [json.loads(line.makefile().readline()) for line in lines]
    (folder / "up.new").write_text(json.dumps(told))
    (folder / "up.new").rename(folder / "up")
    while not (folder / "go").exists():
        for line in lines:
            line.setblocking(False)
            try:
                if line.recv(1) == b"":
                    # The remote shell tells of its end, which is then known where it ran.
                    while all(shell.poll() is None for shell in shells):
                        time.sleep(0.01)
                    sys.exit("ORTE has lost communication with a remote daemon.")
            except BlockingIOError:
                pass
        time.sleep(0.01)
    if mode in ("leave", "fail"):
        sys.exit(int(code))
    for line in lines:
        line.setblocking(True)
        line.sendall(b"quit")
    codes = [shell.wait() for shell in shells]
    sys.exit(0 if codes == [0] * len(codes) else f"stand-in: shells ended with {codes}")


if __name__ == "__main__":
    if sys.argv[1] == "daemon":
        daemon(*sys.argv[2:])
    else:
        mpirun(*sys.argv[1:])
