"""Completion as bash, zsh, fish and kubectl do it."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import pytest
from tls import binary

PROGRAMS = pathlib.Path(binary("lockstep")).parent


@pytest.fixture
def folder(tmp_path):
    """A folder with files to complete, and no cluster to ask."""
    (tmp_path / "work/checkpoints").mkdir(parents=True)
    (tmp_path / "work/job one.yaml").touch()
    return tmp_path / "work"


def environment(folder):
    return os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(folder.parent), "TERM": "dumb",
                         "KUBECONFIG": str(folder / "none"), "XDG_CONFIG_HOME": str(folder.parent),
                         "XDG_DATA_HOME": str(folder.parent)}


def output(folder, *words):
    return subprocess.run(words, cwd=folder, env=environment(folder), check=True, capture_output=True,
                          text=True).stdout


def in_bash(folder, *words):
    """What bash offers in place of the last word."""
    script = ('source <(lockstep completion bash); COMP_WORDS=(lockstep "$@"); COMP_CWORD=$#; '
              '_lockstep; printf "%s\\n" "${COMPREPLY[@]}"')
    return output(folder, "bash", "-c", script, "bash", *words).splitlines()


def test_bash_completes_commands_options_values_and_paths(folder):
    assert in_bash(folder, "st") == ["status"]
    assert in_bash(folder, "run", "--framew") == ["--framework"]
    assert in_bash(folder, "run", "--framework", "T") == ["Torch", "TensorFlow"]
    assert in_bash(folder, "run", "--bind", "=", "No") == ["None", "Node"]
    assert sorted(in_bash(folder, "validate", "")) == ["checkpoints", "job one.yaml"]
    assert in_bash(folder, "run", "--checkpoint", "") == ["checkpoints"]
    assert in_bash(folder, "run", "--max-restarts", "") == [""]


def in_fish(folder, line):
    return [each.split("\t")[0] for each in output(
        folder, "fish", "--no-config", "-c",
        f'lockstep completion fish | source; complete -C "{line}"').splitlines()]


def test_fish_completes_commands_options_values_and_paths(folder):
    assert in_fish(folder, "lockstep st") == ["status"]
    assert in_fish(folder, "lockstep run --framew") == ["--framework"]
    assert in_fish(folder, "lockstep run --bind=No") == ["--bind=Node", "--bind=None"]
    assert in_fish(folder, "lockstep validate job") == ["job one.yaml"]
    assert in_fish(folder, "lockstep run --checkpoint ") == ["checkpoints/"]
    assert in_fish(folder, "lockstep run --max-restarts ") == []


class Zsh:
    """An interactive zsh at a terminal."""

    def __init__(self, folder):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment(folder))
        self.said = ""

    def send(self, text):
        self.said = ""
        os.write(self.terminal, text.encode())

    def wait_for(self, *words):
        """Reads until all words have been seen."""
        end = time.monotonic() + 30
        while not all(word in self.said for word in words):
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, self.said
            self.said += os.read(self.terminal, 4096).decode(errors="replace")
        return self.said

    def close(self):
        os.close(self.terminal)  # SIGHUP
        ended = os.pidfd_open(self.pid)
        try:
            if not select.select([ended], [], [], 10)[0]:
                signal.pidfd_send_signal(ended, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        finally:
            os.close(ended)


@pytest.fixture(params=["sourced", "in fpath"])
def zsh(request, folder):
    shell = Zsh(folder)
    try:
        load = "source <(lockstep completion zsh)"
        before = "true"
        if request.param == "in fpath":
            (folder / "functions").mkdir()
            (folder / "functions/_lockstep").write_text(output(folder, "lockstep", "completion", "zsh"))
            before, load = "fpath=($PWD/functions $fpath)", "true"
        shell.send(f"PS1='%# '; unsetopt zle_bracketed_paste; {before}; autoload -U compinit; "
                   f"compinit -u -D; {load}; echo rea''dy\n")
        shell.wait_for("ready")
        yield shell
    finally:
        shell.close()


def test_zsh_completes_commands_options_values_and_paths(zsh):
    zsh.send("lockstep stat\t")
    zsh.wait_for("status")
    zsh.send("-o js\t")
    zsh.wait_for("json")
    zsh.send("\x15lockstep run --bind=No\t\t")
    zsh.wait_for("--bind=Node", "--bind=None")
    zsh.send("\x15lockstep validate job\t")
    zsh.wait_for(r"job\ one.yaml")


def test_kubectl_completes_what_stands_behind_lockstep(folder):
    """kubectl runs kubectl_complete-lockstep; a colon and a number end what it prints."""
    program = folder / "kubectl_complete-lockstep"
    program.write_text(output(folder, "lockstep", "completion", "kubectl"))
    program.chmod(0o755)
    assert output(folder, program, "dele") == "delete\tDelete jobs and their pods\n:4\n"
    assert output(folder, program, "list", "--output", "w") == "wide\n:4\n"
    assert output(folder, program, "submit", "") == ":0\n"


def test_debug_completes_names_of_runs_on_this_computer(folder):
    with subprocess.Popen(["lockstep", "run", "--name", "here", "--", "sh", "-c", "echo up; exec sleep 60"],
                          env=environment(folder), cwd=folder, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert "up" in run.stdout.readline()
            assert in_bash(folder, "debug", "he") == ["here"]
            assert in_bash(folder, "debug", "-n", "research", "he") == [""]
        finally:
            run.terminate()
