"""A Kubernetes control plane of real programs on loopback, in one folder.

Every process carries the folder's name in its environment: by that take_down finds exactly its own,
whatever became of the process that started them. The folder holds

    kubeconfig    cluster-admin by bearer token
    bin/          kubectl, helm
    log/          one file a program
    audit.log     if asked for: every request, who sent it and the answer's code, one JSON a line
    cluster.json  what runs, so that a program can be started again
"""

import base64
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import time

import fake_nodes
import parts
import ports
import processes
import requests
from waiting import wait_until

MARK = "LOCKSTEP_TEST_CLUSTER"
PATIENCE = 300.0  # seconds for any one step: far beyond what a loaded machine takes
# So that tests measure what they test, and not how politely a controller asks.
CLIENT_RATE = ["--kube-api-qps=500", "--kube-api-burst=1000"]
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
         "rules": [{"level": "Metadata"}]}


class ClusterError(Exception):
    pass


def bring_up(folder, fake_node_count, say, audit=False):
    folder = pathlib.Path(folder).resolve()
    _make_room(folder)
    programs = parts.build("control-plane", say)
    started = time.monotonic()
    try:
        _ControlPlane(folder).bring_up(programs, fake_node_count, audit)
    except BaseException:
        stop_processes(folder)
        raise
    say(f"up in {time.monotonic() - started:.1f} s; KUBECONFIG={folder}/kubeconfig")


def take_down(folder):
    """Afterwards nothing is left of it: no process, no file."""
    folder = pathlib.Path(folder).resolve()
    stop_processes(folder)
    if (folder / "cluster.json").exists():
        shutil.rmtree(folder)


def restart(folder, program):
    """Kills one program and starts it again as it was; the API server answers on return."""
    folder = pathlib.Path(folder).resolve()
    stop_processes(folder, program)
    _ControlPlane(folder).start_again(program)


def stop_processes(folder, program=None):
    """Ends one program, or all of them."""
    def gone():
        left = [pid for pid in processes.with_variable(MARK, str(folder))
                if program is None or _program(pid) == program]
        for pid in left:
            # Asked politely, a kube-apiserver would hold its port for several seconds more.
            os.kill(pid, signal.SIGKILL)
        return not left

    wait_until(gone, f"the processes of {folder} to end", PATIENCE, interval=0.02)


def _program(pid):
    return pathlib.Path(processes.command(pid).partition(" ")[0]).name


def _make_room(folder):
    if processes.with_variable(MARK, str(folder)):
        raise ClusterError(f"a cluster is up in {folder}; take it down first")
    if (folder / "cluster.json").exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise ClusterError(f"{folder} holds what is no cluster's; name another folder")


