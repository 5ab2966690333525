"""What tests/system/gpu/run takes to a machine that has no network, as one file, and what it finds there."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lockstep"
PROGRAMS = ["bin/lockstep-trainer", "bin/gpu_check", "bin/lockstep", "bin/lockstep-agent",
            "lib/libtimed.so"]
# Where a machine with a driver and PyTorch has each: the driver in a folder that LD_LIBRARY_PATH names,
# as in NVIDIA's containers; the others in PyTorch's packages, which no loader looks into.
FAKES = {"libcuda.so.1": "driver", "libnvidia-ml.so.1": "driver",
         "libnccl.so.2": "packages/nvidia/nccl/lib", "libcublasLt.so.13": "packages/nvidia/cu13/lib"}
NVIDIA_SMI = """#!/bin/sh
echo "Stand-in GPU, 580.0, 1 MiB, 1980 MHz, 2619 MHz, 700 W, Default, [N/A]"
"""
DRIVER = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]  # mounted into containers
# The machine's own: glibc and what must fit it, and the driver.
THEIRS = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s|cuda|cublasLt)\.so)")
# The name that programs open -> the variable that names another file, and the names to look for.
LIBRARIES = {"libnccl.so.2": ("LOCKSTEP_NCCL_LIBRARY", ["libnccl.so.2"]),
             "libcublasLt.so.13": ("LOCKSTEP_CUBLASLT_LIBRARY", ["libcublasLt.so.13", "libcublasLt.so.12"])}


def needed(program):
    """What the loader takes for it here: path of each library."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (\S+) \(", said, re.MULTILINE)
    return {name: path for name, path in found if not THEIRS.match(name)}


def pack(build, file, fakes):
    """(bytes of the file, bytes unpacked)"""
    libraries = {}
    for program in PROGRAMS[:2]:
        libraries.update(needed(build / program))
    fake = [f"fake_nccl/{name}" for name in FAKES] if fakes else []
    members = {name: build / name for name in PROGRAMS + fake}
    members.update({f"lib/{name}": pathlib.Path(path) for name, path in libraries.items()})
    unpacked = 0
    with tarfile.open(file, "w:gz", compresslevel=1, dereference=True) as archive:
        for name, path in sorted(members.items()):
            archive.add(path, name)
            unpacked += path.stat().st_size
    return file.stat().st_size, unpacked


def unpack(file, folder):
    with tarfile.open(file) as archive:
        archive.extractall(folder)
    return folder


def lay_out_fakes(build, machine):
    """Makes this process's environment that of a machine with a GPU, whose libraries are the fakes."""
    for name, place in FAKES.items():
        (machine / place).mkdir(parents=True, exist_ok=True)
        (machine / place / name).symlink_to(build / "fake_nccl" / name)
    program = machine / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    for variable, folder in {"LD_LIBRARY_PATH": "driver", "PYTHONPATH": "packages", "PATH": "bin"}.items():
        os.environ[variable] = paths(machine / folder, os.environ.get(variable))
    for variable, _ in LIBRARIES.values():
        os.environ.pop(variable, None)


def paths(*folders):
    return ":".join(str(folder) for folder in folders if folder)


def folders(python):
    """Where libnccl and libcublasLt may lie: PyTorch's, tools/deps --cuda's, CUDA's, the loader's."""
    said = subprocess.run([python, "-c", "import sys, json; print(json.dumps(sys.path))"],
                          capture_output=True, text=True, check=False).stdout
    for path in json.loads(said or "[]"):
        yield from pathlib.Path(path).glob("nvidia/*/lib")
    yield from (CACHE / "cuda/nvidia").glob("*/lib")
    yield from pathlib.Path("/usr/local").glob("cuda*/lib64")
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False)
    for path in re.findall(r"=> (\S*lib(?:nccl|cublasLt)\.so\S*)", known.stdout):
        yield pathlib.Path(path).parent


def find(names, python):
    places = list(folders(python))
    for name in names:
        for folder in places:
            if (folder / name).exists():
                return folder / name
    return None


def environment(build, python, links):
    """(variables by which programs of `build` find their libraries, the files that these are).

    All are found by LD_LIBRARY_PATH, because a job hands no LOCKSTEP_* down to its ranks. It keeps what
    it has: the driver may be found by it alone. `links` is made, and gets a link to each library."""
    links.mkdir()
    found = {}
    for name, (variable, names) in LIBRARIES.items():
        file = os.environ.get(variable) or find(names, python)
        if file is None:
            sys.exit(f"there is no {' and no '.join(names)} beside {python}, in /usr/local/cuda or in "
                     f"the loader's folders: install it, or name the file in {variable}")
        (links / name).symlink_to(file)
        found[name] = str(file)
    return {"LD_LIBRARY_PATH": paths(build / "lib", links, os.environ.get("LD_LIBRARY_PATH"), *DRIVER)}, found
