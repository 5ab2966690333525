"""tools/release: its checks on small trees, and SHA256SUMS with its signature."""

import datetime
import os
import re
import shutil
import subprocess
import sys
import types

import pytest
from paths import ROOT

sys.path[:0] = [str(ROOT / f"tools/lib{folder}") for folder in ("/release", "/package", "/testing", "")]

import checks
import provenance
import steps
import sums
import tested
import version
from checks import Stop
from outcome import Outcome

CHANGELOG = "# Changelog\n\n## 0.2.0 (unreleased)\n\n### Added\n\n- A thing.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n"


@pytest.fixture
def tree(tmp_path):
    """A repository with the release's scripts and every file that names the version, at 0.1.0."""
    root = tmp_path / "tree"
    for name in ("tools/release", "tools/lib/common.sh", "tools/lib/version.py", "LICENSE", provenance.WHEELS,
                 *{name for name, _, _ in version.found()}):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for name in ("release", "package", "testing"):
        shutil.copytree(ROOT / "tools/lib" / name, root / "tools/lib" / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".gitignore", root)
    version.write("0.1.0", root)
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Test")
    git(root, "config", "user.email", "test@example.com")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Begin")
    return root


@pytest.fixture(scope="session")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "release"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def git(root, *arguments):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", *arguments], cwd=root, check=True, env=environment)


def release(root, *arguments, **variables):
    return subprocess.run([root / "tools/release", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **variables})


def test_checks_pass_on_a_tree_that_is_ready(tree, key):
    done = release(tree, "0.2.0", "--only", "check", "--key", key)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("wrong", ["0.2", "v0.2.0", "0.2.0-rc.1", "0.02.0", "latest"])
def test_version_that_is_none_is_refused(tree, key, wrong):
    done = release(tree, wrong, "--only", "check", "--key", key)
    assert done.returncode == 1 and f"'{wrong}' is no version: write MAJOR.MINOR.PATCH" in done.stderr


@pytest.mark.parametrize(("spoil", "said"), [
    (lambda root: (root / "new.txt").write_text("x"), "not committed: new.txt"),
    (lambda root: (root / "README.md").write_text("x"), "not committed: README.md"),
    (lambda root: git(root, "tag", "v0.2.0"), "the tag v0.2.0 is used"),
    (lambda root: git(root, "tag", "v0.10.0"), "0.10.0 is released and newer than 0.2.0"),
    (lambda root: commit(root, "CHANGELOG.md", "0.2.0 (unreleased)", "0.2.0 (2026-02-02)"),
     "CHANGELOG.md has no section `## 0.2.0 (unreleased)`"),
    (lambda root: commit(root, "CHANGELOG.md", "- A thing.", ""), "CHANGELOG.md lists nothing under 0.2.0"),
    (lambda root: commit(root, "helm/lockstep/Chart.yaml", "version: 0.1.0", "version: 0.1.1"),
     "version 0.1.1, but CMakeLists.txt has 0.1.0"),
])
def test_tree_that_is_not_ready_is_refused_with_the_reason(tree, key, spoil, said):
    spoil(tree)
    done = release(tree, "0.2.0", "--only", "check", "--key", key)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def commit(root, name, old, new):
    path = root / name
    path.write_text(path.read_text().replace(old, new))
    git(root, "commit", "-qam", "Spoil")


def test_version_older_than_the_tree_is_refused(tree, key):
    done = release(tree, "0.0.9", "--only", "check", "--key", key)
    assert done.returncode == 1 and "the tree has version 0.1.0, which is newer" in done.stderr


def test_release_without_a_key_or_over_an_earlier_one_is_refused(tree, key):
    assert "--key FILE is missing" in release(tree, "0.2.0", "--only", "check").stderr
    (tree / "dist").mkdir()
    (tree / "dist/old.tar.gz").write_text("x")
    done = release(tree, "0.2.0", "--only", "check", "--key", key)
    assert done.returncode == 1 and "dist is not empty" in done.stderr


def test_release_without_the_programs_for_amd64_is_refused(tree, key):
    done = release(tree, "0.2.0", "--only", "check", "--key", key, "--arch", "arm64")
    assert done.returncode == 1 and "--arch arm64 alone makes no release" in done.stderr


def test_checks_need_the_public_half_of_the_key_only(tree, key, tmp_path):
    public = tmp_path / "release.pub"
    shutil.copy(f"{key}.pub", public)
    assert release(tree, "0.2.0", "--only", "check", "--key", tmp_path / "release").returncode == 0
    public.write_text("\n")
    done = release(tree, "0.2.0", "--only", "check", "--key", tmp_path / "release")
    assert done.returncode == 1 and "release.pub is no public key" in done.stderr


