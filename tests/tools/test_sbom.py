"""tools/lib/package: what is in a program, its SPDX document, and NOTICE."""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from paths import ROOT, VERSION
from tls import binary

PACKAGE = ROOT / "tools/lib/package"
sys.path.insert(0, str(PACKAGE))

import licences
import linked
import notice
import sbom

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


@pytest.fixture(scope="module")
def build():
    folder = pathlib.Path(binary("lockstep-pmix")).parents[1]
    if folder.name != "release":
        pytest.skip("only what the preset release makes is shipped")
    return folder


@pytest.fixture(scope="module")
def pmix(build):
    return linked.parts(build, "lockstep-pmix")


@pytest.fixture(scope="module")
def agent(build):
    return linked.parts(build, "lockstep-agent")


@pytest.fixture(scope="module")
def s3(build):
    if not (build / "bin/lockstep-s3").exists():
        pytest.skip("lockstep-s3 was not built: there is no Go")
    return linked.parts(build, "lockstep-s3")


def how(parts):
    return {part.package.source: part.how for part in parts if part.package.source != "gcc-12"}


def test_libraries_of_the_linker_and_header_only_libraries_are_found(pmix):
    found = how(pmix)
    for source in ("glibc", "hwloc", "libevent", "openssl", "pmix"):
        assert found[source] == "STATIC_LINK", source
    assert found["nlohmann-json3"] == "CONTAINS"


def test_library_that_tools_deps_builds_is_found_with_its_version(agent):
    [part] = [part for part in agent if part.package.source == "prometheus-cpp"]
    assert part.how == "STATIC_LINK" and part.package.source_version[0].isdigit()


def test_library_of_a_recipe_that_leaves_a_record_is_debians_source(tmp_path):
    prefix = tmp_path / "libcurl-0123456789ab"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "lib/libcurl.a").touch()
    (prefix / "record").write_text("Package: curl\nVersion: 7.88.1-10+deb12u15\n")
    path = prefix / "lib/libcurl.a"
    package = linked._packages((path,))[path]
    assert (package.source, package.source_version) == ("curl", "7.88.1-10+deb12u15")
    assert sbom._purl(package).startswith("pkg:deb/debian/curl@7.88.1-10%2Bdeb12u15?arch=source&")
    (prefix / "record").write_text("Package: curl\n")
    linked._prefix.cache_clear()
    with pytest.raises(linked.Unexplained, match="record does not name"):
        linked._packages((path,))


def test_library_of_another_architecture_has_the_version_that_was_unpacked(tmp_path):
    sysroot = tmp_path / "sysroot"
    path = sysroot / "usr/lib/aarch64-linux-gnu/libssl.a"
    documents = sysroot / "usr/share/doc/libssl-dev"
    for folder in (path.parent, documents):
        folder.mkdir(parents=True)
    path.touch()
    with gzip.open(documents / "changelog.Debian.gz", "wt") as file:
        file.write("openssl (9.9.9-1) bookworm; urgency=medium\n")
    package = linked._packages((path,))[path]
    assert (package.source, package.source_version) == ("openssl", "9.9.9-1")
    assert (package.name, package.architecture) == ("libssl-dev", "arm64")
    (documents / "changelog.Debian.gz").unlink()
    linked._unpacked.cache_clear()
    with pytest.raises(linked.Unexplained, match="libssl-dev has no changelog"):
        linked._packages((path,))


def test_headers_of_other_programs_do_not_count(agent):
    assert "cli11" not in how(agent) and "pmix" not in how(agent)


def test_no_part_of_a_shipped_program_is_munge(pmix):
    assert "munge" not in how(pmix)


