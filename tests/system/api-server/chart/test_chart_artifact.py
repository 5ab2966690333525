"""The packed chart as an OCI artifact: pushed to a registry, pulled, linted and rendered by Helm."""

import subprocess

import chart
import pytest
import yaml
from paths import ROOT, VERSION
from registry import registry

DIGESTS = {name: "sha256:" + each * 64 for name, each in (("operator", "a"), ("worker", "b"))}


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    images = [f"--image={name}={digest}" for name, digest in DIGESTS.items()]
    subprocess.run([ROOT / "tools/package", "chart", "--out", folder, *images, "--registry",
                    "registry.example.com"], check=True)
    return folder / f"lockstep-{VERSION}.tgz"


def test_packed_chart_passes_helm_lint(packed):
    done = chart.helm("lint", "--strict", packed)
    assert done.returncode == 0 and "icon is recommended" not in done.stdout, done.stdout


def test_chart_from_a_registry_installs_the_images_of_the_release_by_digest(packed, tmp_path):
    with registry() as served:
        place = f"oci://{served.host}/charts"
        done = chart.helm("push", "--plain-http", packed, place)
        assert done.returncode == 0, done.stderr
        done = chart.helm("pull", "--plain-http", f"{place}/lockstep", "--version", VERSION,
                          "--destination", tmp_path)
        assert done.returncode == 0, done.stderr
    done = chart.helm("template", "lockstep", tmp_path / packed.name)
    assert (tmp_path / packed.name).read_bytes() == packed.read_bytes()
    [deployment] = chart.of_kind(done.stdout, "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.com/lockstep/operator@{DIGESTS['operator']}"
    assert (f"--agent-image=registry.example.com/lockstep/worker@{DIGESTS['worker']}"
            in container["args"])


def test_packed_chart_shows_what_artifact_hub_asks_for(packed):
    about = yaml.safe_load(chart.helm("show", "chart", packed).stdout)
    assert {"icon", "maintainers", "keywords", "description"} <= set(about)
    assert {f"artifacthub.io/{name}" for name in ("crds", "images", "license", "operator")} \
        <= set(about["annotations"])
