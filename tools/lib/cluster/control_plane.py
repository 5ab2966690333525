"""A Kubernetes control plane of real programs: etcd, the API server, the controllers, names."""

import base64
import json
import secrets
import subprocess

import fake_nodes
import ports
import requests

# So that tests measure what they test, and not how politely a controller asks.
CLIENT_RATE = ["--kube-api-qps=500", "--kube-api-burst=1000"]
SERVICES = "10.96.0.0/16"
DNS_SERVICE = "10.96.0.10"
DNS_PORT = 1053
# Kubernetes' own gang scheduling, alpha in 1.36: how far it is enabled, each with those before it;
# the controllers have it where the API server has.
GANGS = ["served", "api-server", "scheduler"]
GANGS_API = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
GANGS_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
# Addresses of pretended pods. Nobody listens there: a connection to a multicast group fails at once.
# They can stand in EndpointSlices, as loopback addresses cannot.
NOWHERE = "239.64.0.1/16"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
         "rules": [{"level": "Metadata"}]}


def _gates(gangs, where):
    return [GANGS_GATES] if gangs in where else []


class ControlPlane:
    def __init__(self, programs):
        self._programs = programs
        self._folder = programs.folder
        self._state = programs.state

    def start_etcd(self, bin):
        self._programs.start(
            bin / "etcd", "--data-dir=etcd", "--unsafe-no-fsync", "--name=test",
            "--initial-cluster=test=http://localhost:2380",
            "--listen-client-urls=unix://etcd.sock", "--listen-peer-urls=unix://peer.sock",
            "--advertise-client-urls=http://localhost:2379")
        self._programs.wait("etcd", (self._folder / "etcd.sock").exists)

    def start_api_server(self, bin, address, audit, gangs):
        """On loopback it is this computer's alone; on another address pods know it by name too."""
        self._write_credentials()
        extra = ["--endpoint-reconciler-type=none"] if address == "127.0.0.1" else []
        extra += [*([GANGS_API] if gangs else []), *_gates(gangs, GANGS[1:])]
        if audit:
            self._programs.write_private("audit-policy", json.dumps(AUDIT))
            # Every admission plugin with a say in what a role must hold.
            extra += ["--audit-policy-file=audit-policy", "--audit-log-path=audit.log",
                      "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]
        # The port is held until kube-apiserver, which may share it, listens on it.
        with ports.reserved_port() as port:
            self._state["url"] = f"https://{address}:{port}"
            self._programs.start(
                bin / "kube-apiserver", "--etcd-servers=unix://etcd.sock", "--cert-dir=certs",
                f"--bind-address={address}", f"--secure-port={port}", "--permit-port-sharing",
                f"--advertise-address={address}",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-account-key-file=service-account.key",
                "--service-account-signing-key-file=service-account.key",
                f"--service-cluster-ip-range={SERVICES}", "--token-auth-file=tokens",
                "--authorization-mode=RBAC", "--allow-privileged",
                "--kubelet-preferred-address-types=InternalIP", *extra)
            self.wait_until_served()
        self._write_kubeconfig()

    def wait_until_served(self):
        self._programs.wait("kube-apiserver", self._ready)

    def start_controllers(self, bin, gangs):
        self._programs.start(
            bin / "kube-controller-manager", "--kubeconfig=kubeconfig", "--leader-elect=false",
            "--service-account-private-key-file=service-account.key", "--secure-port=0",
            "--root-ca-file=certs/apiserver.crt", *CLIENT_RATE, *_gates(gangs, GANGS[1:]))
        self._programs.start(
            bin / "kube-scheduler", "--kubeconfig=kubeconfig", "--leader-elect=false",
            "--secure-port=0", *CLIENT_RATE, *_gates(gangs, GANGS[2:]))

    def wait_for_controllers(self):
        self._programs.wait("kube-controller-manager", lambda: self.get(
            "/api/v1/namespaces/default/serviceaccounts/default").ok)

    def start_fake_nodes(self, bin, count, pods):
        self._programs.start(
            bin / "kwok", "--kubeconfig=kubeconfig", f"--config={bin}/stages.yaml",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--cidr={pods}",
            "--node-lease-duration-seconds=40")
        for node in fake_nodes.manifests(count):
            self._create("/api/v1/nodes", node)
        self._programs.wait("kwok", lambda: self._usable_nodes("fake-") >= count)

    def start_dns(self, bin, address):
        """CoreDNS on this computer, which pods find by the address of the Service kube-dns."""
        (self._folder / "Corefile").write_text(
            f".:{DNS_PORT} {{\n  bind {address}\n  errors\n"
            "  kubernetes cluster.local in-addr.arpa {\n    kubeconfig kubeconfig test\n  }\n}\n")
        self._programs.start(bin / "coredns", "-conf", "Corefile")
        protocols = ("UDP", "TCP")
        named = {"namespace": "kube-system", "name": "kube-dns"}
        self._create("/api/v1/namespaces/kube-system/services", {
            "metadata": named, "spec": {"clusterIP": DNS_SERVICE, "ports": [
                {"name": each.lower(), "protocol": each, "port": 53} for each in protocols]}})
        labels = {"kubernetes.io/service-name": "kube-dns"}
        self._create("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", {
            "metadata": {**named, "labels": labels}, "addressType": "IPv4",
            "endpoints": [{"addresses": [address]}],
            "ports": [{"name": each.lower(), "protocol": each, "port": DNS_PORT}
                      for each in protocols]})

    def wait_for_nodes(self, names):
        for name in names:
            self._programs.wait(f"kubelet-{name}", lambda name=name: self._node_is_usable(name))

    def _node_is_usable(self, name):
        answer = self.get(f"/api/v1/nodes/{name}")
        return answer.ok and fake_nodes.is_usable(answer.json())

    def get(self, path):
        return self._request("GET", path)

    def _usable_nodes(self, prefix):
        return sum(fake_nodes.is_usable(node) for node in self.get("/api/v1/nodes").json()["items"]
                   if node["metadata"]["name"].startswith(prefix))

    def _write_credentials(self):
        self._state["token"] = secrets.token_hex(16)
        self._programs.write_private(
            "tokens", f"{self._state['token']},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", self._folder / "service-account.key", "2048"],
                       check=True, capture_output=True)

    def _write_kubeconfig(self):
        authority = base64.b64encode((self._folder / "certs/apiserver.crt").read_bytes()).decode()
        cluster = {"server": self._state["url"], "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._state["token"]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
        # JSON is YAML.
        self._programs.write_private("kubeconfig", json.dumps(config, indent=2) + "\n")

    def _ready(self):
        try:
            return self.get("/readyz").ok
        except (requests.ConnectionError, requests.Timeout, OSError):
            return False  # no certificate yet, or no listener

    def _create(self, path, manifest):
        self._request("POST", path, json=manifest).raise_for_status()

    def _request(self, method, path, **options):
        headers = {"Authorization": f"Bearer {self._state['token']}"}
        return requests.request(method, self._state["url"] + path, headers=headers, timeout=30,
                                verify=str(self._folder / "certs/apiserver.crt"), **options)
