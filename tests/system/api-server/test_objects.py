"""A real API server takes every object that the operator makes for a job, under the restricted Pod
Security level; and a real scheduler places the pods as `placement` says."""

import json
import os
import pathlib
import subprocess
import uuid

import pytest
import yaml
from kubernetes.client import CoreV1Api
from paths import ROOT
from waiting import wait_until

PROGRAM = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))

# What a user adds where only restricted pods may be made: user and group are the user's.
NOT_ROOT = {"runAsNonRoot": True, "runAsUser": 1000}

RESTRICTED = {
    "smallest": "{}",
    "many": "{numMachines: 3, processesPerMachine: 8}",
    "gpus": """
        numMachines: 2
        processesPerMachine: 8
        resourcesPerProcess: {gpu: 1, cpu: 2, memory: 8Gi}
        resourcesPerMachine: {rdma/hca: 1, hugepages-2Mi: 5Gi}
        sharedMemory: 16Gi
        topology: {policy: Required}
        placement: {onePerNode: Required, topologyKey: zone, topologyLevels: [block],
                    topologyMode: Required}
    """,
    "together": "{placement: {onePerNode: None, topologyKey: zone}}",
    "everything": r"""
        command: [sh, -c, 'echo "$HOME" $$ $(RANK)']
        workingDir: /work
        env:
        - {name: A, value: $(LOCKSTEP_POD_IP)}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        envFrom: [{configMapRef: {name: common, optional: true}}]
        imagePullSecrets: [{name: registry}]
        checkpoint: {claim: ckpt, path: /checkpoints}
        gracePeriod: 1500ms
        logs: {path: /checkpoints/logs}
        schedulerName: volcano
    """,
    "store": """
        envFrom: [{secretRef: {name: data}}]
        checkpoint: {url: "s3://bucket/gpt", secret: bucket, keepEvery: 24h, memory: {size: 1Gi}}
    """,
    "spares": """
        spareMachines: 2
        resourcesPerProcess: {gpu: 1, cpu: 2, memory: 8Gi}
        placement: {topologyKey: zone, topologyMode: Required}
        imagePullSecrets: [{name: registry}]
        checkpoint: {claim: ckpt, path: /checkpoints}
    """,
    "trainer": "{image: null, command: null, trainer: {model: nano, data: [/data/*.txt]}}",
}

SIDECARS = """
metadata: {labels: {team: vision}, annotations: {note: mine}}
spec:
  tolerations: [{key: gpu, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}]}}}
  containers:
  - name: logs
    image: logs:1
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  - name: worker
    volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
    securityContext: {readOnlyRootFilesystem: true}
  volumes: [{name: data, emptyDir: {}}]
"""

# Devices by a resource claim, and huge pages as files.
CLAIMS = """
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: eight-gpus}]
  containers:
  - name: worker
    resources: {claims: [{name: gpus}]}
    volumeMounts: [{name: pages, mountPath: /dev/hugepages}]
  volumes: [{name: pages, emptyDir: {medium: HugePages}}]
"""


def job_of(namespace, spec, pod_template=None):
    """A TrainingJob as the API server would hand it out."""
    whole = {"image": "train:7", "command": ["python", "train.py"], **yaml.safe_load(spec)}
    whole = {name: value for name, value in whole.items() if value is not None}
    if pod_template is not None:
        whole["template"] = pod_template
    return {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "spec": whole,
            "metadata": {"name": "gpt", "namespace": namespace, "uid": str(uuid.uuid4())}}


def objects_of(job, *options):
    done = subprocess.run([PROGRAM / "lockstep-objects", "10.96.0.7", *options],
                          input=json.dumps(job), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def restricted(cluster, namespace):
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted",
                    "pod-security.kubernetes.io/warn=restricted")
    return namespace


def take(cluster, objects):
    """What the API server makes of them, without keeping them; no warning is let pass."""
    done = cluster.kubectl("create", "--dry-run=server", "--warnings-as-errors", "-o", "json", "-f",
                           "-", input=json.dumps(objects), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return list(documents(done.stdout))


def documents(text):
    """kubectl prints one JSON document behind the other."""
    while text := text.lstrip():
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:]


@pytest.mark.parametrize("delivery", ["init", "volume"])
@pytest.mark.parametrize("name", RESTRICTED)
def test_api_server_accepts_all_objects_under_the_restricted_level(
        cluster, restricted, name, delivery):
    options = ["--image-volume"] if delivery == "volume" else []
    job = job_of(restricted, RESTRICTED[name], {"spec": {"securityContext": NOT_ROOT}})
    taken = take(cluster, objects_of(job, *options))
    assert [item["kind"] for item in taken[:3]] == ["Secret", "Service", "Service"]
    machines = job["spec"].get("numMachines", 1)
    spares = job["spec"].get("spareMachines", 0)
    assert [item["metadata"]["name"] for item in taken[3:]] == \
        [f"gpt-{m}" for m in range(machines)] + [f"gpt-spare{s}" for s in range(spares)]


def test_api_server_accepts_sidecars_beside_the_worker(cluster, restricted):
    pod_template = yaml.safe_load(SIDECARS)
    pod_template["spec"]["securityContext"] = NOT_ROOT
    pod = take(cluster, objects_of(job_of(restricted, "{}", pod_template)))[-1]
    assert [container["name"] for container in pod["spec"]["containers"]] == ["logs", "worker"]


