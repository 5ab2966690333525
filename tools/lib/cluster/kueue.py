"""A real Kueue for tests, beside the control plane of tools/lib/cluster: its CRDs, its manager with the
webhooks that judge what others write, and objects of its administrator.

    with kueue(cluster, folder) as queues:
        queues.make_queue(namespace, "lq", cpu=8)
        workload = queues.workload(namespace, "gpt")
"""

import base64
import contextlib
import json
import os
import pathlib
import subprocess

import parts
import ports
import programs
import yaml
from certificate import self_signed
from waiting import wait_until

GROUP = "kueue.x-k8s.io"
VERSION = f"{GROUP}/v1beta2"
PATIENCE = 120.0
CONFIGURATIONS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
# Those of Workloads, of pods and of what an administrator makes.
WEBHOOKS = {"mworkload.kb.io", "vworkload.kb.io", "mpod.kb.io", "vpod.kb.io",
            "mresourceflavor.kb.io", "mclusterqueue.kb.io", "vclusterqueue.kb.io"}
# Its manager wants certificates for its metrics in /etc; only this process sees them there. No layer
# of an overlay may be an overlay itself, as a container's disk is.
START = """
mount -t tmpfs layers "$1/layers"
mkdir "$1/layers/work"
cp -r "$1/etc" "$1/layers"
mount -t overlay overlay -o lowerdir=/etc,upperdir=$1/layers/etc,workdir=$1/layers/work /etc
exec "$2" --config="$1/config.yaml"
"""
# Of its objects: those that others are kept for come after these.
KINDS = ["workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses"]
ROLES = ["service_account", "role", "role_binding", "manager_secrets_role",
         "manager_secrets_role_binding"]
ACCOUNT = "system:serviceaccount:kueue-system:kueue-controller-manager"
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"


