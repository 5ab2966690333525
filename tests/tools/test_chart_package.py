"""tools/package chart and krew: what a release writes into them."""

import hashlib
import io
import re
import subprocess
import tarfile

import pytest
import yaml
from paths import ROOT, VERSION

DIGEST = "sha256:" + "0123456789abcdef" * 4


def package(*arguments):
    return subprocess.run([ROOT / "tools/package", *map(str, arguments)], capture_output=True, text=True)


def unpacked(path, name):
    with tarfile.open(path) as tar:
        return yaml.safe_load(tar.extractfile(f"lockstep/{name}"))


@pytest.fixture
def chart(tmp_path):
    """Makes the chart with these options and returns its path."""
    def make(*options):
        done = package("chart", "--out", tmp_path, *options)
        assert done.returncode == 0, done.stderr
        return tmp_path / f"lockstep-{VERSION}.tgz"
    return make


def test_chart_names_images_by_the_digests_and_the_registry_of_the_release(chart):
    path = chart("--image", f"operator={DIGEST}", "--registry", "registry.example.com")
    values = unpacked(path, "values.yaml")
    assert values["image"]["repository"] == "registry.example.com/lockstep/operator"
    assert values["image"]["digest"] == DIGEST
    assert values["agent"]["image"]["repository"] == "registry.example.com/lockstep/worker"
    assert values["agent"]["image"]["digest"] == ""
    listed = yaml.safe_load(unpacked(path, "Chart.yaml")["annotations"]["artifacthub.io/images"])
    assert {each["name"]: each["image"] for each in listed} == {
        "operator": f"registry.example.com/lockstep/operator@{DIGEST}",
        "worker": f"registry.example.com/lockstep/worker:{VERSION}",
        "worker-cuda": f"registry.example.com/lockstep/worker-cuda:{VERSION}"}


def test_chart_without_options_has_the_values_and_comments_of_the_tree(chart):
    with tarfile.open(chart()) as tar:
        text = tar.extractfile("lockstep/values.yaml").read()
    assert text == (ROOT / "helm/lockstep/values.yaml").read_bytes()


def test_chart_has_icon_maintainers_and_the_links_of_the_given_address(chart):
    about = unpacked(chart("--home", "https://example.com/lockstep"), "Chart.yaml")
    assert about["version"] == about["appVersion"] == VERSION
    assert about["icon"].startswith("data:image/svg+xml;base64,") and about["maintainers"]
    assert about["home"] == "https://example.com/lockstep" and about["sources"] == [about["home"]]


def test_chart_has_the_same_bytes_each_time_and_no_tests(chart):
    first = chart().read_bytes()
    assert chart().read_bytes() == first
    with tarfile.open(chart()) as tar:
        names = tar.getnames()
    assert names[0] == "lockstep/Chart.yaml" and "lockstep/values.schema.json" in names
    assert not [name for name in names if name.startswith("lockstep/tests/")]
    assert [name for name in names if name.startswith("lockstep/templates/tests/")]


@pytest.mark.parametrize(("options", "said"), [
    (["--image", "operator=latest"], "--image takes NAME=sha256:DIGEST"),
    (["--image", f"trainer={DIGEST}"], "not 'trainer="),
    (["--home", "ftp://example.com"], "--home must be an https address"),
])
def test_wrong_option_is_refused(options, said, tmp_path):
    done = package("chart", "--out", tmp_path, *options)
    assert done.returncode == 1 and said in done.stderr
    assert not list(tmp_path.iterdir())


def tarball(folder):
    """A release's tarball for amd64, with stand-ins for its files."""
    path = folder / f"lockstep-{VERSION}-linux-amd64.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (("bin/lockstep", b"program"), ("bin/lockstep-agent", b"agent"),
                           ("share/doc/lockstep/LICENSE", b"licence")):
            entry = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            entry.size, entry.mode = len(text), 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(entry, io.BytesIO(text))
        entry = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/bin/kubectl-lockstep")
        entry.type, entry.linkname = tarfile.SYMTYPE, "lockstep"
        tar.addfile(entry)
    return path


def test_krew_archive_has_the_program_under_its_name_and_no_link(tmp_path):
    tarball(tmp_path)
    done = package("krew", "--out", tmp_path, "--url", "https://example.com/v1/", "--home", "https://example.com")
    assert done.returncode == 0, done.stderr
    manifest = yaml.safe_load((tmp_path / "lockstep.yaml").read_text())
    assert manifest["spec"]["version"] == f"v{VERSION}"
    assert manifest["spec"]["homepage"] == "https://example.com"
    [platform] = manifest["spec"]["platforms"]
    archive = tmp_path / f"kubectl-lockstep-{VERSION}-linux-amd64.tar.gz"
    assert platform["uri"] == f"https://example.com/v1/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as tar:
        assert {each.name: each.mode for each in tar if each.isreg()} == {
            "kubectl-lockstep": 0o755, "LICENSE": 0o644}
        assert len(tar.getnames()) == 2, "krew refuses links"
        assert tar.extractfile(platform["bin"]).read() == b"program"
    assert len(manifest["spec"]["shortDescription"]) <= 50
    assert re.fullmatch(r"[a-z0-9-]+", manifest["metadata"]["name"])


def test_krew_archive_of_a_tarball_without_the_program_is_refused(tmp_path):
    path = tmp_path / f"lockstep-{VERSION}-linux-amd64.tar.gz"
    tarfile.open(path, "w:gz").close()
    done = package("krew", "--out", tmp_path, "--url", "https://example.com")
    assert done.returncode == 1 and "bin/lockstep" in done.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_krew_manifest_without_a_tarball_is_refused(tmp_path):
    done = package("krew", "--out", tmp_path, "--url", "https://example.com")
    assert done.returncode == 1 and "run tools/package tarball first" in done.stderr
