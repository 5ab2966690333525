"""The page of a job on real nodes, as a person with the role `view` of its namespace sees it."""

import json

import yaml
from cluster_page import ClusterPage

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
