"""tools/package deb, rpm, apk and tarball: what is in them, and whether it installs and runs."""

import gzip
import os
import pathlib
import re
import subprocess
import tarfile

import pytest
from paths import ROOT

PROGRAMS = ["kubectl-lockstep", "kubectl_complete-lockstep", "lockstep", "lockstep-agent",
            "lockstep-operator", "lockstep-pmix", "lockstep-s3"]
WRITTEN = ROOT / "tools/lib/package" / "man"  # pages that CLI11 does not make
SHARED = ["usr/share/bash-completion/completions/lockstep", "usr/share/man/man1/lockstep-run.1.gz",
          "usr/share/fish/vendor_completions.d/lockstep.fish", "usr/share/man/man1/lockstep-operator.1.gz",
          *(f"usr/share/man/man1/{page.name}.gz" for page in WRITTEN.iterdir())]
# Fails once, in its first generation.
TRAIN = 'echo rank $RANK; [ "$LOCKSTEP_GENERATION $RANK" != "1-1 3" ] || exit 5'


def make(kind, out, *words):
    """The one file that tools/package makes."""
    done = subprocess.run([ROOT / "tools/package", kind, "--no-build", "--out", out, *words],
                          env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.splitlines()[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def deb(folder):
    return make("deb", folder)


@pytest.fixture(scope="module")
def rpm(folder):
    return make("rpm", folder)


@pytest.fixture(scope="module")
def apk(folder):
    return make("apk", folder)


@pytest.fixture(scope="module")
def tarball(folder):
    return make("tarball", folder)


def said(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def heals(programs):
    """Whether these programs run a gang of 2 x 2 whose rank 3 fails once."""
    done = subprocess.run([programs / "lockstep", "run", "-m", "2", "-p", "2", "--no-table", "--",
                           "sh", "-c", TRAIN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return all(f"rank {rank}" in done.stdout for rank in range(4)) and done.stdout.count("rank") > 4


@pytest.mark.parametrize("kind", ["deb", "rpm", "apk"])
def test_same_source_makes_the_same_bytes(kind, request, tmp_path):
    assert same(request.getfixturevalue(kind), make(kind, tmp_path))


def same(first, second):
    return first.name == second.name and first.read_bytes() == second.read_bytes()


def dpkg(root, *words):
    return subprocess.run(["dpkg", "--force-not-root", "--force-script-chrootless", f"--root={root}",
                           "--log=/dev/null", *words], capture_output=True, text=True, check=False)


def test_deb_installs_runs_a_gang_and_is_removed_without_a_trace(deb, tmp_path):
    (tmp_path / "var/lib/dpkg/updates").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/info").mkdir()
    (tmp_path / "var/lib/dpkg/status").touch()
    done = dpkg(tmp_path, "--install", deb)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "usr/bin").iterdir()) == PROGRAMS
    for name in [*SHARED, "usr/share/zsh/vendor-completions/_lockstep"]:
        assert (tmp_path / name).stat().st_size > 0, name
    assert "Apache License" in (tmp_path / "usr/share/doc/lockstep/copyright").read_text()
    assert heals(tmp_path / "usr/bin")
    assert dpkg(tmp_path, "--purge", "lockstep").returncode == 0
    assert not [path for path in (tmp_path / "usr").rglob("*") if not path.is_dir()]


def test_deb_depends_on_nothing_and_runs_no_script(deb):
    control = said("dpkg-deb", "--field", deb)
    assert "Package: lockstep\n" in control and not re.search(r"^(Pre-)?Depends:", control, re.MULTILINE)
    assert set(said("dpkg-deb", "--ctrl-tarfile", deb, errors="replace").split("\0")) & {
        "./postinst", "./preinst", "./postrm", "./prerm"} == set()
    owners = {line.split()[1] for line in said("dpkg-deb", "--contents", deb).splitlines()}
    assert owners == {"root/root"}


def test_rpm_holds_the_same_files_and_needs_no_library(rpm, tmp_path):
    names = said("rpm", "-qp", "--list", rpm).split()
    assert {f"/usr/bin/{name}" for name in PROGRAMS} <= set(names)
    assert {f"/{name}" for name in SHARED} <= set(names)
    assert "/usr/share/zsh/site-functions/_lockstep" in names
    assert "/usr/share/licenses/lockstep/LICENSE" in names
    needs = said("rpm", "-qp", "--requires", rpm).split("\n")
    assert [each for each in needs if each and not each.startswith("rpmlib(")] == []
    archive = subprocess.run(["rpm2cpio", rpm], check=True, capture_output=True).stdout
    subprocess.run(["cpio", "-idm", "--quiet"], cwd=tmp_path, input=archive, check=True)
    assert heals(tmp_path / "usr/bin")


def test_rpm_installs_in_a_root_of_its_own(rpm, tmp_path):
    done = subprocess.run(["unshare", "--user", "--map-root-user", "rpm", "--root", tmp_path,
                           "--install", "--ignorearch", rpm], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "usr/bin").iterdir()) == PROGRAMS


def test_apk_holds_the_same_files_and_needs_no_library(apk, tmp_path):
    # Three compressed parts, each a tar without its end.
    with gzip.open(apk) as parts, tarfile.open(fileobj=parts, ignore_zeros=True) as tar:
        tar.extractall(tmp_path)
    information = (tmp_path / ".PKGINFO").read_text()
    assert "pkgname = lockstep\n" in information and "arch = x86_64\n" in information
    assert "depend =" not in information
    assert sorted(path.name for path in (tmp_path / "usr/bin").iterdir()) == PROGRAMS
    for name in SHARED:
        assert (tmp_path / name).stat().st_size > 0, name
    assert heals(tmp_path / "usr/bin")


def test_tarball_is_what_install_sh_installs(tarball, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    release = tmp_path / "release"
    made = make("tarball", release, "--key", tmp_path / "key.pub", "--url", "http://127.0.0.1:9/release")
    assert same(tarball, made)
    (release / "SHA256SUMS").write_text(said("sha256sum", made.name, cwd=release))
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "lockstep-release", "-f", tmp_path / "key",
                    release / "SHA256SUMS"], check=True, stderr=subprocess.DEVNULL)
    prefix = tmp_path / "prefix"
    done = subprocess.run([release / "install.sh", "--prefix", prefix], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "http://127.0.0.1:9/release/SHA256SUMS failed" in done.stderr
    subprocess.run([release / "install.sh", "--from", release, "--prefix", prefix], check=True,
                   capture_output=True)
    assert sorted(path.name for path in (prefix / "bin").iterdir()) == PROGRAMS
    assert heals(prefix / "bin")


@pytest.mark.parametrize("key", ["ssh-';id;' AAAA", "ssh-ed25519 AAAA a'b", "ssh-ed25519 AA'AA"])
def test_install_sh_is_not_made_with_a_key_that_has_a_quote(key, tmp_path):
    (tmp_path / "key.pub").write_text(f"{key}\n")
    done = subprocess.run([ROOT / "tools/package", "tarball", "--no-build", "--out", tmp_path / "out", "--key",
                           tmp_path / "key.pub"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "is no public key" in done.stderr
    assert not (tmp_path / "out/install.sh").exists()


@pytest.mark.parametrize("words, answer", [
    (["--key", str(ROOT / "README.md")], "is no public key"),
    (["--url", "ftp://host/"], "--url must be an http address"),
])
def test_install_sh_is_not_made_with_a_wrong_key_or_address(words, answer, tmp_path):
    done = subprocess.run([ROOT / "tools/package", "tarball", "--no-build", "--out", tmp_path, *words],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and answer in done.stderr
    assert not (tmp_path / "install.sh").exists()
