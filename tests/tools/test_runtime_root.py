"""docker/runtime-root: what it copies for a program, and that no failure is ignored."""

import os
import shutil
import subprocess

import pytest
from paths import ROOT
from tls import binary

DYNAMIC = shutil.which("true")


def make(folder, *words, path=os.environ["PATH"]):
    environment = {**os.environ, "PATH": str(path), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run([ROOT / "docker/runtime-root", folder / "root", *words], env=environment,
                          capture_output=True, text=True, check=False)


def test_libraries_of_a_program_come_with_their_packages_and_licences(tmp_path):
    done = make(tmp_path, DYNAMIC, "--", "zlib1g-dev")
    assert done.returncode == 0, done.stderr
    root = tmp_path / "root"
    assert list(root.rglob("libc.so.6"))
    assert sorted(path.name for path in (root / "var/lib/dpkg/status.d").iterdir()) == ["libc6", "zlib1g-dev"]
    assert (root / "usr/share/doc/libc6/copyright").is_file()


def test_static_program_needs_no_library(tmp_path):
    for program in (binary("lockstep-operator"), "/bin/busybox"):
        done = make(tmp_path, program)
        assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "root").rglob("*.so*"))
    assert list((tmp_path / "root/var/lib/dpkg/status.d").iterdir()) == []


@pytest.mark.parametrize("name, script", [
    ("cp", 'case " $* " in *" --parents "*) exit 1 ;; esac'),
    ("dpkg-query", '[ "$1" != -S ] || exit 1'),
    ("dpkg-query", '[ "$1" != -s ] || exit 1'),
    ("ldd", "echo cannot read >&2; exit 1"),
    ("ldd", "echo '\tlibstranger.so.1 => not found'; exit"),
])
def test_step_that_fails_ends_the_build(name, script, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / name).write_text(f'#!/bin/sh\n{script}\nexec {shutil.which(name)} "$@"\n')
    (programs / name).chmod(0o755)
    assert make(tmp_path, DYNAMIC, path=f"{programs}:{os.environ['PATH']}").returncode != 0
