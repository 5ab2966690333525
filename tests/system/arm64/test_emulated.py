"""Lockstep's arm64 programs on arm64 kernels, one with pages of 4 KiB and one with pages of 16 KiB.

The preset release-arm64 makes the programs. QEMU emulates the processor, so times mean nothing here.
"""

import re
import subprocess

import pytest
from guest import ARM64, Check, Guest, arm64

FOLDERS = ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib"]  # of shared libraries, in the sysroot
FAILS_ONCE = """echo rank $RANK of generation $LOCKSTEP_GENERATION on $(uname -m)
[ $LOCKSTEP_RESTARTS = 0 ] || exit 0
[ $RANK != 1 ] || exit 3
exec sleep 600"""


@pytest.fixture(scope="module", params=[4, 16])
def pages(request):
    return request.param


def shared_libraries(program):
    """{path in the guest: file} of the loader and of each library that a test program needs."""
    found, files = {}, [program]
    while files:
        said = subprocess.run(["readelf", "--wide", "--dynamic", files.pop()], capture_output=True, text=True,
                              check=True).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said):
            if f"lib/{name}" not in found:
                path = next(path for folder in FOLDERS if (path := ARM64 / "sysroot" / folder / name).exists())
                found[f"lib/{name}"] = path
                files.append(path)
    return found


def boot(folder, pages, files, *checks):
    """Outcomes by name, of a guest with these files beside Lockstep's programs."""
    guest = Guest(nodes=1, cpus=2, sockets=1, architecture=arm64(pages), memory=512, files=files)
    return guest.run(folder, checks)


@pytest.fixture(scope="module")
def gang(pages, tmp_path_factory):
    return boot(tmp_path_factory.mktemp("gang"), pages, {},
                Check("page-size", command="grep -m 1 KernelPageSize /proc/self/smaps"),
                Check("heals", spec={"numMachines": 2, "framework": "None",
                                     "command": ["/bin/sh", "-c", FAILS_ONCE]}))


def test_kernel_has_the_page_size_that_is_tested(gang, pages):
    assert re.search(rf"KernelPageSize: +{pages} kB", gang["page-size"].said)


def test_gang_of_two_machines_heals_after_a_rank_exits_with_3(gang):
    said = gang["heals"].said
    assert gang["heals"].code == 0, said
    assert "generation 1-1 ended: rank 1 on machine 0 exited with code 3" in said
    for rank in range(4):
        assert f"rank {rank} of generation 1-2 on aarch64" in said
    assert "job heals succeeded (2 generations" in said


def test_unit_tests_of_base_pass(tmp_path, pages):
    program = arm64(pages).program("base_test")
    files = {"bin/base_test": program, **shared_libraries(program)}
    command = "base_test --gtest_brief=1 --gtest_color=no"
    base = boot(tmp_path, pages, files, Check("base", command=command))["base"]
    assert base.code == 0, base.said
    assert int(re.search(r"\[  PASSED  \] (\d+) tests", base.said)[1]) > 100, base.said


@pytest.mark.parametrize("program", ["lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "lockstep-operator"])
def test_program_is_one_static_file_for_arm64(program):
    path = arm64(4).program(program)
    said = subprocess.run(["readelf", "--wide", "--file-header", "--segments", "--notes", path],
                          capture_output=True, text=True, check=True).stdout
    assert re.search(r"Machine: +AArch64", said)
    assert "INTERP" not in said
    # A kernel with pages of 64 KiB loads no segment that begins within one.
    alignments = re.findall(r"^  LOAD .* (0x\w+)$", said, re.MULTILINE)
    assert alignments and min(int(each, 16) for each in alignments) >= 0x10000
