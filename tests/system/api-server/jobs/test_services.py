"""Where a job's Services lead is said by the operator's own EndpointSlices, on a real API server
with the cluster's own controllers, which leave them alone."""

import json

import pytest
from agent_kubelet import AgentKubelet
from jobs import PATIENCE, Jobs, operator
from waiting import wait_until

MACHINES = 4


@pytest.fixture
def jobs(installed, namespace, tmp_path):
    """Kubelets that tell addresses which the API server takes for endpoints."""
    with AgentKubelet(installed, namespace, tmp_path, unlike=0) as kubelet, \
            operator(installed.kubeconfig, tmp_path, "--namespace", namespace,
                     "--system-namespace", namespace):
        yield Jobs(installed, namespace, kubelet, tmp_path)


def items(jobs, resource):
    found = json.loads(jobs.kubectl("get", resource, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each for each in found}


def leads(jobs, name):
    """Addresses by the name of the pod, of one slice."""
    found = items(jobs, "endpointslices").get(name)
    return {each["targetRef"]["name"]: each["addresses"][0]
            for each in (found or {}).get("endpoints") or []}


def addresses(jobs, *names):
    """As kubelets told them; a pod that has none yet is left out."""
    pods = items(jobs, "pods")
    return {name: pods[name]["status"]["podIP"] for name in names
            if pods.get(name, {}).get("status", {}).get("podIP")}


def wait_lead(jobs, name, *pods):
    """Until this slice leads to these pods and to no others."""
    def led():
        wanted = addresses(jobs, *pods)
        return len(wanted) == len(pods) and leads(jobs, name) == wanted

    wait_until(led, lambda: f"{name} to lead to {', '.join(pods)}, not {leads(jobs, name)}\n"
               + jobs.operator_log(), PATIENCE, 0.1)


def test_endpoint_slices_of_operator_follow_gang_and_replacement_of_machine_0(jobs):
    jobs.apply("gpt", "sleep 1000", numMachines=MACHINES)
    wait_lead(jobs, "gpt-0", *(f"gpt-{machine}" for machine in range(MACHINES)))
    wait_lead(jobs, "gpt-coordinator", "gpt-0")
    slices, services = items(jobs, "endpointslices"), items(jobs, "services")
    assert slices.keys() == {"gpt-0", "gpt-coordinator"}, "no controller made others"
    assert not {"gpt", "gpt-coordinator"} & items(jobs, "endpoints").keys()
    assert all("selector" not in each["spec"] for each in services.values())
    assert [each["hostname"] for each in slices["gpt-0"]["endpoints"]] == [
        f"gpt-{machine}" for machine in range(MACHINES)]
    for name in ("gpt-0", "gpt-coordinator"):
        ports = {(each["name"], each["port"]) for each in slices[name]["ports"]}
        service = services[slices[name]["metadata"]["labels"]["kubernetes.io/service-name"]]
        assert ports == {(each["name"], each["port"]) for each in service["spec"]["ports"]}
    first = slices["gpt-coordinator"]["metadata"]["generation"]
    assert first == 1, "one write a machine 0"

    jobs.kubelet.process("gpt-0").kill()
    wait_lead(jobs, "gpt-coordinator", "gpt-0-r2")
    wait_lead(jobs, "gpt-0", "gpt-0-r2", *(f"gpt-{machine}" for machine in range(1, MACHINES)))
    assert items(jobs, "endpointslices")["gpt-coordinator"]["metadata"]["generation"] == 2

    jobs.kubectl("delete", "endpointslice", "gpt-coordinator")
    wait_lead(jobs, "gpt-coordinator", "gpt-0-r2")
    jobs.kubectl("delete", "tj", "gpt")
    wait_until(lambda: not items(jobs, "endpointslices"), "the slices to go with their job",
               PATIENCE, 0.2)


def test_gang_without_hostnames_has_one_service_and_one_endpoint_slice(jobs):
    jobs.apply("gpt", "sleep 1000", numMachines=MACHINES, network={"hostnames": False})
    wait_lead(jobs, "gpt-coordinator", "gpt-0")
    machines = [f"gpt-{machine}" for machine in range(MACHINES)]
    wait_until(lambda: len(addresses(jobs, *machines)) == MACHINES, "all to have addresses", PATIENCE)
    # After the loss of machine 0 the operator has seen all of them.
    jobs.kubelet.process("gpt-0").kill()
    wait_lead(jobs, "gpt-coordinator", "gpt-0-r2")
    [led] = items(jobs, "endpointslices").values()
    assert (led["metadata"]["name"], led["metadata"]["generation"]) == ("gpt-coordinator", 2)
    assert items(jobs, "services").keys() == {"gpt-coordinator"}


def test_operator_replaces_services_that_select_pods_when_the_gang_starts(jobs):
    """Such as an operator made before these slices were its own."""
    jobs.apply("gpt", "sleep 1000", suspend=True)
    owner = json.loads(jobs.kubectl("get", "tj", "gpt", "-o", "json"))["metadata"]["uid"]
    jobs.wait_state("gpt", "Suspended")
    machine0 = {"lockstep.dev/machine": "0", "lockstep.dev/attempt": "1"}
    old = {"gpt": {"clusterIP": "None"}, "gpt-coordinator": {"selector": machine0}}
    for name, spec in old.items():
        jobs.kubectl("create", "-f", "-", input=json.dumps({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "labels": {"lockstep.dev/job": "gpt"}, "ownerReferences": [{
                "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "name": "gpt",
                "uid": owner, "controller": True, "blockOwnerDeletion": True}]},
            "spec": {"publishNotReadyAddresses": True,
                     "ports": [{"name": "lockstep-gang", "port": 7070}],
                     **spec, "selector": {"lockstep.dev/job": "gpt", **spec.get("selector", {})}}}))
    before = {name: each["metadata"]["uid"] for name, each in items(jobs, "services").items()}
    wait_until(lambda: before.keys() <= items(jobs, "endpoints").keys(),
               "the controller to follow the old Services", PATIENCE, 0.1)
    jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", '{"spec":{"suspend":false}}')
    wait_lead(jobs, "gpt-0", "gpt-0", "gpt-1")
    wait_lead(jobs, "gpt-coordinator", "gpt-0")
    services = items(jobs, "services")
    assert not {each["metadata"]["uid"] for each in services.values()} & set(before.values())
    assert all("selector" not in services[name]["spec"] for name in before)
    # A controller for each of the two.
    wait_until(lambda: items(jobs, "endpointslices").keys() == {"gpt-0", "gpt-coordinator"}
               and not before.keys() & items(jobs, "endpoints").keys(),
               "what followed the old Services to go", PATIENCE, 0.2)
