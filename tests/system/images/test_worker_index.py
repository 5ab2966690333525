"""tools/package worker-image: the worker's image of a release, run as a restricted pod runs it. The other
architecture's is in tests/system/arm64."""

import os
import pathlib
import stat
import subprocess

import pytest
from image_root import Image
from paths import ROOT, VERSION
from tls import binary

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(os.geteuid() != 0, reason="mounts containers, so it needs root")]

JOB = """\
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
"""
HEALS = 'echo rank $RANK of generation $LOCKSTEP_GENERATION; [ "$LOCKSTEP_GENERATION$RANK" != 1-13 ] || exit 5'
ENVIRONMENT = {"TMPDIR": "/run", "HOME": "/run"}


@pytest.fixture
def worker(worker_of_a_release):
    return worker_of_a_release


def test_image_has_labels_a_numeric_user_and_no_setuid_program(worker):
    assert worker.config["User"] == "65532:65532"
    assert worker.config["Labels"]["org.opencontainers.image.version"] == VERSION
    assert not [path for path in worker.root.rglob("*") if path.is_file() and not path.is_symlink()
                and path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


def test_image_records_its_packages_with_their_licences(worker):
    records = list((worker.root / "var/lib/dpkg/status.d").iterdir())
    assert {"libc6", "libdnnl2", "libgloo0", "bash"} <= {path.name for path in records}
    for path in records:
        assert f"Package: {path.name}\n" in path.read_text()
        assert (worker.root / "usr/share/doc" / path.name / "copyright").exists(), path.name


def test_init_container_installs_the_agent_and_its_helpers(worker, tmp_path):
    pod = tmp_path / "pod"
    pod.mkdir()
    pod.chmod(0o777)
    done = worker.run("/lockstep-agent", "--install", pod, mounts=[pod])
    assert done.returncode == 0, done.stderr
    assert {"lockstep-agent", "lockstep-pmix", "lockstep-s3"} <= {path.name for path in pod.iterdir()}


def test_gang_heals_in_the_image(worker):
    done = worker.run("lockstep", "run", "-m", "2", "-p", "2", "--no-table", "--no-hints", "--framework", "None", "--",
                      "sh", "-c", HEALS, environment=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"rank {rank} of generation 1-2" in done.stdout for rank in range(4))


def test_job_of_the_built_in_trainer_trains_in_the_image(worker, tmp_path):
    folder = tmp_path / "pod"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "job.yaml").write_text(JOB)
    done = worker.run("lockstep", "run", folder / "job.yaml", mounts=[folder], environment=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
