"""A proxy between one client and a Kubernetes API server that knows what passes through it, and
breaks what a fault names.

    proxy = ApiProxy(server, certificate, [Fault("POST", "pods", "gpt-1", do="drop-after")], crash)
    await proxy.open()
    certificate.write_kubeconfig(path, proxy.port, token)

It keeps every call and watch event in `calls` and `events`, in the order in which they came.
"""

import asyncio
import base64
import collections
import contextlib
import dataclasses
import json
import re
import socket
import ssl
import urllib.parse

import http1
from certificate import self_signed

WRITES = ("POST", "PUT", "PATCH", "DELETE")
UPSTREAM = 8  # calls at a time; watches have connections of their own
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError, ssl.SSLError)
REASONS = {401: "Unauthorized", 403: "Forbidden", 409: "Conflict", 410: "Expired",
           422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable",
           504: "Timeout"}


class Certificate:
    """Of 127.0.0.1, for proxies; made once a run in `folder`."""

    def __init__(self, folder):
        self._certificate, key = folder / "proxy.crt", folder / "proxy.key"
        self_signed(self._certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self._certificate, key)

    def write_kubeconfig(self, path, port, token, namespace):
        authority = base64.b64encode(self._certificate.read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
        context = {"cluster": "proxy", "user": "client", "namespace": namespace}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "client", "user": {"token": token}}],
            "contexts": [{"name": "proxy", "context": context}]}))


@dataclasses.dataclass
class Fault:
    """What is broken: occurrences `nth` .. `nth + times - 1` of a call or of a watch event.

    verb: of a call POST, PUT, PATCH, DELETE, GET, WATCH or WATCHLIST (a watch that begins with the
    state); of an event ADDED, MODIFIED, DELETED or BOOKMARK. name: "*" is any; a name that differs
    from run to run is told by its beginning and *.

    do, of a call:
      crash-before, crash-after   the client is killed before the server has it, or after
      answer, answer-after        `status` instead of asking the server, or after it has obeyed
      html, truncate              the same with such a body; truncate is after it has obeyed
      drop-before, drop-after     the connection ends without an answer
      stall                       nothing is answered for `seconds`, then the connection ends
      late                        the server's answer comes `seconds` later
      restart                     of the server: no connection survives, none is made for `seconds`
      freeze                      the client stands still for `seconds` from now on
      touch                       somebody else changes the object first
    do, of an event:
      crash-before, crash-after   the client is killed before it has the event, or after
      delay                       the stream stands still for `seconds`
      cut, tear                   the stream ends before the event, or in the middle of it
      silence                     nothing comes any more, and the connection stays open
      gone                        410 in the stream
      twice                       it comes a second time
    """

    verb: str
    resource: str
    name: str = "*"
    nth: int = 1
    times: int = 1
    do: str = ""
    status: int = 0
    retry_after: int | None = None
    seconds: float = 2.0
    fired: int = 0
    _seen: int = 0

    def strikes(self, key):
        if (self.verb, self.resource) != (key.verb, key.resource):
            return False
        if self.name not in ("*", key.name):
            return False
        self._seen += 1
        strikes = self.nth <= self._seen < self.nth + self.times
        self.fired += strikes
        return strikes


@dataclasses.dataclass(frozen=True)
class Key:
    """What a call or an event is about, the same in every run."""

    verb: str
    resource: str  # "pods", "trainingjobs/status"
    name: str

    def __str__(self):
        return f"{self.verb} {self.resource} {self.name}"


@dataclasses.dataclass
class Call:
    key: Key
    path: str
    body: dict
    is_dry: bool = False  # what it would do is asked, and nothing done
    status: int = 0     # the server's answer; 0: it never got it
    answer: dict = dataclasses.field(default_factory=dict)

    @property
    def is_write(self):
        return self.key.verb in WRITES

    @property
    def committed(self):
        return self.is_write and not self.is_dry and 200 <= self.status < 300


