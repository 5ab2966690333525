"""Plays the agent's side of a parked interpreter: starts it, reads what it says, tells it to go."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import zipfile

import pytest
from paths import ROOT
from pythons import PYENV, pythons

HOOK = ROOT / "worker/python/prestart/sitecustomize.py"
# What test_mutants.py says: another hook to test, and how long to wait for it.
TESTED_HOOK = os.environ.get("LOCKSTEP_TESTED_HOOK", HOOK)
SECONDS = int(os.environ.get("LOCKSTEP_HOOK_SECONDS", "60"))
PYTHONS = pythons()
# Those that cannot be parked.
OLD_PYTHONS = {
    path.parents[1].name: str(path)
    for version in ("2.7", "3.6", "3.7")
    for path in PYENV.glob(f"versions/{version}.*/bin/python")
}
# The first, the oldest and the newest; the others are in suite slow.
QUICK = [*list(PYTHONS)[:2], *list(PYTHONS)[-1:]]
EVERY_PYTHON = [
    pytest.param(python, id=version, marks=[] if version in QUICK else [pytest.mark.slow])
    for version, python in PYTHONS.items()
]


def make_venv(python, folder):
    """A virtual environment; its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin/python3"


def make_prefix(python, folder):
    """A tree as conda lays it out: an interpreter of its own beside its library, its packages and a
    record of these, and no virtual environment. Its Python."""
    ask = (
        "import os, sys\n"
        "print(os.path.dirname(os.__file__), sys.base_prefix, os.path.realpath(sys.executable))"
    )
    said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout
    library, base, program = map(pathlib.Path, said.split())
    own = folder / "lib" / library.name
    for each in (own / "site-packages", folder / "bin", folder / "conda-meta"):
        each.mkdir(parents=True)
    (folder / "conda-meta/history").touch()
    for each in library.iterdir():
        if each.name != "site-packages":
            (own / each.name).symlink_to(each)
    for where in ("", "lib"):
        for each in (base / where).glob("libpython3*.so*"):
            (folder / where / each.name).symlink_to(each)
    shutil.copy(program, folder / "bin" / library.name)
    (folder / "bin/python3").symlink_to(library.name)
    return folder / "bin/python3"


class Environment:
    """A Python with packages of its own, and the folder of a program."""

    def __init__(self, python, folder, make=make_venv):
        self.folder = pathlib.Path(folder)
        self.home = self.folder / "program"
        self.list = self.folder / "list"
        self.hook = self.folder / "hook"
        for each in (self.home, self.hook):
            each.mkdir()
        shutil.copy(TESTED_HOOK, self.hook / HOOK.name)
        self.python = str(make(python, self.folder / "python"))
        (self.packages,) = (self.folder / "python").glob("lib/python*/site-packages")

    def package(self, name, text):
        return self._write(self.packages / f"{name}.py", text)

    def program(self, name, text):
        return self._write(self.home / name, text)

    def learn(self, *lines):
        self.list.write_text("".join(line + "\n" for line in lines))

    def learnt(self):
        return self.list.read_text().splitlines()

    def zipapp(self, text):
        path = self.home / "app.pyz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("__main__.py", text)
        return str(path)

    @staticmethod
    def _write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def run(self, *words, mode=None, extra=None):
        """A whole plain or recording run: its exit code, stdout and stderr."""
        return self.start(*words, mode=mode, extra=extra).result()

    def start(self, *words, mode=None, extra=None):
        return Process(self, words, mode and f"{mode}:-1::{self.list}", extra)

    def record(self, *words, extra=None):
        return self.run(*words, mode="record", extra=extra)

    def park(self, *words, mode="park", extra=None, before=()):
        return Process(self, words, mode, extra, before)


class Process:
    """One started interpreter; parked where `mode` says so. Kills it when it is left. `before`:
    words of a command that becomes it."""

    def __init__(self, environment, words, mode, extra=None, before=()):
        self.left = []  # what it has left to the program, and why
        parked = mode in ("park", "park+record", "probe")
        self.socket, theirs = socket.socketpair() if parked else (None, None)
        variables = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "PYENV", "LOCKSTEP", "PYTEST", "COV"))
        }
        variables.update(extra or {})
        if mode:
            if parked:
                mode = f"{mode}:{theirs.fileno()}:n1:{environment.list}"
            users = variables.get("PYTHONPATH")
            variables["LOCKSTEP_PRESTART"] = mode
            paths = filter(None, [str(environment.hook), users])
            variables["PYTHONPATH"] = ":".join(paths)
        self.process = subprocess.Popen(
            [*before, environment.python, *words],
            cwd=environment.home,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[theirs.fileno()] if parked else [],
            start_new_session=True,
        )
        self.pid = self.process.pid
        if parked:
            theirs.close()
            self.socket.settimeout(SECONDS)
            self.file = self.socket.makefile("r")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()
        if self.socket:
            self.let_go()

    def message(self):
        """The next line as JSON; None at the end."""
        line = self.file.readline()
        return json.loads(line) if line else None

    def ready(self):
        assert self.message() == {"held": "n1"}
        ready = self.message()
        while ready and ready.get("again") == "n1":
            self.left.append(ready["why"])
            assert self.message() == {"held": "n1"}  # before it imports anything
            ready = self.message()
        assert ready and ready.get("ready") == "n1", (ready, self.result() if not ready else None)
        return ready

    def go(self, **variables):
        self.socket.sendall(json.dumps({"go": variables}).encode() + b"\n")

    def let_go(self):
        self.file.close()
        self.socket.close()

    def printed(self):
        """The next line of its stdout."""
        line = b""
        while not line.endswith(b"\n"):
            there, _, _ = select.select([self.process.stdout], [], [], SECONDS)
            assert there, f"it has printed {line!r} and no more"
            byte = os.read(self.process.stdout.fileno(), 1)
            assert byte, f"it has ended after {line!r}"
            line += byte
        return line.decode()

    def result(self):
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err


@pytest.fixture
def first(tmp_path):
    """The environment of the first Python found."""
    return Environment(next(iter(PYTHONS.values())), tmp_path)


@pytest.fixture(params=EVERY_PYTHON)
def every(request, tmp_path):
    """The environment of each Python found."""
    return Environment(request.param, tmp_path)


@pytest.fixture(params=[each for each in EVERY_PYTHON if each.values[0] != "/usr/bin/python3"])
def conda(request, tmp_path):
    """As conda lays it out, of each Python found but Debian's, whose packages stand elsewhere."""
    return Environment(request.param, tmp_path, make_prefix)


if __name__ == "__main__":
    sys.stdout.write("".join(f"{version} {path}\n" for version, path in PYTHONS.items()))