class Kueue:
    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self._crds = parts.source("kueue", "sigs.k8s.io/kueue") / "config/components/crd/bases"
        self._webhooks = self._crds.parents[1] / "webhook/manifests.yaml"
        self._process = None
        self._configuration = {}

    def install(self):
        for file in sorted(self._crds.glob("*.yaml")):
            self.cluster.kubectl("create", "-f", file)
        self.cluster.kubectl("create", "namespace", "kueue-system")
        self.cluster.kubectl("create", "-f", "-", input=self._roles())
        for kind in ("workloads", "clusterqueues", "localqueues", "resourceflavors"):
            wait_until(lambda kind=kind: self.cluster.kubectl(
                "get", f"{kind}.{GROUP}", "-A", check=False).returncode == 0,
                f"{kind} to be served", PATIENCE, 0.1)

    def _roles(self):
        texts = [(self._crds.parents[1] / f"rbac/{name}.yaml").read_text().replace(
            "namespace: system", "namespace: kueue-system").replace(
            "name: controller-manager", "name: kueue-controller-manager") for name in ROLES]
        return "\n---\n".join([*texts, (EXAMPLES / "kueue/access.yaml").read_text()])

    def start(self, **configuration):
        """`configuration`: further fields of its Configuration."""
        certificates, etc = self.folder / "certificates", self.folder / "etc/kueue/metrics/certs"
        for each in (certificates, etc, self.folder / "layers"):
            each.mkdir(parents=True)
        for each in (certificates, etc):
            self_signed(each / "tls.crt", each / "tls.key")
        webhook, health, metrics = (ports.free_port() for _ in range(3))
        self._judge(webhook, (certificates / "tls.crt").read_bytes())
        self._configuration = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
            "namespace": "kueue-system", "leaderElection": {"leaderElect": False},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
            "webhook": {"port": webhook, "host": "127.0.0.1", "certDir": str(certificates)},
            "internalCertManagement": {"enable": False},
            "featureGates": {"VisibilityOnDemand": False},
            "integrations": {"frameworks": ["batch/job", "pod"],
                             "externalFrameworks": ["TrainingJob.v1alpha1.lockstep.dev"]},
            **configuration}
        self._begin()

    def restart(self, **configuration):
        """With further fields of its Configuration."""
        self.stop()
        self._configuration |= configuration
        self._begin()

    def _begin(self):
        """As its own service account, with what may do what it may. It ends with the cluster at the
        latest."""
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self._configuration))
        access = json.loads(self.cluster.kubeconfig.read_text())
        access["users"][0]["user"]["as"] = ACCOUNT
        (self.folder / "kubeconfig").write_text(json.dumps(access))
        with open(self.folder / "kueue.log", "ab") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-ec", START, "sh", self.folder,
                 parts.build("kueue", print) / "kueue"],
                env={**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig"),
                     programs.MARK: str(self.cluster.folder.resolve())},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def remove(self):
        """As its uninstallation does, and its objects with it."""
        self.stop()
        for kind in CONFIGURATIONS:
            self.cluster.kubectl("delete", kind, "--all")
        for name in self.cluster.kubectl("get", "crd", "-o", "name").split():
            if name.endswith(GROUP):
                self.cluster.kubectl("delete", name, "--wait=false")

    def leave(self):
        """Nothing is left of it on a cluster that goes on. Jobs that were in its queues are gone."""
        for kind in KINDS:
            self.cluster.kubectl("delete", f"{kind}.{GROUP}", "--all", "--all-namespaces")
        self.remove()
        self.cluster.kubectl("delete", "-f", "-", input=self._roles())
        self.cluster.kubectl("delete", "namespace", "kueue-system")

    def make(self, kind, name, namespace=None, **fields):
        """Tried until its webhooks answer."""
        place = {"namespace": namespace} if namespace else {}
        text = json.dumps({"apiVersion": VERSION, "kind": kind,
                           "metadata": {"name": name, **place}, **fields})
        self._apply(f"{kind} {name}", text)

    def apply(self, manifests):
        """A file. Tried until its webhooks answer."""
        self._apply(manifests, manifests.read_text())

    def _apply(self, what, text):
        wait_until(lambda: self.cluster.kubectl("apply", "-f", "-", input=text,
                                                check=False).returncode == 0,
                   lambda: f"{what}; {self.log()}", PATIENCE, 0.2)

    def patch(self, kind, name, namespace=None, subresource=None, **fields):
        place = ["-n", namespace] if namespace else []
        of = [f"--subresource={subresource}"] if subresource else []
        self.cluster.kubectl(*place, "patch", f"{kind.lower()}.{GROUP}", name, "--type=merge", *of,
                             "-p", json.dumps(fields))

    def make_queue(self, namespace, name, cpu, flavor="a3", **spec):
        """A ClusterQueue and a LocalQueue of this name, where higher priorities push out lower.
        `spec`: further fields of the ClusterQueue."""
        resources = [{"name": "cpu", "nominalQuota": str(cpu)},
                     {"name": "memory", "nominalQuota": "1Ti"}]
        self.make("ClusterQueue", name, spec={
            **spec, "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"],
                                "flavors": [{"name": flavor, "resources": resources}]}]})
        self.make("LocalQueue", name, namespace, spec={"clusterQueue": name})

    def wait_active(self, kind, name, namespace):
        """Kueue knows it by then, its webhooks too."""
        def is_active():
            found = json.loads(self.cluster.kubectl("-n", namespace, "get",
                                                    f"{kind.lower()}.{GROUP}", name, "-o", "json"))
            return conditions_of(found).get("Active", ("",))[0] == "True"

        wait_until(is_active, lambda: f"{kind} {name} to be active; {self.log()}", PATIENCE, 0.1)

    def workloads(self, namespace, job):
        """Of this job, by name."""
        found = json.loads(self.cluster.kubectl(
            "-n", namespace, "get", f"workloads.{GROUP}", "-l", f"lockstep.dev/job={job}",
            "-o", "json"))["items"]
        return {each["metadata"]["name"]: each for each in found}

    def workload(self, namespace, job):
        """The only one of this job; None while there is none."""
        found = list(self.workloads(namespace, job).values())
        assert len(found) <= 1
        return found[0] if found else None

    def conditions(self, namespace, job):
        return conditions_of(self.workload(namespace, job) or {})

    def used(self, name):
        """What is taken of a ClusterQueue's CPUs."""
        status = json.loads(self.cluster.kubectl("get", f"clusterqueues.{GROUP}", name, "-o",
                                                 "json")).get("status", {})
        return [resource["total"] for flavor in status.get("flavorsReservation", [])
                for resource in flavor["resources"] if resource["name"] == "cpu"]

    def log(self):
        return (self.folder / "kueue.log").read_text(errors="replace")[-3000:]

    def _judge(self, port, certificate):
        authority = base64.b64encode(certificate).decode()
        for document in yaml.safe_load_all(self._webhooks.read_text()):
            kept = [each for each in document["webhooks"] if each["name"] in WEBHOOKS]
            for each in kept:
                path = each["clientConfig"]["service"]["path"]
                each["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}",
                                        "caBundle": authority}
            document["webhooks"] = kept
            document["metadata"]["name"] = "kueue-" + document["metadata"]["name"]
            self.cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(document))


def conditions_of(workload):
    """(status, reason) by type."""
    return {each["type"]: (each["status"], each["reason"])
            for each in workload.get("status", {}).get("conditions", [])}


@contextlib.contextmanager
def kueue(cluster, folder, **configuration):
    made = Kueue(cluster, folder)
    made.install()
    made.start(**configuration)
    try:
        yield made
    finally:
        made.stop()
