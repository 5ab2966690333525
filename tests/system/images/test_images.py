"""The images that tools/images builds, unpacked and run as a restricted pod runs them."""

import os
import pathlib
import re
import shutil
import stat
import subprocess

import pytest
from image_root import Image
from paths import ROOT, VERSION
from tls import binary
from waiting import wait_until

pytestmark = pytest.mark.slow  # the images are built first, in a Debian of their own

PATIENCE = 120


def test_both_images_have_labels_a_version_and_a_numeric_user(operator, worker):
    for image, name in ((operator, "operator"), (worker, "worker")):
        assert image.name == f"docker.io/lockstep/{name}:{VERSION}"
        labels = image.config["Labels"]
        assert labels["org.opencontainers.image.version"] == VERSION
        assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
        assert labels["org.opencontainers.image.title"] == f"Lockstep {name}"
        assert labels["org.opencontainers.image.description"]
        assert labels["org.opencontainers.image.base.name"].startswith("docker.io/library/debian")
        assert image.config["User"] == "65532:65532"


def test_operator_image_is_at_most_12_mb_and_worker_image_adds_at_most_60_mb(built):
    total = re.search(r"([0-9.]+) MB compressed", built["operator"])
    added = re.search(r"([0-9.]+) MB of it Lockstep's", built["worker"])
    assert float(total[1]) <= 12 and float(added[1]) <= 60, built


