"""`kubectl lockstep ui --serve` as a process, and the people who ask it.

    with PageService(cluster.kubeconfig) as service:
        token = make_viewer(cluster, namespace, JOBS)
        service.view(token)
"""

import http.client
import json
import re
import urllib.parse

import yaml
from page_process import PATIENCE, PageProcess
from waiting import wait_until

SERVED = re.compile(r"is served on port (\d+)")
PROBED = re.compile(r"probes are answered on port (\d+)")
JOBS = ("lockstep.dev", "trainingjobs", "get list watch")
PODS, LOGS = ("", "pods", "list watch"), ("", "pods/log", "get")
EVENTS = ("events.k8s.io", "events", "list")


def make_viewer(cluster, namespace, *allowed, name="viewer"):
    """The token of a service account with these rights alone, in its namespace."""
    names = {"name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": verbs.split()}
             for group, resource, verbs in allowed]
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": names},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": names,
         "rules": rules},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": names,
         "roleRef": role, "subjects": [{"kind": "ServiceAccount", **names}]}]
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    return cluster.kubectl("create", "token", name, "-n", namespace).strip()


class PageClient:
    """Asks a server of this name on a port of this computer."""

    def __init__(self, port, host):
        self.port, self.host = port, host

    def get(self, path, token=None, host=None, **query):
        """(code, what it says)."""
        if query:
            path += ("&" if "?" in path else "?") + urllib.parse.urlencode(query)
        headers = {"Host": host or self.host}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if path.startswith("/api") else body
        finally:
            connection.close()

    def view(self, token, **query):
        code, said = self.get("/api/view", token, **query)
        assert code == 200, said
        return said

    def wait(self, token, condition, what, **query):
        """The first view of which condition(view) holds."""
        last = {}

        def holds():
            last.update(self.view(token, **query))
            return dict(last) if condition(last) else None

        return wait_until(holds, lambda: f"{what}: {last}", PATIENCE, 0.05)


class PageService(PageProcess, PageClient):
    """`kept`: a folder of kept pages."""

    def __init__(self, kubeconfig, host="page.test", kept=None):
        PageProcess.__init__(self, kubeconfig, "--serve", "0", "--health", "127.0.0.1:0", "--host", host,
                             *(["--kept", kept] if kept else []))
        PageClient.__init__(self, int(self.wait_said(SERVED)[1]), host)
        self.health = int(self.wait_said(PROBED)[1])
