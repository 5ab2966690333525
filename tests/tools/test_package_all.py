"""tools/package all: what it makes, what it leaves out, and the list of both."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import pytest
from paths import ROOT, VERSION
from tls import binary

sys.path[:0] = [str(ROOT / "tools/lib" / folder) for folder in ("package", "")]

import everything


def parts(architectures=("amd64",), url=None, cuda=False):
    """{part: its own options, or why it is left out}; nothing is made."""
    options = argparse.Namespace(out=pathlib.Path("dist"), key=None, url=url, home=None, small=True,
                                 cuda=cuda)
    return {name: more for name, _, more in everything.parts(options, list(architectures))}


def test_parts_that_cannot_be_made_are_named_with_the_reason(monkeypatch):
    monkeypatch.setattr(everything.shutil, "which", lambda name: None)
    left_out = {name: more for name, more in parts(["arm64"]).items() if isinstance(more, str)}
    assert left_out == {**{f"image of {name}": "buildah is missing: run tools/deps --images"
                           for name in ("operator", "worker", "worker-cuda")},
                        "krew": "it names the address of the files: give --url"}


def test_chart_has_the_digests_of_the_images_that_were_made_before(monkeypatch):
    monkeypatch.setattr(everything.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(everything.image, "digest", lambda path: f"sha256:{path.name}")
    made = parts(url="https://example.com", cuda=True)
    assert not [more for more in made.values() if isinstance(more, str)]
    assert made["wheel"] == {"small": True}
    assert made["chart"]["image"] == [f"{name}=sha256:lockstep-{name}-{VERSION}.oci.tar"
                                      for name in ("operator", "worker", "worker-cuda")]
    assert list(made).index("notice") == 0 and list(made).index("tarball") < list(made).index("krew")


def test_list_has_each_file_once_with_its_size_and_what_is_left_out(tmp_path):
    (tmp_path / "sbom").mkdir()
    for name, size in (("a.deb", 1_500_000), ("sbom/a.json", 20_000)):
        (tmp_path / name).write_bytes(bytes(size))
    files = [tmp_path / "sbom/a.json", tmp_path / "a.deb", tmp_path / "a.deb"]
    assert everything.listing(tmp_path, files, {"image": "no tool"}).splitlines() == [
        "   1.50 MB  a.deb", "   20.0 kB  sbom/a.json", f"   1.52 MB  2 files in {tmp_path}",
        "  left out  image: no tool"]


@pytest.mark.slow
def test_all_makes_each_part_and_lists_the_files_of_the_folder(tmp_path):
    if pathlib.Path(binary("lockstep")).parent != ROOT / "build/release/bin":
        pytest.skip("only what the preset release makes is shipped")
    done = subprocess.run([ROOT / "tools/package", "all", "--no-build", "--out", tmp_path], text=True,
                          capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, timeout=900)
    assert done.returncode == 0, done.stderr
    listed = re.findall(r"^ *[0-9.]+ [kM]B  (\S+)$", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    for kind in ("NOTICE", "install.sh", "*.deb", "*.rpm", "*.apk", "*.whl", f"lockstep-{VERSION}-linux-amd64.tar.gz",
                 f"lockstep_gang-{VERSION}.tar.gz", "lockstep-trainer-*.tar.gz", f"lockstep-{VERSION}.tgz",
                 f"lockstep-worker-{VERSION}.oci.tar",
                 "sbom/amd64/lockstep-trainer.spdx.json"):
        assert list(tmp_path.glob(kind)), kind
    assert "left out  krew" in done.stdout