def test_machine_without_buildah_is_refused(tree, monkeypatch):
    monkeypatch.setattr(steps.shutil, "which", lambda name: None)
    with pytest.raises(Stop, match="run tools/deps --images"):
        steps.machine(steps.Release("0.2.0", root=tree, here=True))


def test_fresh_debian_needs_root(tree, monkeypatch):
    monkeypatch.setattr(steps.os, "geteuid", lambda: 1000)
    with pytest.raises(Stop, match="run this as root or, on a new Debian 12, with --here"):
        steps.machine(steps.Release("0.2.0", root=tree))


def test_step_that_builds_before_there_is_a_fresh_debian_is_refused(tree):
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    done = release(tree, "0.2.0", "--only", "build")
    assert done.returncode == 1 and "run the step `machine` first, or give --here" in done.stderr


def test_programs_are_built_in_the_fresh_debian_with_the_folders_that_it_needs(tree, tmp_path):
    script = tree / "tools/lib/debian-tree"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    script.chmod(0o755)
    made = steps.Release("0.2.0", tmp_path / "dist", root=tree)
    made.debian.mkdir(parents=True)
    words = made.ask_build("dpkg-query", "-W").splitlines()
    bound = [words[i + 1] for i, word in enumerate(words) if word == "--bind"]
    assert bound[:2] == [str(made.work), str(made.dist)]
    assert words[-5:] == ["/", str(made.debian), "env", "dpkg-query", "-W"]
    assert str(made.debian) not in bound and not made.debian.is_relative_to(made.work)


def test_commit_whose_tests_have_no_record_is_refused_with_their_names(tree, tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    done = release(tree, "0.2.0", "--only", "passed", **cache)
    assert done.returncode == 1
    assert "tools/test unit integration slow faults e2e cpprestsdk asan fuzz tsan arm64" in done.stderr
    tested.write(tested.commit_of(tree), [*tested.ALL, "arm64"],
                 [Outcome(suite, passed=3) for suite in (*tested.ALL, "arm64")], tmp_path / "lockstep/tested")
    done = release(tree, "0.2.0", "--only", "passed", **cache)
    assert done.returncode == 0, done.stderr
    git(tree, "commit", "-q", "--allow-empty", "-m", "Another")
    assert release(tree, "0.2.0", "--only", "passed", **cache).returncode == 1


def test_step_is_left_out_and_the_provenance_names_it(tree, tmp_path):
    done = release(tree, "0.2.0", "--dry-run", "--without", "again", "--without", "roots")
    named = [line.split()[0] for line in done.stdout.splitlines()]
    assert named == [step.name for step in steps.STEPS if step.name not in ("again", "roots")]
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    made = steps.Release("0.2.0", tmp_path / "dist", root=tree, here=True, left_out=["again", "roots"])
    stated = provenance.statement(made, {})["predicate"]["buildDefinition"]["internalParameters"]
    assert stated["stepsLeftOut"] == ["again", "roots"]


def test_clone_gets_version_and_date_and_the_tree_stays_as_it_was(tree):
    before = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tree)
    done = release(tree, "0.2.0", "--only", "tree")
    assert done.returncode == 0, done.stderr
    clone = tree / "build/releases/0.2.0/tree"
    assert version.current(clone) == "0.2.0" and version.differing(clone) == []
    today = datetime.datetime.now(datetime.timezone.utc).date()
    dated = re.search(r"^## 0\.2\.0 \((.*)\)$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert abs((datetime.date.fromisoformat(dated[1]) - today).days) <= 1
    assert checks.notes(clone, "0.2.0") == "### Added\n\n- A thing.\n"
    assert subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tree) == before
    assert version.current(tree) == "0.1.0"
    checks.tree_is_clean(tree)


def test_tag_is_signed_and_on_the_commit_of_the_clone(tree, key):
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    done = release(tree, "0.2.0", "--only", "tag", "--key", key)
    assert done.returncode == 0, done.stderr
    assert version.current(tree) == "0.2.0"
    said = subprocess.check_output(["git", "cat-file", "-p", "v0.2.0"], cwd=tree, text=True)
    assert "tag v0.2.0" in said and "BEGIN SSH SIGNATURE" in said


def test_commit_that_changes_more_than_the_version_gets_no_tag(tree, key):
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    clone = tree / "build/releases/0.2.0/tree"
    (clone / "LICENSE").write_text("x")
    git(clone, "commit", "-qa", "--amend", "-m", "More")
    done = release(tree, "0.2.0", "--only", "tag", "--key", key)
    assert done.returncode == 1 and "changes LICENSE, where no version is" in done.stderr