class _ControlPlane:
    """Programs run with the folder as their working directory: a socket's name is 107 characters
    long at most, so etcd's are relative."""

    def __init__(self, folder):
        self._folder = folder
        self._running = {}
        self._state = {"programs": "", "url": "", "token": secrets.token_hex(16), "commands": {}}

    def bring_up(self, programs, fake_node_count, audit):
        for each in ("bin", "log"):
            (self._folder / each).mkdir(parents=True)
        self._state["programs"] = str(programs)
        self._save_state()  # from here on the folder is ours to remove
        self._write_credentials()
        self._start_etcd()
        self._start_api_server(audit)
        self._write_kubeconfig()
        self._start_controllers()
        if fake_node_count:
            self._start_fake_nodes(fake_node_count)
        for name in ("kubectl", "helm"):
            (self._folder / "bin" / name).symlink_to(programs / name)

    def start_again(self, program):
        self._state = json.loads((self._folder / "cluster.json").read_text())
        self._run(program, *self._state["commands"][program])
        self._wait(program, self._ready)

    def _write_credentials(self):
        self._write_private("tokens", f"{self._state['token']},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", self._folder / "service-account.key", "2048"],
                       check=True, capture_output=True)

    def _start_etcd(self):
        self._run("etcd", "--data-dir=etcd", "--unsafe-no-fsync", "--name=test",
                  "--initial-cluster=test=http://localhost:2380",
                  "--listen-client-urls=unix://etcd.sock", "--listen-peer-urls=unix://peer.sock",
                  "--advertise-client-urls=http://localhost:2379")
        self._wait("etcd", (self._folder / "etcd.sock").exists)

    def _start_api_server(self, audit):
        extra = []
        if audit:
            self._write_private("audit-policy", json.dumps(AUDIT))
            # Some clusters have this plugin, and it asks more of a role than others do.
            extra = ["--audit-policy-file=audit-policy", "--audit-log-path=audit.log",
                     "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
        # The port is held until kube-apiserver, which may share it, listens on it.
        with ports.reserved_port() as port:
            self._state["url"] = f"https://127.0.0.1:{port}"
            self._run("kube-apiserver", "--etcd-servers=unix://etcd.sock", "--cert-dir=certs",
                      "--bind-address=127.0.0.1", f"--secure-port={port}", "--permit-port-sharing",
                      "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
                      "--service-account-issuer=https://kubernetes.default.svc",
                      "--service-account-key-file=service-account.key",
                      "--service-account-signing-key-file=service-account.key",
                      "--service-cluster-ip-range=10.96.0.0/16", "--token-auth-file=tokens",
                      "--authorization-mode=RBAC", *extra)
            self._wait("kube-apiserver", self._ready)

    def _write_kubeconfig(self):
        authority = base64.b64encode((self._folder / "certs/apiserver.crt").read_bytes()).decode()
        cluster = {"server": self._state["url"], "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._state["token"]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
        self._write_private("kubeconfig", json.dumps(config, indent=2) + "\n")  # JSON is YAML

    def _start_controllers(self):
        self._run("kube-controller-manager", "--kubeconfig=kubeconfig", "--leader-elect=false",
                  "--service-account-private-key-file=service-account.key", "--secure-port=0",
                  "--root-ca-file=certs/apiserver.crt", *CLIENT_RATE)
        self._run("kube-scheduler", "--kubeconfig=kubeconfig", "--leader-elect=false",
                  "--secure-port=0", *CLIENT_RATE)
        self._wait("kube-controller-manager", lambda: self._get(
            "/api/v1/namespaces/default/serviceaccounts/default").ok)

    def _start_fake_nodes(self, count):
        self._run("kwok", "--kubeconfig=kubeconfig",
                  f"--config={self._state['programs']}/stages.yaml",
                  "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                  # Nobody listens there, and every connection is refused at once.
                  "--cidr=127.64.0.1/16",
                  "--node-lease-duration-seconds=40")
        for node in fake_nodes.manifests(count):
            self._request("POST", "/api/v1/nodes", json=node).raise_for_status()
        self._wait("kwok", lambda: fake_nodes.usable(self._get("/api/v1/nodes").json()) >= count)

    def _run(self, program, *arguments):
        self._state["commands"][program] = arguments
        self._save_state()
        with (self._folder / "log" / f"{program}.log").open("a") as log:
            self._running[program] = subprocess.Popen(
                [f"{self._state['programs']}/{program}", *arguments], cwd=self._folder,
                env={**os.environ, MARK: str(self._folder)}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait(self, program, condition):
        """Until condition() holds, with every program started so far still there."""
        def holds():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise ClusterError(f"{name} ended by itself; {self._log_end(name)}")
            return condition()

        try:
            wait_until(holds, program, PATIENCE, interval=0.05)
        except AssertionError as error:
            raise ClusterError(f"{program} was not ready in {PATIENCE:g} s; "
                               f"{self._log_end(program)}") from error

    def _log_end(self, program):
        log = self._folder / "log" / f"{program}.log"
        return f"the end of {log}:\n{log.read_text(errors='replace')[-3000:]}"

    def _ready(self):
        try:
            return self._get("/readyz").ok
        except (requests.ConnectionError, requests.Timeout, OSError):
            return False  # no certificate yet, or no listener

    def _get(self, path):
        return self._request("GET", path)

    def _request(self, method, path, **options):
        headers = {"Authorization": f"Bearer {self._state['token']}"}
        return requests.request(method, self._state["url"] + path, headers=headers, timeout=30,
                                verify=str(self._folder / "certs/apiserver.crt"), **options)

    def _save_state(self):
        self._write_private("cluster.json", json.dumps(self._state, indent=2))

    def _write_private(self, name, text):
        file = self._folder / name
        file.touch(mode=0o600)
        file.write_text(text)
