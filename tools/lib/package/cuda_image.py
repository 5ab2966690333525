"""Makes lockstep-worker-cuda-VERSION.oci.tar: the worker's image with cuBLASLt and NCCL, for each architecture.

The libraries are NVIDIA's, from the wheels of docker/cuda-libraries.txt, whose hashes are checked. They are
fetched once: about 0.8 GB an architecture. The lower layer is that of `tools/package worker-image`, so a node
that has one of the two images fetches only what the other adds.
"""

import pathlib
import shutil
import subprocess
import sys
import zipfile

import image
import staging
import trainer_bundle
import worker_image
from errors import PackageError

SUMMARY = "make the worker's image with CUDA's libraries as an OCI index of all architectures"

NAME = "worker-cuda"
RECIPE = staging.ROOT / "docker/worker-cuda.Containerfile"
LIBRARIES = staging.ROOT / "docker/cuda-libraries.txt"
LABELS = {"title": "Lockstep worker with CUDA", "licenses": "Apache-2.0 AND LicenseRef-NVIDIA",
          "description": "The built-in trainer with cuBLASLt and NCCL, for GPUs"}
CACHE = trainer_bundle.SYSROOT.parents[1] / "cuda-wheels"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
WANTED = {"libcublasLt.so.13", "libnccl.so.2"}
PATIENCE = 1800  # seconds for a download


def add_arguments(parser):
    image.add_arguments(parser)


def run(options):
    worker_image.make(options, NAME, RECIPE, LABELS, _make_roots)


def wheels(architecture):
    """The paths of the wheels of docker/cuda-libraries.txt, in the cache. pip checks their hashes each time."""
    folder = CACHE / architecture
    folder.mkdir(parents=True, exist_ok=True)
    # pip takes a wheel that is there, and fetches what is missing or damaged.
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--require-hashes", "--only-binary=:all:", "--python-version=3.11",
         f"--platform=manylinux_2_27_{MACHINES[architecture]}", "--dest", folder, "--requirement", LIBRARIES],
        capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise PackageError(f"the wheels of {LIBRARIES.name} for {architecture} could not be fetched: "
                           f"{done.stderr.strip()[-800:]}")
    names = [line.split()[0] for line in LIBRARIES.read_text().splitlines() if line and not line.startswith("#")]
    starts = [name.replace("-", "_").replace("==", "-") + "-" for name in names]
    return [next(folder.glob(f"{start}*.whl")) for start in starts]


def _make_roots(root, architecture, programs):
    worker_image.make_root(root / "worker", architecture=architecture, programs=programs)
    unpack(wheels(architecture), root / "cuda", architecture)


def unpack(wheels, root, architecture):
    """Puts the libraries where every loader of Debian looks, and their licences."""
    libraries = root / "usr/lib" / trainer_bundle.TRIPLETS[architecture]
    libraries.mkdir(parents=True)
    for wheel in wheels:
        documents = root / "usr/share/doc" / wheel.name.partition("-")[0]
        with zipfile.ZipFile(wheel) as file:
            for name in map(pathlib.PurePosixPath, file.namelist()):
                if name.name in WANTED:
                    place = libraries / name.name
                elif name.parent.name == "licenses":
                    place = documents / name.name
                else:
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                with file.open(str(name)) as source, place.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    missing = WANTED - {path.name for path in libraries.iterdir()}
    if missing:
        raise PackageError(f"the wheels of {LIBRARIES.name} have no {' and no '.join(sorted(missing))}")