def test_document_describes_the_program_and_relates_every_package(build, pmix):
    content = (build / "bin/lockstep-pmix").read_bytes()
    made = sbom.document("lockstep-pmix", content, pmix, VERSION, 0)
    assert made == sbom.document("lockstep-pmix", content, pmix, VERSION, 0)
    assert made["creationInfo"]["created"] == "1970-01-01T00:00:00Z"
    ids = [package["SPDXID"] for package in made["packages"]]
    assert len(ids) == len(set(ids)) == len(pmix) + 1
    assert sorted(each["relatedSpdxElement"] for each in made["relationships"]) == sorted(ids)
    purls = [ref["referenceLocator"] for package in made["packages"]
             for ref in package.get("externalRefs", [])]
    assert any(purl.startswith("pkg:deb/debian/libssl-dev@") and "upstream=openssl%40" in purl
               for purl in purls)


@pytest.mark.slow  # spdx-tools comes from PyPI
def test_documents_are_valid_spdx(build, tmp_path):
    subprocess.run([ROOT / "tools/deps", "--release"], check=True)
    subprocess.run([ROOT / "tools/package", "sbom", "--build", build, "--out", tmp_path, "lockstep-pmix"], check=True)
    validate = CACHE / "lockstep/release/bin/pyspdxtools"
    path = tmp_path / "lockstep-pmix.spdx.json"
    subprocess.run([validate, "-i", path], check=True)
    broken = json.loads(path.read_text())
    del broken["dataLicense"]
    path.write_text(json.dumps(broken))
    assert subprocess.run([validate, "-i", path], capture_output=True).returncode == 1


def test_program_in_go_consists_of_its_modules_and_of_gos_own_library(build, s3):
    assert how(s3)["github.com/minio/minio-go/v7"] == how(s3)["go"] == "STATIC_LINK"
    made = sbom.document("lockstep-s3", b"", s3, VERSION, 0)
    purls = [ref["referenceLocator"] for package in made["packages"] for ref in package.get("externalRefs", [])]
    assert any(re.fullmatch(r"pkg:golang/github.com/minio/minio-go/v7@v7[\d.]+", purl) for purl in purls), purls
    assert any(re.fullmatch(r"pkg:golang/stdlib@1[\d.]+", purl) for purl in purls), purls
    text = notice.text({"lockstep-s3": s3})
    assert "github.com/minio/minio-go/v7: Apache-2.0; in lockstep-s3\n" in text
    assert "MinIO Cloud Storage, (C) 2014-2020 MinIO, Inc." in text  # its file NOTICE
    assert "Copyright 2009 The Go Authors" in text


def test_file_that_belongs_to_nobody_stops_the_document(tmp_path):
    with pytest.raises(linked.Unexplained, match="is of no Debian package"):
        linked._packages((tmp_path / "libstranger.a",))


def test_package_without_a_judged_licence_stops_the_document(pmix, monkeypatch):
    monkeypatch.delitem(licences.LICENCES, "hwloc")
    with pytest.raises(licences.Unknown, match="hwloc is linked .*licences.py"):
        sbom.document("lockstep-pmix", b"", pmix, VERSION, 0)


def test_program_that_is_not_built_is_named(build):
    with pytest.raises(linked.Unexplained, match="lockstep-nothing is not built"):
        linked.parts(build, "lockstep-nothing")


def test_notice_has_the_licence_of_each_part_once(pmix, agent):
    text = notice.text({"lockstep-pmix": pmix, "lockstep-agent": agent})
    assert "prometheus-cpp: MIT; in lockstep-agent\n" in text
    assert "Copyright: 2016-2022, Jupp Mueller" in text
    assert text.count("GNU LESSER GENERAL PUBLIC LICENSE\n                       Version 2.1") == 1
    for part in (*pmix, *agent):
        assert f"\n{part.package.source} ({licences.of(part.package.source)})\n" in text


def test_changed_notice_is_refused(build, tmp_path):
    path = tmp_path / "NOTICE"
    command = [ROOT / "tools/package", "notice", "--build", build]
    subprocess.run([*command, "--out", path, "lockstep-pmix"], check=True)
    assert subprocess.run([*command, "--check", path, "lockstep-pmix"]).returncode == 0
    path.write_text(path.read_text().replace("WARRANTY", "warranty", 1))
    done = subprocess.run([*command, "--check", path, "lockstep-pmix"], capture_output=True, text=True)
    assert done.returncode == 1 and "is not the notice of these programs" in done.stderr
