"""`kubectl lockstep ui` as a process that must end with exit code 0.

    with PageProcess(kubeconfig, "gpt") as process:
        process.wait_said(re.compile("the page: "))
"""

import os
import subprocess
import threading

from tls import binary
from waiting import wait_until

PATIENCE = 60


class PageProcess:
    """`said`: all that it has printed. `path`: a folder that stands first in PATH."""

    def __init__(self, kubeconfig, *arguments, path=None):
        folders = [str(path)] if path else []
        self.process = subprocess.Popen(
            [binary("kubectl-lockstep"), "ui", *map(str, arguments)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "KUBECONFIG": str(kubeconfig),
                 "PATH": ":".join([*folders, os.environ["PATH"]])})
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said += line

    def wait_said(self, pattern):
        """The match of a compiled pattern in what it has printed."""
        found = wait_until(lambda: pattern.search(self.said) or self.process.poll() is not None,
                           lambda: f"{pattern.pattern}\n{self.said}", PATIENCE)
        assert found is not True, self.said
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join()
        assert code == 0, self.said
