"""A small asyncio client of a Kubernetes API server, for tests that follow many objects at once.

    server = ApiServer.from_kubeconfig(path)
    api = ApiClient(server)
    pod = await api.call("POST", "/api/v1/namespaces/x/pods", {...})
    async for kind, found in api.follow("/api/v1/namespaces/x/pods"):
        ...
"""

import asyncio
import base64
import contextlib
import dataclasses
import json
import pathlib
import ssl
import urllib.parse

import http1
import yaml

MERGE_PATCH = "application/merge-patch+json"
UNANSWERED = (OSError, EOFError, ssl.SSLError)
RETRY = 0.2  # seconds before a watch is begun again


class ApiError(Exception):
    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclasses.dataclass
class ApiServer:
    """Where one is, and how to be let in."""

    host: str
    port: int
    trust: ssl.SSLContext
    token: str

    @classmethod
    def from_kubeconfig(cls, path):
        config = yaml.safe_load(pathlib.Path(path).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urllib.parse.urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(address.hostname, address.port, ssl.create_default_context(cadata=authority),
                   user["token"])

    async def connect(self):
        return await asyncio.open_connection(self.host, self.port, ssl=self.trust,
                                             limit=http1.LIMIT)


class ApiClient:
    def __init__(self, server):
        self._server = server
        self._idle = []

    async def call(self, method, path, body=None, content_type="application/json"):
        """The answer's object; ApiError for any that is not of success."""
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._ask(connection, method, path, body, content_type)
            except UNANSWERED:
                connection[1].close()  # the server had given it up
        return await self._ask(await self._server.connect(), method, path, body, content_type)

    async def find(self, path):
        """None where there is nothing of that name."""
        try:
            return await self.call("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def delete(self, path, **options):
        """True if it was there."""
        try:
            await self.call("DELETE", path, options or None)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    async def patch(self, path, change):
        return await self.call("PATCH", path, change, MERGE_PATCH)

    async def follow(self, path):
        """("LIST", what is there), then (type, object) of what changes; and so again whenever the
        server ends the watch. Until it is closed."""
        while True:
            with contextlib.suppress(ApiError, *UNANSWERED):
                there = await self.call("GET", path)
                yield "LIST", there["items"]
                async for event in self._watch(path, there["metadata"]["resourceVersion"]):
                    yield event
            await asyncio.sleep(RETRY)

    def close(self):
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _watch(self, path, version):
        reader, writer = await self._server.connect()
        try:
            writer.write(self._request("GET", f"{path}?watch=1&resourceVersion={version}"))
            answer = await http1.read_head(reader)
            if answer is None or answer.status != 200:
                return
            async for line in http1.lines(reader):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
        finally:
            writer.close()

    async def _ask(self, connection, method, path, body, content_type):
        reader, writer = connection
        writer.write(self._request(method, path, body, content_type))
        answer = await http1.read_head(reader)
        if answer is None:
            raise EOFError("the connection ended before the answer")
        content = await http1.read_body(reader, answer)
        self._idle.append(connection)
        value = json.loads(content) if content.startswith(b"{") else {"message": content.decode()}
        if answer.status >= 300:
            raise ApiError(answer.status, value.get("message"))
        return value

    def _request(self, method, path, body=None, content_type="application/json"):
        content = b"" if body is None else json.dumps(body).encode()
        headers = [["Host", self._server.host], ["Authorization", f"Bearer {self._server.token}"],
                   ["Content-Type", content_type]]
        return http1.message(f"{method} {path} HTTP/1.1", headers, content)
