"""What tools/package makes for arm64: its labels, the machine of each program in it, and that it starts by qemu-user.

The programs that write manual pages and completions are those of this machine, of build/release.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from guest import arm64
from paths import ROOT, VERSION
from registry import registry

sys.path.append(str(ROOT / "tools/lib/package"))

import image
import staging

EMULATOR = ["qemu-aarch64", "-cpu", "max,pauth-impdef=on"]
PROGRAMS = {"lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "lockstep-operator"}
TRAIN = ["train", "--layers=1", "--heads=1", "--width=64", "--vocabulary=256", "--sequence-length=32",
         "--global-batch-size=2", "--micro-batch-size=1", "--steps=2", "--log-every=0",
         "--data=/usr/share/common-licenses/GPL-3"]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts containers, so it needs root")


@pytest.fixture(scope="module", autouse=True)
def built():
    if not (ROOT / "build/release/bin/lockstep-operator").exists():
        pytest.skip("no programs for this machine: build the preset release, too")


@pytest.fixture
def make(tmp_path):
    def make(kind, *words):
        """The first file that tools/package names."""
        done = subprocess.run(
            [ROOT / "tools/package", kind, "--arch", "arm64", "--no-build", "--out", tmp_path, *words],
            capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        assert done.returncode == 0, done.stderr
        return pathlib.Path(done.stdout.split()[0])

    return make


def said(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def programs(folder):
    """{name: the machine of its ELF header} of the programs below a folder."""
    heads = {path: path.read_bytes()[:20] for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    return {path.name: int.from_bytes(head[18:20], "little") for path, head in heads.items() if head[:4] == b"\x7fELF"}


def trained(text):
    return re.search(r"weights after step 2: sha256 [0-9a-f]{64}", text)


ARM64 = dict.fromkeys(PROGRAMS, staging.MACHINES["arm64"])


def test_deb_is_of_arm64_with_all_programs_for_it(make, tmp_path):
    path = make("deb")
    assert path.name == f"lockstep_{VERSION}-1_arm64.deb"
    assert said("dpkg-deb", "--field", path, "Architecture") == "arm64\n"
    subprocess.run(["dpkg-deb", "-x", path, tmp_path / "tree"], check=True)
    assert programs(tmp_path / "tree/usr/bin") == ARM64
    assert (tmp_path / "tree/usr/share/man/man1/lockstep-run.1.gz").is_file()


def test_rpm_is_of_aarch64_with_all_programs_for_it(make, tmp_path):
    path = make("rpm")
    assert said("rpm", "-qp", "--queryformat", "%{ARCH}", path) == "aarch64"
    (tmp_path / "tree").mkdir()
    archive = subprocess.run(["rpm2cpio", path], check=True, capture_output=True).stdout
    subprocess.run(["cpio", "-idm", "--quiet"], input=archive, cwd=tmp_path / "tree", check=True)
    assert programs(tmp_path / "tree/usr/bin") == ARM64


def test_apk_is_of_aarch64_with_all_programs_for_it(make, tmp_path):
    (tmp_path / "tree").mkdir()
    # Three gzip streams, which tar reads as one with this option.
    subprocess.run(["tar", "-xzf", make("apk"), "--ignore-zeros", "-C", tmp_path / "tree"], check=True,
                   stderr=subprocess.DEVNULL)
    assert "\narch = aarch64\n" in (tmp_path / "tree/.PKGINFO").read_text()
    assert programs(tmp_path / "tree/usr/bin") == ARM64


def test_tarball_and_wheel_have_the_programs_for_arm64(make, tmp_path):
    make("tarball")
    with tarfile.open(tmp_path / f"lockstep-{VERSION}-linux-arm64.tar.gz") as tar:
        tar.extractall(tmp_path / "tarball")
    assert programs(tmp_path / "tarball") == ARM64
    wheel = make("wheel")
    assert "aarch64" in wheel.name and "x86_64" not in wheel.name
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "wheel")
    assert programs(tmp_path / "wheel") == dict.fromkeys(("lockstep", "lockstep-agent", "lockstep-pmix"), 183)


@pytest.fixture
def pulled(make, tmp_path):
    @contextlib.contextmanager
    def pulled(kind, name):
        """The root that a node with arm64 gets from a registry with the index of both architectures."""
        subprocess.run([ROOT / "tools/deps", "--images"], check=True)
        buildah = ["buildah", "--root", tmp_path / "storage", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
        with registry() as served:
            archive = make(kind, "--arch", "amd64", "--push", served.host)
            platform = ("--platform", "linux/arm64")
            given = said(*buildah, "pull", "--quiet", "--tls-verify=false", *platform,
                         f"docker://{served.host}/lockstep/{name}@{image.digest(archive)}").strip()
            container = said(*buildah, "from", "--pull-never", *platform, given).strip()
            try:
                yield pathlib.Path(said(*buildah, "mount", container).strip())
            finally:
                subprocess.run([*buildah, "rm", "--all"], check=True, stdout=subprocess.DEVNULL)

    return pulled


@needs_root
def test_registry_gives_an_arm64_node_an_operator_that_starts(pulled):
    with pulled("image", "operator") as root:
        assert programs(root) == dict.fromkeys(image.PROGRAMS, 183)
        assert f"lockstep-operator {VERSION}" in said(*EMULATOR, root / "lockstep-operator", "--version")


@needs_root
def test_registry_gives_an_arm64_node_a_worker_whose_shell_starts_and_whose_trainer_trains(pulled):
    with pulled("worker-image", "worker") as root:
        found = programs(root)
        assert set(found.values()) == {183}
        assert {"lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "lockstep-trainer"} <= set(found)
        emulated = [*EMULATOR, "-L", root]  # its loader and libraries are those below `root`
        assert said(*emulated, root / "bin/dash", "-c", "echo hello") == "hello\n"
        assert trained(said(*emulated, root / "usr/local/bin/lockstep-trainer", *TRAIN))


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_program_says_its_version(program):
    assert VERSION in said(*EMULATOR, arm64(4).program(program), "--version")


def test_trainer_of_the_tarball_trains_with_the_loader_and_libraries_that_it_brings(make, tmp_path):
    path = make("trainer")
    assert path.name == f"lockstep-trainer-{VERSION}-linux-arm64.tar.gz"
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path)
    tree = tmp_path / path.name.removesuffix(".tar.gz")
    found = programs(tree)
    assert set(found.values()) == {183} and {"libgloo.so.0", "libdnnl.so.2", "libc.so.6"} <= set(found)
    # What the script in bin does; the kernel here does not know how to start its programs.
    [loader] = re.findall(r'exec "\$folder/(\S+)" ', (tree / "bin/lockstep-trainer").read_text())
    folder = tree / "lib/lockstep-trainer"
    assert trained(said(*EMULATOR, folder / loader, "--library-path", folder, folder / "lockstep-trainer", *TRAIN))
