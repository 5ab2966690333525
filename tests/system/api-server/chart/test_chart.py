"""What the chart says, without a cluster."""

import os
import pathlib
import re
import subprocess

import chart
import parts
import pytest
import schemas
import yaml
from rights import Right, granted

GOLDEN = pathlib.Path(__file__).parent / "golden"
VALUES = {"default": {}, "all": chart.ALL, "namespaced": chart.NAMESPACED}
KUBERNETES = ["1.33.13", "1.36.3"]
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
MONITORS = ["podmonitors", "servicemonitors", "prometheusrules"]


def test_helm_lint_accepts_the_chart():
    for values in VALUES.values():
        done = chart.helm("lint", "--strict", chart.CHART, values=values)
        assert done.returncode == 0, done.stdout


def test_helm_unittest_suites_of_the_chart_pass(programs):
    done = subprocess.run([programs / "helm-unittest", "--strict", chart.CHART],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


# What has its source elsewhere is not repeated in the golden files.
ELSEWHERE = re.compile(r"(crd|policy|dashboards)\.yaml$")


@pytest.mark.parametrize("name", VALUES)
def test_rendered_chart_matches_the_golden_file(name):
    """LOCKSTEP_UPDATE_GOLDEN=1 writes the files anew; then read `git diff`."""
    made = ""
    for document in chart.render(VALUES[name]).split("---\n# Source: lockstep/templates/")[1:]:
        template, _, text = document.partition("\n")
        if not ELSEWHERE.search(template):
            made += f"---\n# {template}\n" + re.sub(r"  groups:\n(  .*\n|\n)*", "", text)
    golden = GOLDEN / f"{name}.yaml"
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
        golden.write_text(made)
    assert made == golden.read_text()


@pytest.fixture(scope="session", params=KUBERNETES)
def schema_location(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    monitoring = parts.files(PROMETHEUS_OPERATOR) / "example/prometheus-operator-crd"
    schemas.write(folder, request.param, [
        *(monitoring / f"monitoring.coreos.com_{each}.yaml" for each in MONITORS),
        chart.ROOT / "crds/lockstep.dev_trainingjobs.yaml"])
    return schemas.location(folder)


def test_what_namespaces_demand_of_the_agents_container_reaches_the_operator():
    text = chart.render({"agent": {"resources": {"memory": "100Mi", "ephemeral-storage": "1Gi"}}})
    assert "--agent-resources=memory=100Mi" in text
    assert "--agent-resources=ephemeral-storage=1Gi" in text


@pytest.mark.parametrize("name", VALUES)
def test_every_rendered_object_conforms_to_the_kubernetes_schema(name, programs, schema_location):
    done = conform(programs, schema_location, chart.render(VALUES[name]))
    assert done.returncode == 0, done.stdout


def test_kubeconform_rejects_a_field_unknown_to_kubernetes(programs, schema_location):
    text = chart.render().replace("maxSkew: 1", "maximumSkew: 1")
    done = conform(programs, schema_location, text)
    assert done.returncode == 1 and "maximumSkew" in done.stdout


def conform(programs, schema_location, text):
    return subprocess.run(
        [programs / "kubeconform", "-strict", "-summary", "-schema-location", schema_location],
        input=text, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("keep", [True, False])
def test_chart_crd_equals_the_file_in_the_crds_folder(keep):
    [made] = chart.of_kind(chart.render({"crds": {"keep": keep}}), "CustomResourceDefinition")
    source = yaml.safe_load((chart.ROOT / "crds/lockstep.dev_trainingjobs.yaml").read_text())
    annotations = made["metadata"].pop("annotations", {})
    assert annotations == ({"helm.sh/resource-policy": "keep"} if keep else {})
    assert made["metadata"].pop("labels")["app.kubernetes.io/managed-by"] == "Helm"
    assert made == source


def test_chart_policies_equal_the_files_in_the_crds_folder():
    made = chart.of_kind(chart.render({"crds": {"keep": False}}), "ValidatingAdmissionPolicy",
                         "ValidatingAdmissionPolicyBinding")
    for each in made:
        del each["metadata"]["labels"]
    source = [each for name in ("policy", "rules")
              for each in chart.documents((chart.ROOT / f"crds/{name}.yaml").read_text())]

    def kind_and_name(each):
        return each["kind"], each["metadata"]["name"]
    assert sorted(made, key=kind_and_name) == sorted(source, key=kind_and_name)


def test_chart_roles_grant_the_same_rights_as_the_example():
    def rights(text):
        return set(granted(each for each in chart.of_kind(text, "Role", "ClusterRole")
                           if each["metadata"]["name"].startswith("lockstep-operator")))

    example = (chart.ROOT / "examples/operator/rbac.yaml").read_text()
    assert rights(chart.render()) == rights(example)


@pytest.mark.parametrize("name", VALUES)
def test_roles_have_no_wildcards_and_read_only_one_secret(name):
    text = chart.render(VALUES[name])
    rights = set(granted(chart.of_kind(text, "Role", "ClusterRole")))
    assert not [right for right in rights if "*" in (right.group, right.resource, right.verb)]
    assert {each for each in rights if each.resource == "secrets" and each.verb != "create"} == {
        Right("lockstep-system", "", "secrets", "lockstep-master-key", "get")}


def test_chart_for_given_namespaces_has_only_namespaced_objects():
    for each in chart.documents(chart.render(chart.NAMESPACED)):
        assert "namespace" in each["metadata"], each
        assert not each["kind"].startswith("Cluster")


def test_two_releases_of_one_namespace_have_nothing_in_common():
    def objects(text):
        return {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
                for each in chart.documents(text)}

    both = {"flowSchema": chart.ALL["flowSchema"], "monitoring": chart.ALL["monitoring"],
            "networkPolicy": {"enabled": True}}
    first = chart.render(both)
    second = chart.render(chart.NAMESPACED | both, name="lockstep-research")
    assert objects(first) & objects(second) == set()
    leases = [re.findall(r"--lease-name=(.*)", text) for text in (first, second)]
    assert leases == [["lockstep-operator"], ["lockstep-research-operator"]]


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["team-a", "team-b"]}],
                         ids=["all", "two"])
