"""lockstep-operator as a process that is killed and comes back, as a Deployment would have it."""

import asyncio
import contextlib
import os
import pathlib
import signal

from jobs import OPERATOR
from tls import binary

LEASE_SECONDS = 5
LEASE_LOST = 1  # the exit code


class OperatorProcess:
    def __init__(self, log, kubeconfig, namespace, options=()):
        self._log = log
        # It must not outlive a test that is killed.
        self._command = [
            "setpriv", "--pdeathsig", "KILL",
            binary(OPERATOR), "--kubeconfig", kubeconfig, "--namespace", namespace,
            "--system-namespace", namespace, "--agent-image", "agent:test",
            "--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0",
            "--lease-duration", LEASE_SECONDS, "--kueue",
            "--log-format", "text", *options]
        self._process = self._running = None
        self._killed = self._stopping = False
        self.deaths = []  # codes of those that ended by themselves; negative: the signal

    async def start(self):
        await self._spawn()
        self._running = asyncio.create_task(self._keep_running())

    def crash(self):
        """Killed, and soon started again."""
        self._killed = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self):
        """At once, and none comes back."""
        self._stopping = True
        self.crash()
        await self._running

    async def freeze(self, seconds):
        self._process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)

    def usage(self):
        """Of nothing, while it is on its way back."""
        folder = pathlib.Path(f"/proc/{self._process.pid}")
        try:
            pages = int((folder / "statm").read_text().split()[1])
            return {"threads": len(os.listdir(folder / "task")),
                    "descriptors": len(os.listdir(folder / "fd")),
                    "memory": pages * os.sysconf("SC_PAGE_SIZE")}
        except OSError:
            return {"threads": 0, "descriptors": 0, "memory": 0}

    def log_end(self):
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""

    async def _spawn(self):
        with self._log.open("a") as log:
            self._process = await asyncio.create_subprocess_exec(
                *map(str, self._command), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log)

    async def _keep_running(self):
        while True:
            code = await self._process.wait()
            # A machine so busy that a renewal comes late takes the Lease away: no fault of its own.
            if not self._killed and code != LEASE_LOST:
                self.deaths.append(code)
            if self._stopping:
                return
            await self._spawn()
            # A crash or an end that came in between was meant for this one, too.
            if self._stopping:
                self._process.kill()
            self._killed = self._stopping
