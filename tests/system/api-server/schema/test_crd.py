"""The CustomResourceDefinition as a whole: size, cost, descriptions, columns, scale."""

import json
import re
import subprocess

import pytest
import schema_walk
from documents import a_command, a_trainer, job
from paths import ROOT
from tls import binary
from waiting import wait_until

FILE = ROOT / "crds/lockstep.dev_trainingjobs.yaml"
MOST_BYTES = 200 * 1000
RULE_BUDGET = 10_000_000  # of the API server, in its units of cost
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_crd_fits_a_client_side_apply():
    assert FILE.stat().st_size <= MOST_BYTES


def test_crd_file_matches_output_of_tools_crd_for_this_api_server(installed, tmp_path):
    document = tmp_path / "openapi.json"
    document.write_text(installed.kubectl("get", "--raw", "/openapi/v3/api/v1"))
    subprocess.run([ROOT / "tools/crd", "--check", "--openapi", document,
                    "--core", binary("lockstep-validator")], check=True)


def test_every_list_has_an_end(crd, server):
    assert not [path for path, each in schema_walk.walk("", schema_walk.schema_of(crd))
                if each.get("type") == "array" and "maxItems" not in each]
    many = {"spec": {"tolerations": [{"key": f"k{i}"} for i in range(1025)]}}
    status, answer = server.request("POST", body=job(a_command(template=many)))
    assert status == 422 and "must have at most 1024 items" in answer["message"]


def test_second_apply_of_the_crd_changes_nothing(installed):
    assert installed.kubectl("apply", "-f", FILE).strip().endswith("unchanged")


def test_every_field_of_lockstep_has_a_description(installed, crd):
    get = ["get", "--raw", "/openapi/v3/apis/lockstep.dev/v1alpha1"]
    # It is published a little after the kind is served.
    wait_until(lambda: installed.kubectl(*get, check=False).returncode == 0, "the schema", 120, 0.1)
    published = json.loads(installed.kubectl(*get))
    schema = next(each for name, each in published["components"]["schemas"].items()
                  if name.endswith("TrainingJob"))
    silent = [path for path, each in schema_walk.walk("", schema)
              if path.startswith(("spec", "status")) and not path.endswith("[]")
              and not schema_walk.HANDED_THROUGH.match(path + ("" if path.count(".") < 2 else "."))
              and not each.get("description")]
    assert not silent
    told = installed.kubectl("explain", "trainingjob.spec.failurePolicy.machineLostAfter")
    assert "How long a machine may be silent" in told


def test_kubectl_shows_columns_of_a_job_and_scales_the_job(server, installed):
    name = "columns"
    assert server.request("POST", body=job(a_command(numMachines=4), name=name))[0] == 201
    status = {"state": "Running", "ready": "3/4", "processes": 4, "restarts": {"total": 2},
              "progressText": "1/2 50%", "gangGeneration": "2-5", "reason": "because", "replicas": 4,
              "machines": {"desired": 4, "ready": 3, "spares": 1},
              "selector": "lockstep.dev/job=columns"}
    assert server.request("PATCH", f"/{name}/status", {"status": status}, "",
                          "merge-patch+json")[0] == 200
    wide = installed.kubectl("get", "tj", "-n", server.namespace, name, "-o", "wide").splitlines()
    assert wide[0].split() == ["NAME", "STATE", "READY", "PROCESSES", "RESTARTS", "PROGRESS", "AGE",
                               "GENERATION", "SPARES", "REASON"]
    assert re.sub(r" +", " ", wide[1]).startswith("columns Running 3/4 4 2 1/2 50%")
    assert wide[1].split()[-3:] == ["2-5", "1", "because"]
    scale = json.loads(installed.kubectl(
        "get", "--raw", f"/apis/lockstep.dev/v1alpha1/namespaces/{server.namespace}/trainingjobs/"
                        f"{name}/scale"))
    assert scale["spec"]["replicas"] == 4
    assert scale["status"] == {"replicas": 4, "selector": "lockstep.dev/job=columns"}
    installed.kubectl("scale", "tj", "-n", server.namespace, name, "--replicas", "2")
    assert server.request("GET", f"/{name}", query="")[1]["spec"]["numMachines"] == 2
    refused = installed.kubectl("scale", "tj", "-n", server.namespace, name, "--replicas", "4097",
                                check=False)
    assert "4096" in refused.stderr


def test_job_that_no_operator_has_seen_says_so(server):
    assert server.request("POST", body=job(a_command(), name="unseen"))[0] == 201
    made = server.request("GET", "/unseen", query="")[1]
    assert made["status"] == {"observedGeneration": -1}
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize("spec", [a_command(), a_trainer()], ids=["command", "trainer"])
def test_api_server_defaults_equal_core_defaults(server, core, spec):
    """What the API server fills in is what core takes for absent."""
    status, made = server.request("POST", body=job(spec), query="dryRun=All")
    assert status == 201 and made["spec"]["health"]["startTimeout"] == "10m"
    assert core.specs([made]) == core.specs([job(spec)])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_api_server_accepts_each_example(server, installed, path):
    installed.kubectl("apply", "-n", server.namespace, "--dry-run=server", "-f", path)


@pytest.mark.parametrize("template", [
    {"spec": {"tolerashuns": []}}, {"metadata": {"label": {}}}, {"spec": {"hostNetwork": "yes"}},
    {"spec": {"containers": [{"name": "worker", "ports": [{"port": 80}]}]}}])
def test_a_mistake_in_the_pod_template_is_refused(server, template):
    verdict, = server.validate([job(a_command(template=template))])
    assert not verdict.accepted


def test_every_rule_costs_less_than_the_api_server_allows(crd, installed):
    """The API server tells an estimate only of what is too dear: the schema is put into a list of
    so many items that each rule becomes so.
    """
    costs = {}
    for items in (1, 50, 2500, 125_000, 6_250_000, 312_500_000):
        for rule, factor in _factors(installed, _repeated(crd, items)):
            costs.setdefault(rule, factor * RULE_BUDGET / items)
    rules = schema_walk.rules(schema_walk.schema_of(crd))
    print(f"\n{len(costs)} estimates, {len(rules)} rules that could be estimated; the dearest:")
    for (place, number), cost in sorted(costs.items(), key=lambda each: -each[1])[:12]:
        print(f"{cost:12,.0f}  {100 * cost / RULE_BUDGET:5.1f} %  {place} rule {number}")
    print(f"{sum(costs.values()):12,.0f}  all of them; the limit is {10 * RULE_BUDGET:,}")
    assert len(costs) == len(rules)
    assert max(costs.values()) < RULE_BUDGET
    assert sum(costs.values()) < 10 * RULE_BUDGET


def _repeated(crd, items):
    made = json.loads(json.dumps(crd))
    made["metadata"]["name"] = "probes.lockstep.dev"
    made["spec"]["names"] = {"kind": "Probe", "plural": "probes", "singular": "probe",
                             "listKind": "ProbeList"}
    version = made["spec"]["versions"][0]
    del version["subresources"]["scale"], version["additionalPrinterColumns"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {
        "probe": {"type": "array", "maxItems": items, "items": spec}}}
    return made


def _factors(cluster, crd):
    """((place, number of the rule), how many times the budget it costs), where that is told."""
    answer = cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(crd),
                             check=False).stderr
    told = re.findall(r"items([^ ]*?)\.?x-kubernetes-validations\[(\d+)\]\.rule: Forbidden: "
                      r"estimated rule cost exceeds budget by factor of ([0-9.]+)x", answer)
    return [((place, int(number)), float(factor)) for place, number, factor in told]