def test_operator_image_holds_no_shell_and_no_setuid_program(operator):
    programs = [path for path in operator.root.rglob("*") if path.is_file()
                and not path.is_symlink() and path.stat().st_mode & 0o111]
    names = {path.relative_to(operator.root).as_posix() for path in programs
             if ".so" not in path.name}
    assert names == {"lockstep-operator", "kubectl-lockstep"}
    assert not [path for path in programs if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


def test_operator_image_holds_static_programs_and_no_library(operator):
    assert not [path for path in operator.root.rglob("*") if ".so" in path.name]


def test_operator_image_records_the_packages_within_its_programs(operator):
    records = {path.name: path.read_text()
               for path in (operator.root / "var/lib/dpkg/status.d").iterdir()}
    for package in ("libc6-dev", "libssl-dev", "curl", "simdjson", "prometheus-cpp"):
        assert f"Package: {package}\n" in records[package]
        assert re.search(r"^Version: \S+$", records[package], re.MULTILINE)
    for package in records:
        assert (operator.root / "usr/share/doc" / package / "copyright").is_file()


def test_operator_prints_its_version(operator):
    done = operator.run(*operator.config["Entrypoint"], "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"lockstep-operator {VERSION} (HTTP by curl)\n"


def test_operators_image_has_the_page(operator):
    done = operator.run("/kubectl-lockstep", "ui", "--serve=8080", "--host=page.test", "--kubeconfig", "/none")
    assert "/none does not exist" in done.stderr, done.stderr


@pytest.mark.slow
def test_operator_on_cpprestsdk_has_a_separate_image(tmp_path):
    done = subprocess.run([ROOT / "tools/images", "--http", "cpprestsdk"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    name, archive = done.stdout.splitlines()[0].split()[:2]
    assert name == f"docker.io/lockstep/operator:{VERSION}-cpprestsdk"
    operator = Image(archive, tmp_path)
    said = operator.run(*operator.config["Entrypoint"], "--version")
    assert said.stdout == f"lockstep-operator {VERSION} (HTTP by cpprestsdk)\n", said.stderr
    assert (operator.root / "var/lib/dpkg/status.d/libcpprest2.10").is_file()


def test_operator_becomes_leader_on_a_real_api_server(operator, installed, namespace, tmp_path):
    pod = tmp_path / "pod"
    pod.mkdir()
    pod.chmod(0o755)
    kubeconfig = pod / "kubeconfig"
    kubeconfig.write_text(installed.kubeconfig.read_text())
    kubeconfig.chmod(0o644)
    log = tmp_path / "log"
    with open(log, "w") as output:
        process = operator.start(
            *operator.config["Entrypoint"], "--kubeconfig", kubeconfig, "--namespace", namespace,
            "--system-namespace", namespace, "--agent-image", "agent:test", "--metrics-address",
            "127.0.0.1:0", "--health-address", "127.0.0.1:0", mounts=[pod], stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or holder(installed, namespace), "a leader",
                   PATIENCE, 0.1)
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait(PATIENCE)


def holder(cluster, namespace):
    """Of the operators' Lease; "" or None: nobody."""
    lease = cluster.kubectl("-n", namespace, "get", "lease", "lockstep-operator", "-o",
                            "jsonpath={.spec.holderIdentity}", check=False)
    return lease.stdout if lease.returncode == 0 else None


@pytest.mark.parametrize("program", ["lockstep-agent", "lockstep"])
def test_worker_image_holds_static_programs(worker, program):
    path = {"lockstep-agent": "lockstep-agent", "lockstep": "usr/local/bin/lockstep"}[program]
    done = subprocess.run(["readelf", "--program-headers", "--dynamic", worker.root / path],
                          capture_output=True, text=True, check=True)
    assert "INTERP" not in done.stdout and "(NEEDED)" not in done.stdout


def test_installed_agent_file_runs_in_an_otherwise_empty_root(worker, tmp_path):
    """What an init container leaves in the pod's folder, in an image with nothing in it."""
    pod = tmp_path / "pod"
    pod.mkdir()
    pod.chmod(0o777)
    done = worker.run("/lockstep-agent", "--install", pod, mounts=[pod])
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["chroot", "--userspec=54321:54321", pod, "/lockstep-agent", "--version"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"lockstep-agent {VERSION}\n"), done.stderr


def test_worker_image_trains_with_its_own_libraries(worker, tmp_path):
    folder = tmp_path / "pod"
    folder.mkdir()
    folder.chmod(0o755)
    job = folder / "job.yaml"
    job.write_text("""\
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: gpt}
spec:
  numMachines: 2
  processesPerMachine: 2
  topology: {bind: None}
  trainer:
    modelShape: {layers: 1, heads: 2, width: 32, vocabulary: 256}
    data: [/usr/share/common-licenses/GPL-3]
    steps: 3
    globalBatchSize: 8
    sequenceLength: 32
""")
    done = worker.run("lockstep", "run", job, mounts=[folder],
                      environment={"TMPDIR": "/run", "HOME": "/run"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not os.environ.get("LOCKSTEP_TEST_CUDA_IMAGE"),
                    reason="LOCKSTEP_TEST_CUDA_IMAGE=1 fetches 1 GB and unpacks it")
def test_cuda_worker_image_opens_its_own_cublaslt_and_nccl_on_the_node_driver(
        cuda_worker, tmp_path):
    image = cuda_worker
    assert image.config["Labels"]["org.opencontainers.image.title"] == "Lockstep worker with CUDA"
    assert image.config["User"] == "65532:65532"
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in image.config["Env"]
    for part in ("nvidia_cublas", "nvidia_nccl_cu13"):
        assert list(image.root.glob(f"usr/**/share/doc/{part}/[Ll]icense*")) \
            or list(image.root.glob(f"usr/**/share/doc/{part}/licenses/*")), part

    node = tmp_path / "node"  # of whose driver the container runtime mounts libcuda.so.1: here the fake
    node.mkdir()
    node.chmod(0o755)
    (node / "text").write_text("To be, or not to be. " * 100)
    train = ["lockstep-trainer", "train", f"--data={node}/text", "--layers=1", "--heads=1",
             "--width=64", "--vocabulary=256", "--sequence-length=32", "--global-batch-size=4",
             "--steps=1", "--device=cuda", "--checkpoint-dir=/run/checkpoints"]
    none = image.run(*train, mounts=[node])
    assert none.returncode == 2 and "no NVIDIA driver here" in none.stderr
    shutil.copy(pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl/libcuda.so.1", node)
    driver = {"LD_LIBRARY_PATH": str(node)}
    # The real libraries find out that this driver is none.
    blas = image.run(*train, mounts=[node], environment=driver)
    assert blas.returncode == 2, blas.stderr
    assert "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED: cuBLASLt 13." in blas.stderr
    nccl = image.run("lockstep-trainer", "bench", "allreduce", "--backend=nccl", mounts=[node],
                     environment=driver)
    assert nccl.returncode == 1, nccl.stderr
    assert "ncclCommInitRankConfig of rank 0 of 1: unhandled cuda error" in nccl.stderr
