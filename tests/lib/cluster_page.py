"""`kubectl lockstep ui` as a process, and what a browser asks its server.

    with ClusterPage(kubeconfig, "gpt", "-n", namespace) as page:
        page.wait(lambda view: view["status"]["state"] == "Running", "a running job")
"""

import http.client
import json
import re
import urllib.parse

from page_process import PATIENCE, PageProcess
from waiting import wait_until

ADDRESS = re.compile(r"the page: (http://127\.0\.0\.1:(\d+)/)#([\w-]{32})")


class ClusterPage(PageProcess):
    """`folder`: of a kubectl that stands first in PATH."""

    def __init__(self, kubeconfig, *arguments, folder=None):
        super().__init__(kubeconfig, *arguments, path=folder)
        found = self.wait_said(ADDRESS)
        self.url, self.port, self.token = found[1], int(found[2]), found[3]
        self.address = f"{self.url}#{self.token}"

    def get(self, path, job=""):
        """(code, what it says) of a request with the token."""
        if job:
            path += ("&" if "?" in path else "?") + urllib.parse.urlencode({"job": job})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def ask(self, path, job=""):
        code, said = self.get(path, job)
        assert code == 200, said
        return said

    def view(self, job=""):
        return self.ask("/api/view", job)

    def wait(self, condition, what, job=""):
        """The first view of which condition(view) holds."""
        last = {}

        def holds():
            last.clear()
            last.update(self.view(job))
            return dict(last) if condition(last) else None

        return wait_until(holds, lambda: f"{what}; last: {json.dumps(last, indent=1)}\n{self.said}",
                          PATIENCE, 0.1)


def events(view):
    return [event["text"] for event in view["events"]["items"]]


def generations(view):
    return view["generations"]["items"]
