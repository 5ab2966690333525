"""Kueue's visibility API as an API server's aggregation layer finds it: the places of waiting Workloads
that a test sets. The API server judges who may ask.

    with VisibilityApi.on(cluster, folder) as api:
        api.places[("team-a", "lq")] = [("gpt-1", 0, 3)]    # Workload, and its places from 0 on
"""

import contextlib
import http.server
import json
import re
import ssl
import threading

from certificate import self_signed
from waiting import wait_until

GROUP, VERSION = "visibility.kueue.x-k8s.io", "v1beta2"
PATH = re.compile(
    rf"/apis/{GROUP}/{VERSION}/namespaces/([^/]+)/localqueues/([^/]+)/pendingworkloads(\?.*)?")
PATIENCE = 60


class VisibilityApi:
    def __init__(self, folder):
        self.places = {}  # by (namespace, LocalQueue)
        certificate, key = folder / "visibility.crt", folder / "visibility.key"
        self_signed(certificate, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(handler):
                code, body = self._answer(handler.path)
                text = json.dumps(body).encode()
                handler.send_response(code)
                handler.send_header("Content-Type", "application/json")
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text)

            def log_message(handler, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @classmethod
    @contextlib.contextmanager
    def on(cls, cluster, folder):
        api = cls(folder)
        api._thread.start()
        service = {"apiVersion": "v1", "kind": "Service",
                   "metadata": {"name": "kueue-visibility-server", "namespace": "default"},
                   "spec": {"type": "ExternalName", "externalName": "localhost",
                            "ports": [{"port": api.port}]}}
        registered = {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": f"{VERSION}.{GROUP}"},
            "spec": {"group": GROUP, "version": VERSION, "insecureSkipTLSVerify": True,
                     "groupPriorityMinimum": 100, "versionPriority": 100,
                     "service": {"name": "kueue-visibility-server", "namespace": "default",
                                 "port": api.port}}}
        try:
            for document in (service, registered):
                cluster.kubectl("apply", "-f", "-", input=json.dumps(document))
            wait_until(lambda: "True" in cluster.kubectl(
                "get", "apiservice", f"{VERSION}.{GROUP}", "-o",
                "jsonpath={.status.conditions[?(@.type=='Available')].status}"),
                lambda: cluster.kubectl("get", "apiservice", f"{VERSION}.{GROUP}", "-o", "yaml"),
                PATIENCE, 0.1)
            yield api
        finally:
            cluster.kubectl("delete", "apiservice", f"{VERSION}.{GROUP}", "--ignore-not-found")
            cluster.kubectl("delete", "service", "kueue-visibility-server", "-n", "default",
                            "--ignore-not-found")
            api._server.shutdown()
            api._thread.join()
            api._server.server_close()

    def _answer(self, path):
        if found := PATH.fullmatch(path):
            namespace, queue = found[1], found[2]
            if (namespace, queue) not in self.places:
                return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                             "reason": "NotFound", "message": f'localqueue "{queue}" not found'}
            return 200, {"kind": "PendingWorkloadsSummary", "apiVersion": f"{GROUP}/{VERSION}",
                         "items": [{"metadata": {"name": name, "namespace": namespace},
                                    "localQueueName": queue, "priority": 0,
                                    "positionInLocalQueue": local, "positionInClusterQueue": all_}
                                   for name, local, all_ in self.places[namespace, queue]]}
        return 200, {"kind": "APIResourceList", "apiVersion": "v1",
                     "groupVersion": f"{GROUP}/{VERSION}", "resources": []}
