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
FAKES = [f"fake_nccl/{name}" for name in ("libcuda.so.1", "libnccl.so.2", "libcublasLt.so.13")]
# The machine's own: glibc and what must fit it, and the driver.
THEIRS = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s|cuda|cublasLt)\.so)")
LIBRARIES = {"LOCKSTEP_NCCL_LIBRARY": ["libnccl.so.2"],
             "LOCKSTEP_CUBLASLT_LIBRARY": ["libcublasLt.so.13", "libcublasLt.so.12"]}


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
    members = {name: build / name for name in PROGRAMS + (FAKES if fakes else [])}
    members.update({f"lib/{name}": pathlib.Path(path) for name, path in libraries.items()})
    unpacked = 0
    with tarfile.open(file, "w:xz", preset=1, dereference=True) as archive:
        for name, path in sorted(members.items()):
            archive.add(path, name)
            unpacked += path.stat().st_size
    return file.stat().st_size, unpacked


def unpack(file, folder):
    with tarfile.open(file) as archive:
        archive.extractall(folder)
    return folder


def folders(python):
    """Where libnccl and libcublasLt may lie: tools/deps --cuda's, PyTorch's, CUDA's, the loader's."""
    yield from (CACHE / "cuda/nvidia").glob("*/lib")
    said = subprocess.run([python, "-c", "import sys, json; print(json.dumps(sys.path))"],
                          capture_output=True, text=True, check=False).stdout
    for path in json.loads(said or "[]"):
        yield from pathlib.Path(path).glob("nvidia/*/lib")
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


def environment(build, fake, python, links):
    """The variables by which programs of `build` find their libraries. `links` is an empty folder."""
    env = {"LD_LIBRARY_PATH": f"{build}/lib:{links}"}
    if fake:
        env["LD_LIBRARY_PATH"] += f":{build}/fake_nccl"
        env["LOCKSTEP_CUDA_LIBRARY"] = f"{build}/fake_nccl/libcuda.so.1"
        env["LOCKSTEP_NCCL_LIBRARY"] = f"{build}/fake_nccl/libnccl.so.2"
        env["LOCKSTEP_CUBLASLT_LIBRARY"] = f"{build}/fake_nccl/libcublasLt.so.13"
        return env
    for variable, names in LIBRARIES.items():
        found = os.environ.get(variable) or find(names, python)
        if found is None:
            sys.exit(f"there is no {' and no '.join(names)} beside {python}, in /usr/local/cuda or in "
                     f"the loader's folders: install it, or name the file in {variable}")
        env[variable] = str(found)
    # libtimed.so asks for it by this name, whichever it is.
    (links / "libcublasLt.so.13").symlink_to(env["LOCKSTEP_CUBLASLT_LIBRARY"])
    return env
