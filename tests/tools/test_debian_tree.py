"""tools/lib/debian-tree: commands in another root. `make` runs for minutes, so a root of busybox stands in."""

import os
import shutil
import subprocess

import pytest
from paths import ROOT

SCRIPT = ROOT / "tools/lib/debian-tree"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes root")


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    for name in ("bin", "dev", "proc", "sys", "tmp"):
        (folder / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), folder / "bin/busybox")
    for name in ("sh", "env", "cat", "pwd", "touch", "sleep"):
        (folder / "bin" / name).symlink_to("busybox")
    return folder


def run(*words):
    return subprocess.run([SCRIPT, *map(str, words)], capture_output=True, text=True)


def test_command_sees_the_tree_and_the_shared_folder_and_no_variable_of_ours(tree, tmp_path, monkeypatch):
    shared = tmp_path / "shared with a space"
    shared.mkdir()
    (shared / "from").write_text("of this machine\n")
    monkeypatch.setenv("SECRET", "1")
    done = run("run", "--bind", shared, "--in", shared, tree, "sh", "-c",
               'pwd; cat from; touch to; echo "secret=$SECRET given=$GIVEN"; [ ! -e /etc ] && echo no etc')
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(shared), "of this machine", "secret= given=", "no etc"]
    assert (shared / "to").exists()


def test_mounts_are_gone_when_the_command_has_ended_and_its_status_is_passed_on(tree):
    assert run("run", tree, "sh", "-c", "exit 7").returncode == 7
    assert str(tree) not in open("/proc/mounts").read()
    assert not any((tree / "proc").iterdir())


def test_process_that_a_command_leaves_ends_with_it(tree, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    os.mkfifo(shared / "held")
    # The fifo's end is open as long as the process lives.
    done = run("run", "--bind", shared, tree, "sh", "-c", f"sleep 1000 0<>{shared}/held >/dev/null 2>&1 &")
    assert done.returncode == 0, done.stderr
    with pytest.raises(OSError):  # nobody reads
        os.open(shared / "held", os.O_WRONLY | os.O_NONBLOCK)


def test_make_does_not_touch_a_folder_that_exists(tree):
    done = run("make", tree)
    assert done.returncode == 1 and f"{tree} is there already" in done.stderr
    assert (tree / "bin/busybox").exists()


def test_unknown_command_is_refused():
    done = run("remove", "/nowhere")
    assert done.returncode == 2 and "unknown argument 'remove'" in done.stderr
