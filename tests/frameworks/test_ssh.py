"""`lockstep run --hosts` through a real sshd of this computer."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import processes
import pytest
from ports import free_port
from run import MARK, TELLS, Run, listening, ranks
from run_output import Output
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


def test_a_gang_runs_heals_and_is_stopped(start, tmp_path):
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


def test_nothing_outlives_a_run_that_is_killed(start, tmp_path):
    run = start(*on_two(tmp_path, "sleep", "1000"))
    run.wait_ranks(4)
    run.process.kill()
    run.process.communicate(timeout=60)
    wait_until(lambda: not ranks(run.mark), "its ranks to end")


def test_a_question_is_never_asked(start):
    run = start("--hosts", "one,unknown,shut,off", "--", "true")
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 1, output
    assert re.search("node unknown: .*log in there once by hand", output), output
    assert re.search("node shut: .*Permission denied .*without a password", output), output
    assert re.search("node off: .*Connection refused", output), output


def test_an_agent_that_is_not_there_is_named(start):
    run = start("--hosts", "one", "--agent", "/nowhere/lockstep-agent", "--", "true")
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 1, output
    assert re.search("node one: .*/nowhere/lockstep-agent.*copy lockstep-agent there", output), output