class ApiProxy:
    def __init__(self, server, certificate, faults=(), around=None):
        """around.crash() kills the client, .freeze(seconds) stops it for a time, .touch(path)
        changes an object as somebody else would."""
        self._server, self._certificate, self.faults = server, certificate, list(faults)
        self._around, self._background = around, set()
        self.calls, self.events = [], []
        self._tasks, self._writers = set(), set()
        self._upstream, self._idle = asyncio.Semaphore(UPSTREAM), []
        self._listener = None
        # Bound as long as the proxy is there, so that it can refuse and come back on its port; it
        # never listens, or connections would wait in place of being refused.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]

    async def open(self):
        self._listener = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._certificate.context, limit=http1.LIMIT)

    async def close(self):
        for task in list(self._background):
            task.cancel()
        await self._disconnect()
        self._reserved.close()

    async def refuse(self, seconds):
        """As a server that restarts: every connection ends, and for so long nobody answers."""
        await self._disconnect()
        await asyncio.sleep(seconds)
        await self.open()

    def writes(self):
        return [call for call in self.calls if call.is_write]

    async def _disconnect(self):
        self._listener.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for peer in self._idle:
            peer.writer.transport.abort()
        self._idle.clear()

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._listener.is_serving():  # its handshake outlived the listener
            writer.transport.abort()
            return
        client = _Peer(reader, writer)
        self._writers.add(writer)
        try:
            while (request := await http1.read_head(reader)) is not None:
                body = await http1.read_body(reader, request)
                call = _parse(request, body)
                self.calls.append(call)
                if call.key.verb in ("WATCH", "WATCHLIST"):
                    await self._relay_watch(client, request, call)
                else:
                    await self._relay_call(client, request, body, call)
        except BROKEN:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()  # what was written still goes out

    async def _relay_call(self, client, request, body, call):
        fault = self._fault_for(call.key)
        if await self._before(client, call, fault):
            return
        # What the server has got it obeys, whatever becomes of the client.
        answer, content = await asyncio.shield(self._begin(self._ask(request, body, call)))
        if not await self._after(client, call, fault, answer, content):
            client.answer(answer, content)

    async def _ask(self, request, body, call):
        async with self._upstream:
            peer = self._idle.pop() if self._idle else _Peer(*await self._server.connect())
            try:
                peer.send_request(request, body)
                answer = await http1.read_head(peer.reader)
                if answer is None:
                    raise EOFError
                content = await http1.read_body(peer.reader, answer)
            except BaseException:
                peer.writer.transport.abort()
                raise
            self._idle.append(peer)
            call.status = answer.status
            with contextlib.suppress(ValueError):
                call.answer = json.loads(content)
            return answer, content

    async def _relay_watch(self, client, request, call):
        if await self._before(client, call, self._fault_for(call.key)):
            return
        upstream = _Peer(*await self._server.connect())
        try:
            upstream.send_request(request, b"")
            answer = await http1.read_head(upstream.reader)
            if answer is None:
                raise EOFError
            call.status = answer.status
            if answer.status == 200:
                # No client is to ask anything more here: the stream's end is the connection's.
                client.writer.write(http1.head(answer.line,
                                               [*answer.headers, ["Connection", "close"]]))
                await self._relay_events(client, upstream, call)
            else:
                client.answer(answer, await http1.read_body(upstream.reader, answer))
        finally:
            upstream.writer.transport.abort()

    def _fault_for(self, key):
        striking = [fault for fault in self.faults if fault.strikes(key)]
        return striking[0] if striking else None

    def _begin(self, coroutine):
        def ended(task):
            self._background.discard(task)
            if not task.cancelled():
                task.exception()  # told to whoever waits for it, if anybody does

        task = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(ended)
        return task

    async def _before(self, client, call, fault):
        """Whether the server is not to be asked at all."""
        match fault and fault.do:
            case "crash-before":
                await self._around.crash()
                raise EOFError
            case "drop-before":
                raise EOFError
            case "restart":
                self._begin(self.refuse(fault.seconds))
                await asyncio.sleep(fault.seconds)  # which ends at once, with all connections
            case "freeze":
                self._begin(self._around.freeze(fault.seconds))
            case "stall":
                await asyncio.sleep(fault.seconds)
                raise EOFError
            case "answer":
                client.answer_status(fault)
                return True
            case "html":
                client.send("HTTP/1.1 502 Bad Gateway", [["Content-Type", "text/html"]],
                            b"<html><body><h1>502 Bad Gateway</h1></body></html>")
                return True
            case "touch":
                await self._around.touch(call.path)
        return False

    async def _after(self, client, call, fault, answer, content):
        """Whether the client gets something else than the server's answer."""
        match fault and fault.do:
            case "crash-after":
                await self._around.crash()
                raise EOFError
            case "drop-after":
                raise EOFError
            case "late":
                await asyncio.sleep(fault.seconds)
            case "answer-after":
                client.answer_status(fault)
                return True
            case "truncate":
                whole = http1.message(answer.line, [["Content-Type", "application/json"]], content)
                client.writer.write(whole[:-max(1, len(content) // 2)])
                await client.writer.drain()
                raise EOFError
        return False

    async def _relay_events(self, client, upstream, call):
        ended_by_client = asyncio.ensure_future(client.reader.read(1))
        relayed = asyncio.ensure_future(self._relay_lines(client, upstream, call))
        try:
            await asyncio.wait([ended_by_client, relayed], return_when=asyncio.FIRST_COMPLETED)
            if not relayed.done():
                raise EOFError
            await relayed
            client.writer.write(http1.LAST_CHUNK)
            raise EOFError  # what the client may have begun to ask was read above
        finally:
            for task in (ended_by_client, relayed):
                task.cancel()
            await asyncio.gather(ended_by_client, relayed, return_exceptions=True)

    async def _relay_lines(self, client, upstream, call):
        async for line in http1.lines(upstream.reader):
            key = _event_key(call.key.resource, line)
            self.events.append(key)
            fault = self._fault_for(key)
            if await self._before_event(client, line, fault):
                return
            client.writer.write(http1.chunk(line + b"\n"))
            await client.writer.drain()
            if fault and fault.do == "crash-after":
                await self._around.crash()
                raise EOFError
            if fault and fault.do == "twice":
                client.writer.write(http1.chunk(line + b"\n"))

    async def _before_event(self, client, line, fault):
        """Whether the stream ends here, as streams do."""
        match fault and fault.do:
            case "crash-before":
                await self._around.crash()
                raise EOFError
            case "cut":
                return True
            case "tear":
                client.writer.write(http1.chunk((line + b"\n")[:len(line) // 2]))
                await client.writer.drain()
                raise EOFError
            case "silence":
                await asyncio.get_running_loop().create_future()
            case "delay":
                await asyncio.sleep(fault.seconds)
            case "gone":
                expired = {"type": "ERROR", "object": _status(410, "too old resource version")}
                client.writer.write(http1.chunk(json.dumps(expired).encode() + b"\n"))
                return True
        return False


class _Peer:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def send_request(self, request, body):
        headers = request.without("transfer-encoding", "content-length")
        self.writer.write(http1.message(request.line, headers, body))

    def answer(self, answer, content):
        self.send(answer.line, answer.without("transfer-encoding", "content-length"), content)

    def answer_status(self, fault):
        headers = [["Content-Type", "application/json"]]
        if fault.retry_after is not None:
            headers.append(["Retry-After", fault.retry_after])
        body = json.dumps(_status(fault.status, "a fault of the test")).encode()
        self.send(f"HTTP/1.1 {fault.status} {REASONS[fault.status]}", headers, body)

    def send(self, line, headers, body):
        self.writer.write(http1.message(line, headers, body))


def _status(code, text):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": text, "reason": REASONS[code], "code": code}


def _parse(request, body):
    target = urllib.parse.urlsplit(request.target)
    parts = target.path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource, name, *sub = parts + [""] * (2 - len(parts))
    try:
        content = json.loads(body) if body else {}
    except ValueError:
        content = {}
    verb = request.method
    query = urllib.parse.parse_qs(target.query)
    if verb == "GET" and query.get("watch", [""])[0].lower() in ("1", "true"):
        verb = "WATCHLIST" if "sendInitialEvents" in query else "WATCH"
    if not isinstance(content, dict):
        content = {"patch": content}  # a JSON patch is a list
    name = name or content.get("metadata", {}).get("name", "")
    return Call(Key(verb, "/".join([resource, *sub]), _stable(resource, name, content)),
                target.path, content, "dryRun" in query)


def _event_key(resource, line):
    event = json.loads(line)
    name = event["object"].get("metadata", {}).get("name", "")
    return Key(event["type"], resource, _stable(resource, name, {}))


def _stable(resource, name, content):
    """A name without what differs from run to run: UIDs, and how events are numbered."""
    if resource == "events":
        return content.get("reason", "*")
    return re.sub(r"-[0-9a-f]{8}([0-9a-f]{8})?(-s\d+)?$", r"-*\2", name)


def counted(keys):
    """(key, n) of the n-th of each."""
    seen = collections.Counter()
    for key in keys:
        seen[key] += 1
        yield key, seen[key]
