"""LOCKSTEP_REPRODUCIBLE: the same object from every folder, with ccache and without."""

import os
import shutil
import subprocess

import pytest
from paths import ROOT

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_SOURCE_DIR}/cmake)
include(Lockstep)
add_library(small OBJECT small.cc)
target_link_libraries(small lockstep_options)
"""
HEADER = "#include <cassert>\ninline void Check(int x) { assert(x > 0); }\n"
SOURCE = '#include "part/check.h"\nvoid Small(int x) { Check(x); assert(x != 7); }\n'


@pytest.fixture
def object_of(tmp_path):
    """Compiles a file with asserts in a folder, as tools/lib/common.sh would, and returns its bytes."""
    def compile_in(folder, reproducible=True, ccache=True):
        root = tmp_path / folder
        (root / "part").mkdir(parents=True, exist_ok=True)
        (root / "CMakeLists.txt").write_text(PROJECT)
        (root / "part/check.h").write_text(HEADER)
        (root / "small.cc").write_text(SOURCE)
        shutil.copytree(ROOT / "cmake", root / "cmake", dirs_exist_ok=True)
        # common.sh, and the recipes whose sums name the folders of their libraries.
        (root / "tools/lib").mkdir(parents=True, exist_ok=True)
        for path in (ROOT / "tools/lib").iterdir():
            if path.is_file():
                shutil.copy(path, root / "tools/lib")
        line = ("source tools/lib/common.sh && cmake -G Ninja -B build/release -DCMAKE_BUILD_TYPE=Release "
                "-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 "
                f"-DLOCKSTEP_REPRODUCIBLE={'ON' if reproducible else 'OFF'} && cmake --build build/release")
        variables = {**os.environ, "CCACHE_DIR": str(tmp_path / "ccache")}
        variables |= {} if ccache else {"CCACHE_DISABLE": "1"}
        done = subprocess.run(["bash", "-c", line], cwd=root, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        [made] = root.rglob("small.cc.o")
        return made.read_bytes()
    return compile_in


def test_object_is_the_same_in_every_folder_with_ccache_and_without(object_of):
    # The first fills ccache with an object that has the path of its folder's way to the root.
    plain = object_of("one", reproducible=False)
    first = object_of("one")
    assert object_of("two/in/another/folder") == first
    assert object_of("three/deep", ccache=False) == first
    assert b"part/check.h" in first and b"../part/check.h" not in first
    assert b"../../part/check.h" in plain


def test_object_without_the_option_depends_on_its_folder(object_of):
    made = [object_of(folder, reproducible=False, ccache=False) for folder in ("one", "two/in/it")]
    assert made[0] != made[1]
