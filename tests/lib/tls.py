"""TLS 1.3 with a job's key (Python 3.11's ssl has no pre-shared keys), and HTTP on it."""

import contextlib
import json
import os
import pathlib
import selectors
import subprocess
import time


def binary(program):
    folder = os.environ.get("LOCKSTEP_BIN")
    if not folder:
        folder = pathlib.Path(__file__).parents[2] / "build/release/bin"
    return str(pathlib.Path(folder) / program)


class Closed(Exception):
    """The peer ended the connection, or there was none."""


class TlsConnection:
    """Bytes to and from an agent. `identity` and `key` (hexadecimal) are what is claimed."""

    def __init__(self, address, identity, key):
        self._pipe = subprocess.Popen(
            [binary("lockstep-tls-pipe"), address, identity],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.send(key.encode() + b"\n")

    def send(self, data):
        try:
            self._pipe.stdin.write(data)
            self._pipe.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise Closed(str(error)) from error

    def receive(self, patience=30.0):
        """Some bytes. Closed when the peer has ended it, TimeoutError when it says nothing."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe.stdout, selectors.EVENT_READ)
            if not selector.select(patience):
                raise TimeoutError(f"no answer in {patience:g} s")
        data = os.read(self._pipe.stdout.fileno(), 65536)
        if not data:
            raise Closed("the peer closed the connection")
        return data

    def wait_closed(self, patience=30.0):
        """All that came before the peer closed."""
        data, deadline = b"", time.monotonic() + patience
        while True:
            try:
                data += self.receive(max(0.0, deadline - time.monotonic()))
            except Closed:
                return data

    def close(self):
        self._pipe.kill()
        with contextlib.suppress(BrokenPipeError):
            self._pipe.stdin.close()
        self._pipe.stdout.close()
        self._pipe.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class HttpClient:
    """One connection, kept open: request after request."""

    def __init__(self, connection):
        self._connection = connection

    def request(self, method, path, body=None, patience=60.0):
        """(status, body)."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: agent\r\nContent-Length: {len(content)}\r\n\r\n"
        self._connection.send(head.encode() + content)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._connection.receive(patience)
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines[1:])}
        length = int(headers.get("content-length", 0))
        while len(data) < length:
            data += self._connection.receive(patience)
        return int(lines[0].split()[1]), data.decode()

    def close(self):
        self._connection.close()
