"""tools/lib/older: which commit's programs the test of upgrades takes."""

import os
import shutil
import subprocess

import pytest
from paths import ROOT


@pytest.fixture
def tree(tmp_path):
    """A repository with the script and three commits, of which none is tagged."""
    root = tmp_path / "tree"
    (root / "tools/lib").mkdir(parents=True)
    for name in ("older", "common.sh"):
        shutil.copy(ROOT / "tools/lib" / name, root / "tools/lib" / name)
    git(root, "init", "-q")
    git(root, "add", "-A")
    for number in range(3):
        git(root, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "-qm", str(number),
            "--allow-empty")
    return root


def git(root, *arguments):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return subprocess.run(["git", *arguments], cwd=root, check=True, env=environment, capture_output=True,
                          text=True).stdout.strip()


def older(root, *arguments):
    return subprocess.run([root / "tools/lib/older", "--where", *arguments], capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": "/cache"})


def folder(root, commit):
    return f"/cache/lockstep/older/{git(root, 'rev-parse', commit)[:12]}\n"


def test_commit_is_the_last_tag_before_the_one_of_this_commit(tree):
    git(tree, "tag", "v0.1.0", "HEAD~2")
    git(tree, "tag", "v0.2.0", "HEAD~")
    assert older(tree).stdout == folder(tree, "HEAD~")
    git(tree, "checkout", "-q", "v0.2.0")
    assert older(tree).stdout == folder(tree, "HEAD~"), "the release itself is no older build"


def test_commit_can_be_named(tree):
    assert older(tree, "HEAD~2").stdout == folder(tree, "HEAD~2")


def test_commit_that_the_clone_lacks_is_named(tree):
    done = older(tree)  # before the first tag: a commit of Lockstep's own history
    assert done.returncode == 1 and "fetch its whole history" in done.stderr
    assert older(tree, "v9").returncode == 1
