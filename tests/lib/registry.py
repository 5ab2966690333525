"""A container registry that keeps all in memory: as much of the OCI distribution
specification as Helm, buildah and containerd use to push and to pull."""

import contextlib
import hashlib
import http.server
import re
import threading
import urllib.parse

LIMIT = 256 << 20  # bytes of one request
TIMEOUT = 60


class Registry(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address):
        super().__init__((address, 0), _Handler)
        self.blobs = {}  # digest: bytes
        self.manifests = {}  # (name, tag or digest): (media type, bytes)

    @property
    def host(self):
        """As this computer calls it."""
        return f"127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def registry(address="127.0.0.1"):
    """`address`: where it listens, "" for every address of this computer."""
    server = Registry(address)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT

    def log_message(self, *_):
        pass

    def _body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(100).partition(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline(3)
                if sum(map(len, parts)) > LIMIT:
                    raise ValueError("too large")
            self.rfile.readline(3)
            return b"".join(parts)
        return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), LIMIT))

    def _answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/v2/":
            return self._answer(200)
        if found := re.fullmatch(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})", path):
            if (blob := self.server.blobs.get(found[2])) is not None:
                return self._answer(200, blob, Docker_Content_Digest=found[2])
        if found := re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", path):
            if entry := self.server.manifests.get(found.groups()):
                return self._answer(200, entry[1], Content_Type=entry[0],
                                    Docker_Content_Digest=_digest(entry[1]))
        return self._answer(404, b'{"errors": [{"code": "NOT_FOUND"}]}')

    do_HEAD = do_GET

    def do_POST(self):
        body = self._body()
        split = urllib.parse.urlsplit(self.path)
        if digest := urllib.parse.parse_qs(split.query).get("digest"):
            return self._keep(digest[0], body)
        place = f"{split.path}{len(self.server.blobs)}-{threading.get_ident()}"
        self.server.blobs[place] = b""
        return self._answer(202, Location=place, Range="0-0")

    def do_PATCH(self):
        place = urllib.parse.urlsplit(self.path).path
        self.server.blobs[place] += self._body()
        return self._answer(202, Location=place, Range=f"0-{len(self.server.blobs[place]) - 1}")

    def do_PUT(self):
        body, split = self._body(), urllib.parse.urlsplit(self.path)
        if found := re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", split.path):
            digest, kind = _digest(body), self.headers["Content-Type"]
            for reference in (found[2], digest):
                self.server.manifests[found[1], reference] = (kind, body)
            return self._answer(201, Location=split.path, Docker_Content_Digest=digest)
        wanted = urllib.parse.parse_qs(split.query)["digest"][0]
        return self._keep(wanted, self.server.blobs.pop(split.path) + body)

    def _keep(self, wanted, content):
        if _digest(content) != wanted:
            return self._answer(400, b'{"errors": [{"code": "DIGEST_INVALID"}]}')
        self.server.blobs[wanted] = content
        return self._answer(201, Location=f"/blobs/{wanted}", Docker_Content_Digest=wanted)


def _digest(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