def test_tag_is_made_from_a_bundle_of_the_clone(tree, key, tmp_path):
    """As the release's workflow carries the commit to the job that has the key."""
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    clone = tree / "build/releases/0.2.0/tree"
    git(clone, "bundle", "create", "-q", tmp_path / "release.bundle", "HEAD")
    shutil.rmtree(clone)
    git(tree, "clone", "-q", tmp_path / "release.bundle", clone)
    done = release(tree, "0.2.0", "--only", "tag", "--key", key)
    assert done.returncode == 0, done.stderr
    assert version.current(tree) == "0.2.0"


def test_tree_that_moved_during_a_release_gets_no_tag(tree, key):
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    commit(tree, "LICENSE", "Apache", "apache")
    done = release(tree, "0.2.0", "--only", "tag", "--key", key)
    assert done.returncode == 1 and "has moved since the step `tree`" in done.stderr
    assert subprocess.check_output(["git", "tag"], cwd=tree) == b""


def test_push_sends_branch_and_tag_together_or_neither(tree, key, tmp_path):
    remote = tmp_path / "remote"
    git(tmp_path, "init", "-q", "--bare", remote)
    git(tree, "remote", "add", "origin", remote)
    git(tree, "push", "-q", "origin", "main")
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    assert release(tree, "0.2.0", "--only", "tag", "--key", key).returncode == 0
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "-b", "main", remote, other)
    git(other, "-c", "user.name=Other", "-c", "user.email=o@example.com", "commit", "-q", "--allow-empty",
        "-m", "Meanwhile")
    git(other, "push", "-q", "origin", "main")
    done = release(tree, "0.2.0", "--only", "push")
    assert done.returncode == 1 and "push --atomic" in done.stderr
    assert subprocess.check_output(["git", "tag"], cwd=remote) == b""
    git(other, "push", "-q", "--force", "origin", "HEAD~:main")
    assert release(tree, "0.2.0", "--only", "push").returncode == 0
    assert subprocess.check_output(["git", "tag"], cwd=remote) == b"v0.2.0\n"


def test_step_before_its_tree_is_refused(tree):
    done = release(tree, "0.2.0", "--only", "build")
    assert done.returncode == 1 and "run the step `tree` first" in done.stderr


def test_dry_run_lists_the_steps_and_does_nothing(tree):
    done = release(tree, "0.2.0", "--dry-run", "--no-push")
    named = [line.split()[0] for line in done.stdout.splitlines()]
    assert named == [step.name for step in steps.STEPS if step.name != "push"]
    assert not (tree / "build").exists() and not (tree / "dist").exists()


def test_steps_are_chosen_by_the_first_and_the_last(tree):
    done = release(tree, "0.2.0", "--dry-run", "--from", "bill", "--until", "sign")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["bill", "provenance", "sign"]
    done = release(tree, "0.2.0", "--dry-run", "--from", "sign", "--until", "bill")
    assert done.returncode == 2 and "--from sign is behind --until bill" in done.stderr


def test_unknown_step_is_refused(tree):
    done = release(tree, "0.2.0", "--only", "rest")
    assert done.returncode == 2 and "no step is called 'rest'" in done.stderr


def test_program_whose_second_build_differs_is_named(tree, tmp_path):
    made = steps.Release("0.2.0", architectures=["amd64"], root=tree)
    for folder in (made.tree, made.again):
        (folder / "build/release/bin").mkdir(parents=True)
        for name in steps.SHIPPED["amd64"]:
            (folder / "build/release/bin" / name).write_text("the same")
    assert steps.different(made) == []
    (made.again / "build/release/bin/lockstep-agent").write_text("another path")
    assert steps.different(made) == ["build/release/bin/lockstep-agent"]


UPGRADABLE = """Listing...
libssl-dev/stable-security 3.0.22-1 amd64 [upgradable from: 3.0.19-1]
vim/stable 2:9.0-3 amd64 [upgradable from: 2:9.0-1]
libc6/stable 2.36-10 amd64 [upgradable from: 2.36-9]
"""


def apt(upgradable):
    """A stand-in for the commands that packages_are_newest runs."""
    def command(arguments, **_):
        said = {"sudo": "", "apt-get": "", "apt-cache": "libssl-dev\n  Depends: libc6\n", "apt": upgradable}
        text = said.get(os.path.basename(arguments[0]), "libssl-dev\n")
        return types.SimpleNamespace(returncode=0, stdout=text, stderr="")
    return command


def test_machine_with_old_packages_is_refused_and_unrelated_ones_do_not_count():
    with pytest.raises(Stop, match="2 packages of the build are not the newest") as stop:
        checks.packages_are_newest(ROOT, apt(UPGRADABLE))
    said = str(stop.value)
    assert "libssl-dev 3.0.19-1 (newest 3.0.22-1)" in said and "libc6 2.36-9" in said
    assert "vim" not in said
    checks.packages_are_newest(ROOT, apt("Listing...\n"))