def test_pod_with_resource_claims_and_huge_pages_stays_guaranteed(cluster, restricted):
    pod_template = yaml.safe_load(CLAIMS)
    pod_template["spec"]["securityContext"] = NOT_ROOT
    spec = """
        resourcesPerProcess: {cpu: 2, memory: 8Gi}
        resourcesPerMachine: {hugepages-2Mi: 5Gi}
        topology: {policy: Required}
    """
    pod = take(cluster, objects_of(job_of(restricted, spec, pod_template)))[-1]
    amounts = {"cpu": "2", "memory": "8Gi", "hugepages-2Mi": "5Gi"}
    assert pod["spec"]["containers"][0]["resources"] == {
        "claims": [{"name": "gpus"}], "limits": amounts, "requests": amounts}
    assert pod["status"]["qosClass"] == "Guaranteed"


def test_api_server_keeps_every_field_that_the_operator_sends(cluster, restricted):
    """The server adds defaults to what it takes; what we sent stands as it was."""
    job = job_of(restricted, RESTRICTED["gpus"], {"spec": {"securityContext": NOT_ROOT}})
    sent = objects_of(job)
    items = take(cluster, sent)
    for mine, taken in zip(sent["items"], items, strict=True):
        assert_within(mine, taken, mine["metadata"]["name"])
    assert items[-1]["status"]["qosClass"] == "Guaranteed"  # as topology.policy: Required wants it


def assert_within(mine, theirs, path):
    if isinstance(mine, dict):
        for key, value in mine.items():
            assert key in theirs, f"{path}.{key}"
            assert_within(value, theirs[key], f"{path}.{key}")
    elif isinstance(mine, list):
        assert len(theirs) >= len(mine), path
        for index, value in enumerate(mine):
            assert_within(value, theirs[index], f"{path}[{index}]")
    else:
        assert mine == theirs, path


def test_job_with_one_per_node_required_never_has_two_machines_on_a_node(cluster, namespace):
    """Five nodes are in the zone: six machines are five that run and one that waits."""
    job = job_of(namespace, "{numMachines: 6, placement: {onePerNode: Required}}",
                 {"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "zone-0"}}})
    pods = create(cluster, namespace, objects_of(job), running=5)
    nodes = [pod.spec.node_name for pod in pods if pod.spec.node_name]
    assert len(set(nodes)) == 5
    waiting = [pod for pod in pods if not pod.spec.node_name]
    wait_until(lambda: "didn't match pod topology spread constraints" in reason(cluster, waiting[0]),
               "the scheduler's reason", 120, 0.1)


def test_spares_have_separate_nodes_and_the_gang_service_has_no_selector(cluster, namespace):
    """Five nodes are in the zone: three machines and two of three spares."""
    job = job_of(namespace, "{numMachines: 3, spareMachines: 3, placement: {onePerNode: Required}}",
                 {"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "zone-0"}}})
    pods = create(cluster, namespace, objects_of(job), running=5)
    nodes = [pod.spec.node_name for pod in pods if pod.spec.node_name]
    assert len(set(nodes)) == 5
    names = {pod.metadata.name for pod in pods if not pod.spec.node_name}
    assert names and all("spare" in name for name in names)
    service = CoreV1Api(cluster.client()).read_namespaced_service("gpt", namespace)
    assert service.spec.selector is None, "the operator says where it leads: to machines alone"


def test_a_job_with_a_topology_key_stays_in_one_zone(cluster, namespace):
    job = job_of(namespace, """
        numMachines: 4
        placement: {topologyKey: topology.kubernetes.io/zone, topologyMode: Required}
    """)
    pods = create(cluster, namespace, objects_of(job), running=4)
    nodes = {node.metadata.name: node.metadata.labels["topology.kubernetes.io/zone"]
             for node in CoreV1Api(cluster.client()).list_node().items}
    assert len({nodes[pod.spec.node_name] for pod in pods}) == 1


@pytest.mark.parametrize(("fit", "placed"), [(2, 1), (1, 0)])
def test_a_failed_node_is_avoided_while_another_fits(cluster, namespace, fit, placed):
    nodes = [node.metadata.name for node in CoreV1Api(cluster.client()).list_node().items]
    fits = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes[:fit]}
    job = job_of(namespace, "{}", {"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [fits]}]}}}}})
    pods = create(cluster, namespace, objects_of(job, "--avoid", nodes[0]), running=1)
    assert pods[0].spec.node_name == nodes[placed]


def create(cluster, namespace, objects, running):
    """Without owners: the garbage collector would look for a TrainingJob that is not there."""
    for item in objects["items"]:
        del item["metadata"]["ownerReferences"]
    cluster.kubectl("create", "-f", "-", input=json.dumps(objects))
    api = CoreV1Api(cluster.client())
    pods = []

    def are_running():
        pods[:] = api.list_namespaced_pod(namespace).items
        return sum(pod.status.phase == "Running" for pod in pods) == running

    wait_until(are_running, f"{running} running pods", 120, 0.1)
    return pods


def reason(cluster, pod):
    api = CoreV1Api(cluster.client())
    now = api.read_namespaced_pod(pod.metadata.name, pod.metadata.namespace)
    messages = [c.message for c in now.status.conditions or [] if c.type == "PodScheduled"]
    return (messages or [""])[0] or ""
