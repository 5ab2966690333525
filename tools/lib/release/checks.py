"""What must be true before a release begins. Each check raises Stop with what to do."""

import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import version as versions

PATIENCE = 600  # seconds for apt


class Stop(Exception):
    """Why there is no release, and what to do."""


def git(root, *arguments):
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise Stop(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.rstrip()


def tag_of(version):
    return f"v{version}"


def version_is_next(root, version):
    """VERSION is well formed, its tag is free, and no release is newer."""
    if not versions.is_version(version):
        raise Stop(f"'{version}' is no version: write MAJOR.MINOR.PATCH, such as 0.2.0 (SemVer). CMake's "
                   f"VERSION takes no pre-release")
    released = [tag.removeprefix("v") for tag in git(root, "tag", "--list", "v*").splitlines()]
    if version in released:
        raise Stop(f"the tag {tag_of(version)} is used; a release never changes, so take the next version")
    newer = [each for each in released if versions.is_version(each) and _order(each) > _order(version)]
    if newer:
        raise Stop(f"{max(newer, key=_order)} is released and newer than {version}")
    if _order(version) < _order(versions.current(root)):
        raise Stop(f"the tree has version {versions.current(root)}, which is newer than {version}")


def _order(version):
    return [int(part) for part in version.split(".")]


def tree_is_clean(root):
    """Everything is committed."""
    changed = git(root, "status", "--porcelain").splitlines()
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise Stop(f"not committed: {', '.join(line[3:] for line in changed[:5])}{more}; commit or "
                   f"remove them")


def versions_agree(root):
    """Every place names the version of CMakeLists.txt."""
    try:
        differing = versions.differing(root)
    except versions.Wrong as wrong:
        raise Stop(str(wrong)) from wrong
    if differing:
        raise Stop("; ".join(differing) + ": run tools/lib/version.py --set VERSION")


def changelog_is_ready(root, version):
    """CHANGELOG.md has a section for VERSION that is not released and not empty."""
    _section((root / "CHANGELOG.md").read_text(), version)


def _section(text, version):
    head = re.search(rf"^## {re.escape(version)} \(unreleased\)$", text, re.MULTILINE)
    if not head:
        raise Stop(f"CHANGELOG.md has no section `## {version} (unreleased)`: write what a user notices")
    body = re.split(r"^## ", text[head.end():], maxsplit=1, flags=re.MULTILINE)[0]
    if not re.search(r"^- \S", body, re.MULTILINE):
        raise Stop(f"CHANGELOG.md lists nothing under {version}")
    return head, body


def date_changelog(root, version, day=None):
    """`(unreleased)` becomes the day, today's by default."""
    path = root / "CHANGELOG.md"
    text = path.read_text()
    head, _ = _section(text, version)
    day = day or datetime.datetime.now(datetime.timezone.utc).date()
    path.write_text(f"{text[:head.start()]}## {version} ({day.isoformat()}){text[head.end():]}")


def notes(root, version):
    """The section of VERSION, without its head."""
    text = (root / "CHANGELOG.md").read_text()
    head = rf"^## {re.escape(version)} \([^)\n]*\)$"
    found = re.search(rf"{head}(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise Stop(f"CHANGELOG.md has no section {version}")
    return found[1].strip() + "\n"


def outdated(said, wanted):
    """[(package, installed, newest)] of `wanted` in what `apt list --upgradable` said."""
    found = re.findall(r"^([^/\s]+)/\S+ (\S+) \S+ \[upgradable from: (\S+)\]$", said, re.MULTILINE)
    return sorted((name, installed, newest) for name, newest, installed in found if name in wanted)


def as_root():
    """The words before a command that needs root."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        raise Stop("apt-get update needs root: run this as root, or install sudo")
    return ["sudo"]


def packages_are_newest(root, command=subprocess.run):
    """The packages that builds use are the newest that the machine's APT sources have."""
    def said(*arguments):
        done = command(arguments, capture_output=True, text=True, timeout=PATIENCE,
                       env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            raise Stop(f"{' '.join(arguments[:3])} failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    said(*as_root(), "apt-get", "update", "-q", "-o", "Acquire::Retries=3")
    named = said(str(root / "tools/deps"), "--list").split()
    needed = said("apt-cache", "depends", "--recurse", "--installed", "--no-recommends", "--no-suggests",
                  "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances", *named)
    wanted = {*named, *re.findall(r"^(?:[ |]*(?:Pre)?Depends: )?([a-z0-9][a-z0-9.+-]+)(?::\w+)?$",
                                  needed, re.MULTILINE)}
    old = outdated(said("apt", "list", "--upgradable"), wanted)
    old.sort(key=lambda each: each[0] not in named)  # those that the build names itself first
    if old:
        lines = ", ".join(f"{name} {installed} (newest {newest})" for name, installed, newest in old[:12])
        more = f" and {len(old) - 12} more" if len(old) > 12 else ""
        raise Stop(f"{len(old)} packages of the build are not the newest: {lines}{more}. Static programs "
                   f"would keep their faults: run `apt-get upgrade`, or release on a new Debian 12")