def test_flow_schemas_name_the_operator_account_and_existing_priority_levels(values):
    text = chart.render(values | {"flowSchema": chart.ALL["flowSchema"]})
    [deployment] = chart.of_kind(text, "Deployment")
    account = {"name": deployment["spec"]["template"]["spec"]["serviceAccountName"],
               "namespace": deployment["metadata"]["namespace"]}
    levels = {each["metadata"]["name"]
              for each in chart.of_kind(text, "PriorityLevelConfiguration")}
    found = chart.of_kind(text, "FlowSchema")
    assert len(found) == 2
    for each in found:
        [rule] = each["spec"]["rules"]
        [subject] = rule["subjects"]
        assert subject == {"kind": "ServiceAccount", "serviceAccount": account}
        assert each["spec"]["priorityLevelConfiguration"]["name"] in {"leader-election", *levels}
    # What it may do to its Lease, and there, falls to the first of the two.
    lease, _ = sorted(found, key=lambda each: each["spec"]["matchingPrecedence"])
    [rule] = lease["spec"]["rules"][0]["resourceRules"]
    asked = {(right.namespace, right.verb) for right in granted(chart.of_kind(text, "Role"))
             if right.resource == "leases"}
    assert asked == {(space, verb) for space in rule["namespaces"] for verb in rule["verbs"]}


def test_reports_at_nodes_have_a_role_of_their_own_and_are_off_by_default():
    def role(values):
        return [each for each in chart.of_kind(chart.render(values), "ClusterRole")
                if each["metadata"]["name"].endswith("-node-reports")]

    def options(values):
        return re.findall(r"--node-report\S*", chart.render(values))

    assert role({}) == [] and options({}) == []
    values = {"nodeReports": {"enabled": True, "staySeconds": 60}}
    assert [(right.resource, right.verb) for right in granted(role(values))] == [("nodes/status", "patch")]
    assert options(values) == ["--node-reports=60"]


@pytest.mark.parametrize(("values", "said"), [
    ({"nodeReports": {"staySeconds": 0}}, "at '/nodeReports/staySeconds'"),
    ({"nodeReports": {"enabled": True}, "watchNamespaces": ["a"]}, "nodeReports.enabled needs an operator"),
    ({"replica": 3}, "additional properties 'replica' not allowed"),
    ({"replicas": 9}, "at '/replicas': maximum: got 9, want 5"),
    ({"replicas": "2"}, "at '/replicas': got string, want integer"),
    ({"image": {"tag": "a b"}}, "at '/image/tag'"),
    ({"agent": {"image": {"digest": "sha256:1"}}}, "at '/agent/image/digest'"),
    ({"image": {"pullPolicy": "Sometimes"}}, "'Always', 'IfNotPresent', 'Never'"),
    ({"agent": {"delivery": "copy"}}, "'init-container', 'image-volume'"),
    ({"leaseSeconds": 1}, "at '/leaseSeconds': minimum: got 1, want 3"),
    ({"watchNamespaces": ["Team A"]}, "at '/watchNamespaces/0'"),
    ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
    ({"logLevel": "verbose"}, "'debug', 'info', 'warn', 'error'"),
    ({"crds": {"install": "yes"}}, "at '/crds/install': got string, want boolean"),
    ({"networkPolicy": {"apiServerPorts": []}}, "minItems: got 0, want 1"),
    ({"monitoring": {"interval": "soon"}}, "at '/monitoring/interval'"),
    ({"flowSchema": {"matchingPrecedence": 9000}}, "at '/flowSchema/matchingPrecedence': maximum"),
    ({"flowSchema": {"priorityLevel": ""}}, "at '/flowSchema/priorityLevel'"),
    ({"imagePullSecrets": ["ours"]}, "at '/imagePullSecrets/0': got string, want object"),
])
def test_helm_rejects_an_invalid_value_and_reports_the_mistake(values, said):
    done = chart.helm("template", "lockstep", chart.CHART, values=values)
    assert done.returncode != 0
    assert said in done.stderr