def test_failed_apt_update_stops_the_release():
    def command(arguments, **_):
        return types.SimpleNamespace(returncode=100, stdout="", stderr="no network")
    with pytest.raises(Stop, match="apt-get update.* failed: no network"):
        checks.packages_are_newest(ROOT, command)


def test_apt_update_runs_as_root(monkeypatch):
    monkeypatch.setattr(checks.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(checks.shutil, "which", lambda name: f"/usr/bin/{name}")
    called = []

    def command(arguments, **options):
        called.append(list(arguments[:3]))
        return apt("Listing...\n")(arguments, **options)
    checks.packages_are_newest(ROOT, command)
    assert called[0] == ["sudo", "apt-get", "update"]
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    with pytest.raises(Stop, match="install sudo"):
        checks.packages_are_newest(ROOT, command)


@pytest.fixture
def signed(tmp_path, key):
    """(folder of a signed release, the public keys to trust)"""
    folder = tmp_path / "dist"
    (folder / "sbom").mkdir(parents=True)
    (folder / "lockstep.tar.gz").write_bytes(b"programs")
    (folder / "sbom/lockstep.spdx.json").write_text("{}")
    sums.write(folder)
    sums.sign(folder, key)
    signers = tmp_path / "signers"
    shutil.copy(folder / sums.SIGNERS, signers)
    return folder, signers


def verify(folder, signers):
    return release(ROOT, "--verify", folder, "--signers", signers)


def test_signed_release_is_verified_offline(signed):
    folder, signers = signed
    done = subprocess.run(["unshare", "--net", "--map-root-user", ROOT / "tools/release", "--verify", folder,
                           "--signers", signers], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder,
                            capture_output=True, text=True)
    assert listed.returncode == 0, listed.stderr


@pytest.mark.parametrize(("tamper", "said"), [
    (lambda folder: (folder / "lockstep.tar.gz").write_bytes(b"Programs"), "lockstep.tar.gz is not what was"),
    (lambda folder: (folder / "lockstep.tar.gz").unlink(), "lockstep.tar.gz is missing"),
    (lambda folder: (folder / "more.tar.gz").write_bytes(b"x"), "more.tar.gz is not in SHA256SUMS"),
    (lambda folder: (folder / "SHA256SUMS.sig").unlink(), "SHA256SUMS.sig is missing"),
    (lambda folder: (folder / "link").symlink_to("/etc/passwd"), "is a link or a device"),
])
def test_tampered_release_is_refused(signed, tamper, said):
    folder, signers = signed
    tamper(folder)
    done = verify(folder, signers)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_sums_made_anew_without_the_key_are_refused(signed):
    folder, signers = signed
    (folder / "lockstep.tar.gz").write_bytes(b"other")
    sums.write(folder)
    done = verify(folder, signers)
    assert done.returncode == 1 and "ssh-keygen verify failed" in done.stderr


def test_signature_by_another_key_or_for_another_purpose_is_refused(signed, tmp_path, key):
    folder, signers = signed
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    sums.sign(folder, other)
    assert verify(folder, signers).returncode == 1
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", "git", folder / "SHA256SUMS"],
                   check=True, input=b"y\n", capture_output=True)
    assert verify(folder, signers).returncode == 1


def test_verification_takes_no_key_from_the_release_itself(signed):
    folder, _ = signed
    done = release(ROOT, "--verify", folder)
    assert done.returncode == 2 and "--verify needs --signers" in done.stderr


def test_provenance_names_commit_wheels_and_every_file(tree, key, tmp_path):
    assert release(tree, "0.2.0", "--only", "tree").returncode == 0
    made = steps.Release("0.2.0", tmp_path / "dist", key, root=tree, here=True)
    made.dist.mkdir()
    (made.dist / "a.whl").write_text("x")
    steps.describe(made)
    steps.sign(made)
    statement = provenance.json.loads((made.dist / "provenance.json").read_text())
    assert [each["name"] for each in statement["subject"]] == ["a.whl"]
    (made.dist / "b.whl").write_text("later")
    with pytest.raises(Stop, match="run the step `provenance` again"):
        steps.sign(made)
    (made.dist / "install.sh").write_text("release_key='ssh-ed25519 AAAA'")
    with pytest.raises(Stop, match="trusts another key"):
        steps.sign(made)
    source, *others = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"]["gitCommit"] == checks.git(made.tree, "rev-parse", "HEAD")
    wheels = [each["name"] for each in others if "digest" in each]
    assert wheels == 2 * ["nvidia-cublas"] + 2 * ["nvidia-nccl-cu13"]  # of two architectures
    assert "provenance.json" in (made.dist / sums.SUMS).read_text()
