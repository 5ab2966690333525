"""The programs of a cluster: processes that carry its folder's name in their environment.

By that exactly its own are found, whatever became of the process that started them. cluster.json in
the folder says how each was started, so that it can be started again.
"""

import json
import os
import pathlib
import signal
import subprocess

import processes
from waiting import wait_until

MARK = "LOCKSTEP_TEST_CLUSTER"
# Memory for processor time: kube-apiserver takes 10 to 20% less of it.
COLLECT_LESS = {"GOGC": "400"}
PATIENCE = 300.0  # seconds for any one step: far beyond what a loaded machine takes


class ClusterError(Exception):
    pass


def running(folder, program=None):
    """The process ids of one program, or of all."""
    return [pid for pid in processes.with_variable(MARK, str(folder))
            if program is None or _program(pid) == program]


def stop(folder, program=None):
    """Ends one program, or all of them, and waits until they are gone."""
    def gone():
        left = running(folder, program)
        for pid in left:
            # Asked politely, a kube-apiserver would hold its port for several seconds more.
            os.kill(pid, signal.SIGKILL)
        return not left

    wait_until(gone, f"the processes of {folder} to end", PATIENCE, interval=0.02)


def _program(pid):
    return pathlib.Path(processes.command(pid).partition(" ")[0]).name


class Programs:
    """They run with the folder as their working directory: a socket's name is 107 characters long
    at most, so names are relative."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._running = {}
        self.state = {"commands": {}}

    def load(self):
        self.state = json.loads((self.folder / "cluster.json").read_text())

    def save(self):
        self.write_private("cluster.json", json.dumps(self.state, indent=2))

    def start(self, path, *arguments):
        """Starts one that start_again knows by the last part of its path."""
        name = pathlib.Path(path).name
        self.state["commands"][name] = [str(path), *arguments]
        self.save()
        self.start_again(name)

    def start_again(self, name):
        self.run(name, self.state["commands"][name])

    def run(self, name, command, variables=None, **options):
        """A process whose output goes to log/NAME.log, unless the options say otherwise."""
        file = self.folder / "log" / f"{name}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | options
            process = subprocess.Popen(
                command, cwd=self.folder, start_new_session=True,
                env={**os.environ, **COLLECT_LESS, MARK: str(self.folder), **(variables or {})}, **options)
        self._running[name] = process
        return process

    def forget(self, suffix):
        """Those whose names end so were ended on purpose."""
        for name in [each for each in self._running if each.endswith(suffix)]:
            self._running.pop(name).wait(PATIENCE)

    def wait(self, name, condition):
        """Until condition() holds, with every program started so far still there."""
        def holds():
            for each, process in list(self._running.items()):
                if process.poll() is not None:
                    raise ClusterError(f"{each} ended by itself; {self._log_end(each)}")
            return condition()

        try:
            return wait_until(holds, name, PATIENCE, interval=0.05)
        except AssertionError as error:
            raise ClusterError(f"{name} was not ready in {PATIENCE:g} s; "
                               f"{self._log_end(name)}") from error

    def write_private(self, name, text):
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(text)

    def _log_end(self, name):
        log = self.folder / "log" / f"{name}.log"
        return f"the end of {log}:\n{log.read_text(errors='replace')[-3000:]}"
