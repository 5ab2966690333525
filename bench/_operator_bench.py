"""The operator's benchmark: the program under test, what the API server shows of it, and the API
server's own limit.
"""

import base64
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import requests
from _bench import BIN

PAGE = 500
WRITES = re.compile(r'^lockstep_operator_api_calls_total\{(.*)\} (\d+)$', re.MULTILINE)


class Process:
    """A program under test, as a process of this computer."""

    def __init__(self, command, folder, stdin=subprocess.DEVNULL):
        self._log_path = Path(tempfile.mkstemp(dir=folder, suffix=".log")[1])
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(command, stdin=stdin, stdout=log, stderr=log)

    def say(self, line):
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def cpu(self):
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """MiB that are resident: all, and what is not mapped from a file."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return {name: int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024
                for name, field in (("memory_mib", "VmRSS"), ("anonymous_mib", "RssAnon"))}

    def runs(self):
        return self._process.poll() is None

    def log(self):
        return self._log_path.read_text()

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait(60)


class Operator(Process):
    def __init__(self, cluster, namespace, folder, *options):
        super().__init__([BIN / "lockstep-operator", "--kubeconfig", cluster.kubeconfig,
                          "--system-namespace", namespace, "--agent-image", "agent:bench",
                          "--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0", *options], folder)

    def ask(self, path):
        """None while nobody listens."""
        what = "metrics" if path == "/metrics" else "health"
        port = re.search(what + r" on port (\d+)", self.log())
        return port and requests.get(f"http://127.0.0.1:{port[1]}{path}", timeout=60)

    def writes(self):
        """Requests so far that change something, but for those of the Lease, by their labels."""
        return Counter({" ".join(re.findall(r'"(.*?)"', labels)): int(count)
                        for labels, count in WRITES.findall(self.ask("/metrics").text)
                        if 'verb="GET"' not in labels})


class Server:
    """How to reach the API server without Python's client, which spends milliseconds a request."""

    def __init__(self, cluster, folder):
        config = json.loads(cluster.kubeconfig.read_text())
        server = config["clusters"][0]["cluster"]
        self.url = server["server"]
        self.token = config["users"][0]["user"]["token"]
        self._authority = folder / "authority.pem"
        self._authority.write_bytes(base64.b64decode(server["certificate-authority-data"]))

    def session(self):
        session = requests.Session()
        session.trust_env = False  # or its CA bundle would be asked instead
        session.verify = str(self._authority)
        session.headers["Authorization"] = f"Bearer {self.token}"
        return session

    def post_all(self, path, objects):
        """POSTs them 16 at a time; when the first request was sent."""
        sessions = threading.local()

        def post(each):
            if not hasattr(sessions, "one"):
                sessions.one = self.session()
            sessions.one.post(self.url + path, json=each).raise_for_status()
        began = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(post, objects))
        return began

    def read_all(self, path):
        """Lists a collection, as many at a time as the operator does; its size in bytes."""
        session, size, rest = self.session(), 0, ""
        while True:
            answer = session.get(self.url + path, params={"limit": PAGE, "continue": rest})
            answer.raise_for_status()
            size += len(answer.content)
            found = re.search(rb'"continue":"([^"]*)"', answer.content[:1000])
            if not found or not found[1]:
                return size
            rest = found[1].decode()

    def follow(self, path, see):
        """Calls `see(type, object)` for each event of a collection, in a thread. The server ends
        the watch of a reader that is slow, or is itself ended: it goes on where it was."""
        session, version = self.session(), ""

        def watch():
            nonlocal version
            with session.get(self.url + path, stream=True, params={
                    "watch": "1", "resourceVersion": version}) as answer:
                answer.raise_for_status()
                for line in answer.iter_lines(chunk_size=None):
                    event = json.loads(line)
                    version = event["object"]["metadata"]["resourceVersion"]
                    see(event["type"], event["object"])

        def run():
            while True:
                try:
                    watch()
                except OSError:  # as all of requests are
                    time.sleep(0.1)
        threading.Thread(target=run, daemon=True).start()

    def raw_rate(self, path, body, seconds, enough=lambda: False):
        """Objects a second that parallel POSTs make at best, by wrk, for so long or until there are
        enough. %d in the body is another number each time."""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(f"""wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {self.token}"
local body, threads = [=[{json.dumps(body)}]=], 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end
function request()
  number = number + 2
  return wrk.format(nil, nil, nil, (body:gsub("%%d", number)))
end
""")
            script.flush()
            wrk = subprocess.Popen(
                ["wrk", "-t2", "-c32", f"-d{seconds}s", "-s", script.name, self.url + path],
                stdout=subprocess.PIPE, text=True)
            while wrk.poll() is None and not enough():
                time.sleep(0.01)
            if wrk.poll() is None:
                wrk.send_signal(signal.SIGINT)
            answer = wrk.communicate()[0]
        return next(float(line.split()[1]) for line in answer.splitlines()
                    if line.startswith("Requests/sec"))


def answered(cluster, namespace, *resources):
    """Of the audit log: writes of these resources that the API server carried out."""
    whole, _, _ = (cluster.folder / "audit.log").read_text().rpartition("\n")
    for line in whole.splitlines():
        entry = json.loads(line)
        what = entry.get("objectRef", {})
        if (entry["verb"] in ("create", "update", "patch") and what.get("namespace") == namespace
                and what["resource"] in resources and "subresource" not in what
                and entry["responseStatus"]["code"] < 300):
            yield entry


def creation(cluster, namespace, resource, machines):
    """Seconds from the newest request that made such an object to the answer of the last pod's,
    as the API server's audit log has them: a watch tells late when all cores are busy."""
    job, pods = None, []
    for entry in answered(cluster, namespace, resource, "pods"):
        if entry["verb"] != "create":
            continue
        if entry["objectRef"]["resource"] == resource:
            job, pods = datetime.fromisoformat(entry["requestReceivedTimestamp"]), []
        else:
            pods.append(datetime.fromisoformat(entry["stageTimestamp"]))
    assert len(pods) == machines, f"{len(pods)} pods of {machines} in the audit log"
    return (max(pods) - job).total_seconds()


def wait_for(holds, what, patience=600.0):
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:g} s for {what}")
        time.sleep(0.005)
