"""A node that has no containers, only their logs: the part of a kubelet that `logs` speaks to.

    with KubeletLogs.on(cluster, folder) as kubelet:
        kubelet.run(namespace, "gpt-0", labels)
        kubelet.write("gpt-0", "a line")
        kubelet.end("gpt-0", exit_code=1)
"""

import contextlib
import datetime
import http.server
import secrets
import ssl
import subprocess
import threading
import urllib.parse

from kubernetes.client import CoreV1Api


def stamp():
    return datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


class KubeletLogs:
    def __init__(self, cluster, folder):
        self._api = CoreV1Api(cluster.client())
        self._changed = threading.Condition()
        self._lines = {}  # pod -> [(time, text)]
        self._ended = set()
        self._cuts = 0
        self.node = f"logs-{secrets.token_hex(4)}"
        self.requests = []  # (pod, parameters)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = self._tls(folder).wrap_socket(self._server.socket, server_side=True)

    @classmethod
    @contextlib.contextmanager
    def on(cls, cluster, folder):
        kubelet = cls(cluster, folder)
        serving = threading.Thread(target=kubelet._server.serve_forever)
        serving.start()
        kubelet._api.create_node({
            "metadata": {"name": kubelet.node},
            "spec": {"taints": [{"key": "only-logs", "effect": "NoSchedule"}]},
            "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                       "daemonEndpoints": {
                           "kubeletEndpoint": {"Port": kubelet._server.server_port}}}})
        try:
            yield kubelet
        finally:
            kubelet._api.delete_node(kubelet.node)
            kubelet.cut()
            kubelet._server.shutdown()
            serving.join()
            kubelet._server.server_close()

    def create(self, namespace, pod, labels):
        """A pod whose container has not begun."""
        self._api.create_namespaced_pod(namespace, {
            "metadata": {"name": pod, "labels": labels},
            "spec": {"nodeName": self.node, "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "worker", "image": "none"}]}})

    def run(self, namespace, pod, labels):
        """A pod whose container runs, as far as the API server knows."""
        self._lines[pod] = []
        self.create(namespace, pod, labels)
        self.begin(namespace, pod)

    def begin(self, namespace, pod):
        self._lines.setdefault(pod, [])
        self._set_state(namespace, pod, "Running", {"running": {"startedAt": stamp()}})

    def write(self, pod, *lines):
        with self._changed:
            self._lines[pod] += [(stamp(), line) for line in lines]
            self._changed.notify_all()

    def end(self, namespace, pod, exit_code):
        self._set_state(namespace, pod, "Succeeded" if exit_code == 0 else "Failed",
                        {"terminated": {"exitCode": exit_code, "finishedAt": stamp()}})
        with self._changed:
            self._ended.add(pod)
            self._changed.notify_all()

    def cut(self):
        """Breaks every stream that is open."""
        with self._changed:
            self._cuts += 1
            self._changed.notify_all()

    def _set_state(self, namespace, pod, phase, state):
        container = {"name": "worker", "image": "none", "imageID": "", "restartCount": 0,
                     "ready": False, "state": state}
        self._api.patch_namespaced_pod_status(
            pod, namespace, {"status": {"phase": phase, "containerStatuses": [container]}})

    def _send(self, out, pod, parameters):
        since = parameters.get("sinceTime", "")
        sent, cuts = 0, self._cuts
        while True:
            with self._changed:
                follow = parameters.get("follow") == "true"
                self._changed.wait_for(lambda: len(self._lines[pod]) > sent or not follow
                                       or pod in self._ended or cuts != self._cuts)
                new = self._lines[pod][sent:]
                over = not follow or pod in self._ended or cuts != self._cuts
            for time, line in new:
                if time[:19] >= since[:19]:  # to the second, as a kubelet's
                    out.write(f"{time} {line}\n".encode())
            out.flush()
            sent += len(new)
            if over:
                return

    def _handler(outer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                pod = url.path.split("/")[3]
                parameters = dict(urllib.parse.parse_qsl(url.query))
                outer.requests.append((pod, parameters))
                if pod not in outer._lines:
                    self.send_response(400)
                    self.end_headers()
                    self.wfile.write(b'container "worker" is waiting to start: ContainerCreating')
                    return
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    outer._send(self.wfile, pod, parameters)

            def log_message(self, *_):
                pass

        return Handler

    @staticmethod
    def _tls(folder):
        key, certificate = folder / "kubelet.key", folder / "kubelet.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=127.0.0.1",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context
