"""`lockstep mcp`, spoken to by the official SDK of the Model Context Protocol, or line by line.

    def use(session): ...            # async
    with_session(use, "--allow-write", env=...)
"""

import asyncio
import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tls import binary

PATIENCE = 60


def with_session(use, *arguments, env=None):
    """What the coroutine use(session) returns; the session is initialized.

    On a thread of its own, because other tests leave a running event loop in pytest's.
    """
    async def main():
        server = StdioServerParameters(command=binary("lockstep"), args=["mcp", *arguments],
                                       env={**os.environ, **(env or {})})
        async with stdio_client(server) as streams, \
                ClientSession(*streams, timedelta(seconds=PATIENCE)) as session:
            await session.initialize()
            return await use(session)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, main()).result()


async def call(session, tool, error=False, **arguments):
    """The text of a tool's answer, which must be an error or must not be one."""
    answer = await session.call_tool(tool, arguments)
    assert [each.type for each in answer.content] == ["text"]
    assert answer.isError == error, answer.content[0].text
    return answer.content[0].text


async def call_until(session, holds, tool, **arguments):
    """The first answer of which `holds` is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        text = (await session.call_tool(tool, arguments)).content[0].text
        if holds(text):
            return text
        await asyncio.sleep(0.05)
    raise AssertionError(f"{tool} {arguments} still answers\n{text}")


class Lines:
    """A session of plain lines."""

    def __init__(self, *arguments, env=None):
        self.process = subprocess.Popen([binary("lockstep"), "mcp", *arguments],
                                        env={**os.environ, **(env or {})}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ask(0, "initialize", protocolVersion="2025-06-18", capabilities={},
                 clientInfo={"name": "test", "version": "1"})

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def send(self, number, method, **params):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params,
                               **({} if number is None else {"id": number})}))

    def ask(self, number, method, **params):
        self.send(number, method, **params)
        answer = self.read()
        assert answer["id"] == number, answer
        return answer

    def close(self):
        """The exit code once the input has ended."""
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code
