"""The page of a job on real nodes, as a person with the role `view` of its namespace sees it."""

import contextlib
import json
import re
import subprocess

import yaml
from cluster_page import ClusterPage
from e2e_install import SYSTEM
from page_service import EVENTS, JOBS, LOGS, PODS, PageClient, make_viewer

HOST = "page.test"
COMMAND = ["sh", "-c", 'echo "hello from $RANK"; sleep 3600']


def viewer(site, folder):
    """A kubeconfig of one whose only right is the role `view` in the namespace."""
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
               "metadata": {"name": "viewer"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                           "name": "view"},
               "subjects": [{"kind": "ServiceAccount", "name": "viewer",
                             "namespace": site.namespace}]}
    site.kubectl("create", "serviceaccount", "viewer")
    site.kubectl("apply", "-f", "-", input=yaml.safe_dump(binding))
    token = site.kubectl("create", "token", "viewer").strip()
    config = json.loads(site.stack.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "viewer.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def test_person_with_the_role_view_sees_machines_and_logs_and_which_right_is_missing(site, tmp_path):
    job = site.program("gpt", COMMAND, numMachines=3)
    status = job.wait_state("Running")
    nodes = [machine["node"] for machine in sorted(status["machineStatuses"],
                                                   key=lambda machine: machine["index"])]
    kubeconfig = viewer(site, tmp_path)
    with ClusterPage(kubeconfig, "gpt", "-n", site.namespace) as page:
        view = page.wait(lambda view: view["status"]["state"] == "Running", "the running job")
        assert view["machines"]["state"] == ["Running"] * 3
        assert view["job"]["nodes"] == nodes and len(set(nodes)) > 1
        assert view["notes"] == [
            f"pods/exec: create is missing in namespace {site.namespace}, so per-rank progress and "
            "stacks are not shown"]
        page.wait(lambda _: {line["r"] for line in page.ask("/api/log?after=0")["lines"]}
                  == set(range(6)), "a line of each rank")
        code, said = page.get("/api/stacks?rank=0")
        assert code == 503 and said["error"] == view["notes"][0]
        assert view["generations"]["items"] and view["gang"] is None
    with ClusterPage(kubeconfig, "-n", site.namespace) as page:  # the table
        [row] = page.wait(lambda view: view["fleet"], "the jobs")["fleet"]
        assert (row["name"], row["state"], row["machines"]) == ("gpt", "Running", 3)


@contextlib.contextmanager
def forwarded(stack):
    """The page's Service, at a port of this computer."""
    process = subprocess.Popen(
        [stack.folder / "bin/kubectl", "--kubeconfig", stack.kubeconfig, "-n", SYSTEM,
         "port-forward", "service/lockstep-ui", ":80"], stdout=subprocess.PIPE, text=True)
    try:
        yield PageClient(int(re.search(r"127.0.0.1:(\d+)", process.stdout.readline())[1]), HOST)
    finally:
        process.terminate()
        process.wait()


def test_the_chart_serves_the_page_to_people_with_tokens_alone(site):
    job = site.program("gpt", COMMAND, numMachines=3)
    job.wait_state("Running")
    token = make_viewer(site.stack, site.namespace, JOBS, PODS, LOGS, EVENTS)
    with site.stack.namespace("other") as other:
        stranger = make_viewer(site.stack, other, JOBS, PODS)
        with site.stack.installed_with("ui.enabled=true", f"ui.host={HOST}"), \
                forwarded(site.stack) as page:
            assert page.get("/api/view")[0] == 401
            assert page.get("/api/view", "wrong")[0] == 401
            assert page.get("/", host="evil.test")[0] == 421
            [row] = page.wait(token, lambda view: view["fleet"], "the jobs")["fleet"]
            assert (row["name"], row["state"], row["machines"]) == ("gpt", "Running", 3)
            name = f"{site.namespace}/gpt"
            view = page.wait(token, lambda view: view["notes"], "the job's page", job=name)
            assert view["machines"]["state"] == ["Running"] * 3
            page.wait(token, lambda _: {
                line["r"] for line in page.get("/api/log?after=0", token, job=name)[1]["lines"]}
                == set(range(6)), "a line of each rank", job=name)
            assert page.view(stranger)["fleet"] == []
            assert page.get("/api/view", stranger, job=name)[0] == 404
            logs = site.stack.kubectl("-n", SYSTEM, "logs", "deployment/lockstep-ui")
            assert token not in logs and stranger not in logs and "is served on port 8080" in logs
