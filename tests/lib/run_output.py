"""What a `lockstep run` prints, as it comes.

    run = Run(tmp_path, "job.yaml")
    output = Output(run)
    output.wait("all 4 ranks running", "the gang")
    run.process.wait(60)
    output.join()
"""

import re
import threading

from waiting import wait_until


class Output:
    def __init__(self, run):
        self.text = ""
        self._thread = threading.Thread(target=self._read, args=(run.process.stdout,), daemon=True)
        self._thread.start()

    def _read(self, stream):
        for line in stream:
            self.text += line

    def wait(self, pattern, what, patience=240):
        """The first match."""
        return wait_until(lambda: re.search(pattern, self.text),
                          lambda: f"{what}\n{self.text[-4000:]}", patience, 0.2)

    def join(self):
        """All of it; the run has ended."""
        self._thread.join()
        return self.text
