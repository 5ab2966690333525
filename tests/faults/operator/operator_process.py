"""lockstep-operator as a process that is killed and comes back, as a Deployment would have it."""

import asyncio
import contextlib
import os
import pathlib
import signal

from tls import binary

LEASE_SECONDS = 5
LEASE_LOST = 1  # the exit code


class OperatorProcess:
    def __init__(self, folder, kubeconfig, namespace):
        self._log = folder / "operator.log"
        self._command = [
            binary("lockstep-operator"), "--kubeconfig", kubeconfig, "--namespace", namespace,
            "--system-namespace", namespace, "--agent-image", "agent:test",
            "--metrics-address", "127.0.0.1:0", "--lease-duration", LEASE_SECONDS,
            "--log-format", "text"]
        self._process = self._supervisor = None
        self.deaths = []  # codes of those that ended by themselves; negative: the signal

    async def start(self):
        with self._log.open("a") as log:
            self._process = await asyncio.create_subprocess_exec(
                *map(str, self._command), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log)
        self._supervisor = asyncio.create_task(self._supervise())

    async def kill(self):
        """At once, and none comes back."""
        self._supervisor.cancel()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def crash(self):
        """Killed and started again."""
        await self.kill()
        await self.start()

    async def freeze(self, seconds):
        self._process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)

    def usage(self):
        folder = pathlib.Path(f"/proc/{self._process.pid}")
        pages = int((folder / "statm").read_text().split()[1])
        return {"threads": len(os.listdir(folder / "task")),
                "descriptors": len(os.listdir(folder / "fd")),
                "memory": pages * os.sysconf("SC_PAGE_SIZE")}

    def log_end(self):
        return self._log.read_text(errors="replace")[-4000:]

    async def _supervise(self):
        code = await self._process.wait()
        # A machine so busy that a renewal comes late takes the Lease away, and that is no fault.
        if code != LEASE_LOST:
            self.deaths.append(code)
        await self.start()
