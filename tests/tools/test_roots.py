"""What is shipped runs in other distributions: each program, a gang that heals, and the trainer's bundle.

A tree with nothing but busybox is always tried. tools/release names more in LOCKSTEP_ROOTS, folders
that tools/lib/release/root makes."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest
from paths import ROOT
from tls import binary

OTHERS = [pathlib.Path(each) for each in os.environ.get("LOCKSTEP_ROOTS", "").split()]
STATIC = ["lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "lockstep-operator"]
FAKES = ["libcuda.so.1", "libnccl.so.2", "libcublasLt.so.13"]
# With the processes and devices that a container has.
ENTER = """
mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" || exit 99
exec /usr/sbin/chroot "$0" /bin/sh -c "$1"
"""
PROGRAMS = "for each in /opt/*; do [ -d $each ] || $each --version || exit; done"
HEALS = """exec /opt/lockstep run -m 2 -p 2 --no-table --no-hints --framework None -- /bin/sh -c \
'echo rank $RANK of generation $LOCKSTEP_GENERATION; [ $LOCKSTEP_GENERATION$RANK != 1-13 ] || exit 5'"""
TRAIN = ["train", "--layers=1", "--heads=1", "--width=64", "--vocabulary=256", "--sequence-length=32",
         "--global-batch-size=2", "--micro-batch-size=1", "--steps=2", "--log-every=0"]

PROBE = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
pytestmark = pytest.mark.skipif(PROBE.returncode != 0, reason="no mounts may be made here")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The trainer's tarball, unpacked."""
    if pathlib.Path(binary("lockstep-trainer")).parts[-3] != "release":
        pytest.skip("only what the preset release makes is shipped")
    folder = tmp_path_factory.mktemp("bundle")
    subprocess.run([ROOT / "tools/package", "trainer", "--no-build", "--out", folder], check=True,
                   stdout=subprocess.DEVNULL)
    [path] = folder.glob("lockstep-trainer-*-linux-amd64.tar.gz")
    with tarfile.open(path) as tar:
        tar.extractall(folder)
    return folder / path.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module", params=[None, *OTHERS], ids=lambda each: each.name if each else "busybox")
def tree(request, bundle, tmp_path_factory):
    """A root with the programs in /opt and the trainer's bundle in /opt/trainer."""
    tree = tmp_path_factory.mktemp("root") / "tree"
    if request.param:
        shutil.copytree(request.param, tree, symlinks=True)
    else:
        for name in ("bin", "dev", "proc", "tmp"):
            (tree / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "bin/busybox")
        for name in ("sh", "dirname", "readlink"):
            (tree / "bin" / name).symlink_to("busybox")
    (tree / "opt").mkdir(exist_ok=True)
    for name in STATIC:
        shutil.copy(binary(name), tree / "opt")
    shutil.copytree(bundle, tree / "opt/trainer", symlinks=True)
    shutil.copy("/usr/share/common-licenses/GPL-3", tree / "opt/trainer/data.txt")
    return tree


def enter(tree, command):
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", ENTER,
                           tree, command], capture_output=True, text=True, check=False, timeout=120,
                          env={"PATH": "/usr/bin:/bin", "TMPDIR": "/tmp"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def weights(said):
    return re.search(r"weights after step \d+: sha256 ([0-9a-f]{64})", said)[1]


def test_every_static_program_starts(tree):
    assert len(enter(tree, PROGRAMS).split("\n")) > len(STATIC)


def test_gang_heals(tree):
    said = enter(tree, HEALS)
    for rank in range(4):
        assert f"rank {rank} of generation 1-2" in said


def test_bundled_trainer_has_the_weights_of_the_trainer_here(tree):
    here = subprocess.run([binary("lockstep-trainer"), *TRAIN, f"--data={tree}/opt/trainer/data.txt"],
                          capture_output=True, text=True, check=True)
    said = enter(tree, f"exec /opt/trainer/bin/lockstep-trainer {' '.join(TRAIN)} --data=/opt/trainer/data.txt")
    assert weights(said) == weights(here.stdout)


def test_bundled_trainer_finds_cuda_nccl_and_cublaslt_by_ld_library_path(tree):
    fakes = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
    for name in FAKES:
        if not (fakes / name).is_file():
            pytest.skip("the tests' stand-ins are not built")
    (tree / "fakes").mkdir()
    for name in FAKES:
        shutil.copy(fakes / name, tree / "fakes")
    said = enter(tree, f"LD_LIBRARY_PATH=/fakes exec /opt/trainer/bin/lockstep-trainer {' '.join(TRAIN)} "
                 "--device=cuda --data=/opt/trainer/data.txt")
    assert "NCCL" in said and "cuBLASLt" in said


def test_bundle_has_the_licence_of_each_library(bundle):
    names = {path.name for path in (bundle / "share/doc/lockstep-trainer/copyright").iterdir()}
    assert {"libc6", "libstdc++6", "libgloo0", "libdnnl2", "libssl3"} <= names
