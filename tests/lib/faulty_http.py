"""An HTTP proxy in front of a server that fails on request: answers of its own, cut connections, lost
answers, requests that stand still.

    with FaultyHttp(server_address) as proxy:
        proxy.fault = lambda method, path, headers: Answer(503) if method == "PUT" else None
"""

import dataclasses
import http.client
import http.server
import socket
import socketserver
import threading


@dataclasses.dataclass
class Answer:
    """In place of the server's."""
    status: int
    code: str = ""  # of an error, as S3 has them
    body: bytes = b""


@dataclasses.dataclass
class CutAnswer:
    """The server's answer ends after so many bytes of its body. 0: the answer is lost."""
    after: int = 0


@dataclasses.dataclass
class StallAnswer:
    """The server's answer stands still after so many bytes of its body, until the event."""
    after: int
    until: threading.Event


@dataclasses.dataclass
class CutRequest:
    """The connection ends after so many bytes of the request's body; the server hears nothing."""
    after: int = 0


@dataclasses.dataclass
class Hold:
    """Nothing moves until the event."""
    until: threading.Event


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # connections that are cut on purpose


class FaultyHttp:
    """`fault` gets method, path and headers of each request, and returns what goes wrong; None: nothing.
    `requests` are those so far."""

    def __init__(self, target):
        self.fault = lambda method, path, headers: None
        self.requests = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def _pass_on(self):
                proxy.requests.append((self.command, self.path))
                fault = proxy.fault(self.command, self.path, self.headers)
                length = int(self.headers.get("Content-Length") or 0)
                if isinstance(fault, CutRequest):
                    self.rfile.read(min(length, fault.after))
                    return self._end()
                body = self.rfile.read(length)
                if isinstance(fault, Hold):
                    fault.until.wait(60)
                    return self._end()
                if isinstance(fault, Answer):
                    return self._answer(fault)
                line = http.client.HTTPConnection(*target, timeout=60)
                line.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    line.putheader(name, value)
                line.endheaders(body)
                answer = line.getresponse()
                text = answer.read()
                line.close()
                if isinstance(fault, CutAnswer) and fault.after == 0:
                    return self._end()
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                size = int(answer.getheader("Content-Length") or 0) if self.command == "HEAD" else len(text)
                self.send_header("Content-Length", str(size))
                self.end_headers()
                if isinstance(fault, StallAnswer):
                    self.wfile.write(text[:fault.after])
                    fault.until.wait(60)
                    return self._end()
                if isinstance(fault, CutAnswer):
                    self.wfile.write(text[:fault.after])
                    return self._end()
                self.wfile.write(text)

            def _answer(self, fault):
                body = fault.body
                if fault.code:
                    body = (f"<?xml version='1.0'?><Error><Code>{fault.code}</Code>"
                            f"<Message>on request</Message></Error>").encode()
                self.send_response_only(fault.status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", '"0"')
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def _end(self):
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.endpoint = "http://127.0.0.1:%d" % self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def times(count, fault, method, part_of_path):
    """The fault for the first `count` requests of this method whose path has this part."""
    left = [count]
    lock = threading.Lock()

    def choose(method_, path, _headers):
        with lock:
            if method_ != method or part_of_path not in path or left[0] == 0:
                return None
            left[0] -= 1
            return fault

    return choose
