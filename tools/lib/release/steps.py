"""The steps of a release. Each is a function of a Release, and can run again by itself."""

import dataclasses
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import typing

import checks
import image
import image_signature
import provenance
import sums
import tested
import version as versions
from checks import Stop

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep"
PATIENCE = 3 * 3600  # seconds for a command; a cold build for two architectures is the longest
_PROGRAMS = ["lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "kubectl-lockstep", "lockstep-operator",
             "lockstep-trainer"]
SHIPPED = {"amd64": _PROGRAMS, "arm64": _PROGRAMS}
PRESETS = {"amd64": "release", "arm64": "release-arm64"}
ROOTS = ["bullseye", "trixie", "bionic", "jammy", "noble"]  # of tools/lib/release/root
# What the steps in the fresh Debian need beside the programs' own needs.
FRESH = ["git", "python3", "python3-yaml", "python3-venv"]
TESTS = ["tests/tools/test_shipped.py", "tests/tools/test_version.py", "tests/tools/test_sbom.py"]


class Release:
    """What the steps share."""

    def __init__(self, version, out=None, key=None, url=None, home=None, architectures=None, root=versions.ROOT,
                 here=False, left_out=(), image_key=None):
        self.root = root
        self.here = here  # programs are built on this machine, and not in a fresh Debian
        self.left_out = list(left_out)  # names of steps
        self.architectures = architectures or list(SHIPPED)
        self.version = version
        self.url = url  # of the files
        self.home = home  # of the project
        self.key = key.resolve() if key else None
        self.image_key = image_key.resolve() if image_key else None
        self.dist = (out or root / "dist").resolve()
        self.work = root / "build/releases" / version
        self.tree = self.work / "tree"
        self.cache = self.work / "cache"
        # Beside the folder that it sees of this machine.
        self.debian = root / "build/releases" / f"{version}-debian"
        # Another depth, so that no path of either tree can be in both trees' programs.
        self.again = self.work / "again/in/another/folder"

    def run(self, *command, folder=None, **variables):
        subprocess.run([str(each) for each in command], cwd=folder or self.tree, check=True,
                       timeout=PATIENCE, env={**self._environment(), **variables})

    def _environment(self):
        return {**os.environ, **self._settings()}

    def _settings(self):
        return {"SOURCE_DATE_EPOCH": self.epoch(), "LC_ALL": "C.UTF-8"}

    def run_for_build(self, *command, folder=None, **variables):
        """As run(), where the programs are built: in the fresh Debian, or here."""
        if self.here:
            self.run(*command, folder=folder, **variables)
            return
        self.run(*self.in_debian(folder or self.tree, self._settings() | variables), *command, folder=self.root)

    def ask_build(self, *command):
        """What a command said, where the programs are built."""
        before = [] if self.here else self.in_debian("/", {})
        done = subprocess.run([str(each) for each in [*before, *command]], capture_output=True, text=True,
                              timeout=PATIENCE)
        if done.returncode:
            raise Stop(f"{' '.join(map(str, command[:3]))} failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    def in_debian(self, folder, variables):
        """The words before a command that runs in `folder`, in the fresh Debian."""
        if not self.debian.is_dir():
            raise Stop(f"{self.debian} is missing: run the step `machine` first, or give --here")
        binds = []
        for path in (self.work, self.dist, pathlib.Path(_ccache())):
            path.mkdir(parents=True, exist_ok=True)
            binds += ["--bind", path]
        return [self.root / "tools/lib/debian-tree", "run", *binds, "--in", folder, self.debian, "env",
                *(f"{name}={value}" for name, value in variables.items())]

    def epoch(self):
        folder = self.tree if self.tree.is_dir() else self.root
        return checks.git(folder, "log", "-1", "--format=%ct")

    def url_options(self):
        return ["--url", self.url] if self.url else []

    def home_options(self):
        return ["--home", self.home] if self.home else []

    def public_key(self):
        """The file of the key's public half. The key itself is read by `sign` and `tag` only."""
        if not self.key:
            raise Stop("--key FILE is missing: a release is signed")
        path = pathlib.Path(f"{self.key}.pub")
        if not path.is_file() or len(path.read_text().split()) < 2:
            raise Stop(f"{path} is no public key: it is the public half of --key, as ssh-keygen writes it")
        return path

    def needs_tree(self):
        if not (self.tree / ".git").exists():
            raise Stop(f"{self.tree} is missing: run the step `tree` first")

    def arch_options(self):
        return [word for architecture in self.architectures for word in ("--arch", architecture)]

    def build_folder(self, architecture):
        """In a tree."""
        return pathlib.Path("build", PRESETS[architecture])


def check(release):
    checks.version_is_next(release.root, release.version)
    checks.tree_is_clean(release.root)
    checks.versions_agree(release.root)
    checks.changelog_is_ready(release.root, release.version)
    release.public_key()
    if "amd64" not in release.architectures:
        raise Stop("--arch arm64 alone makes no release: the tests, NOTICE and manual pages need the programs "
                   "for amd64; add --arch amd64")
    if release.dist.exists() and any(release.dist.iterdir()):
        raise Stop(f"{release.dist} is not empty: a release holds nothing of an earlier one")


def passed(release):
    """The release's own commit changes nothing but the version, so the tests of its parent count."""
    commit = checks.git(release.root, "rev-parse", "HEAD")
    wanted = [*tested.ALL, *(["arm64"] if "arm64" in release.architectures else [])]
    missing = tested.missing(commit, wanted)
    if missing:
        raise Stop(f"of {commit[:12]} no run of these suites is recorded in which all tests passed: run "
                   f"`tools/test {' '.join(missing)}` on that commit, with nothing uncommitted")


def machine(release):
    if release.here:
        if not shutil.which("buildah"):
            raise Stop("buildah is missing, which makes the image: run tools/deps --images")
        checks.packages_are_newest(release.root)
        return
    if os.geteuid() != 0:
        raise Stop("a fresh Debian is made as root: run this as root or, on a new Debian 12, with --here")
    shutil.rmtree(release.debian, ignore_errors=True)
    subprocess.run([release.root / "tools/lib/debian-tree", "make", release.debian], check=True,
                   timeout=PATIENCE)
    release.ask_build("apt-get", "install", "-q", "-y", "--no-install-recommends", *FRESH)


def tree(release):
    shutil.rmtree(release.tree, ignore_errors=True)
    release.work.mkdir(parents=True, exist_ok=True)
    checks.git(release.root, "clone", "-q", "--no-hardlinks", str(release.root), str(release.tree))
    for name in ("user.name", "user.email"):
        checks.git(release.tree, "config", name, checks.git(release.root, "config", name))
    versions.write(release.version, release.tree)
    checks.date_changelog(release.tree, release.version)
    checks.versions_agree(release.tree)
    checks.git(release.tree, "commit", "-qam", f"Release {release.version}")
    _link_venv(release, release.tree)


def _link_venv(release, folder):
    if (release.root / ".venv").exists():
        (folder / ".venv").symlink_to((release.root / ".venv").resolve())


def lint(release):
    release.needs_tree()
    release.run("tools/check")


def build(release):
    release.needs_tree()
    # What tools/deps builds or unpacks is made anew, so that no library is of an earlier day.
    shutil.rmtree(release.cache, ignore_errors=True)
    _build(release, release.tree)
    if not release.here:
        checks.packages_are_newest(release.tree, lambda words, **_: subprocess.CompletedProcess(
            words, 0, release.ask_build(*words)))


def again(release):
    release.needs_tree()
    shutil.rmtree(release.work / "again", ignore_errors=True)
    release.again.parent.mkdir(parents=True)
    checks.git(release.root, "clone", "-q", "--no-hardlinks", str(release.tree), str(release.again))
    _link_venv(release, release.again)
    _build(release, release.again, CCACHE_DISABLE="1")
    differing = different(release)
    if differing:
        raise Stop(f"two builds of the same commit differ: {', '.join(differing)}; compare "
                   f"{release.tree} with {release.again}")


def different(release):
    """The programs whose bytes the two trees do not share."""
    names = [f"{release.build_folder(architecture)}/bin/{name}" for architecture in release.architectures
             for name in SHIPPED[architecture]]
    return [name for name in names if _digest(release.tree / name) != _digest(release.again / name)]


def _build(release, folder, **variables):
    variables = {"XDG_CACHE_HOME": str(release.cache), "CCACHE_DIR": _ccache(), **variables}
    release.run_for_build("tools/deps", "--cross" if "arm64" in release.architectures else "--build",
                          folder=folder, **variables)
    for architecture in release.architectures:
        options = "-DLOCKSTEP_REPRODUCIBLE=ON -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_PMIX=ON -DLOCKSTEP_S3=ON"
        line = (f"source tools/lib/common.sh && cmake --preset {PRESETS[architecture]} {options} >/dev/null && "
                f"cmake --build {release.build_folder(architecture)} --target {shlex.join(SHIPPED[architecture])}")
        release.run_for_build("bash", "-c", line, folder=folder, **variables)


def _ccache():
    """The folder of the user's ccache, which would otherwise follow XDG_CACHE_HOME."""
    done = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True)
    if done.returncode:
        raise Stop("ccache is missing: run tools/deps")
    return done.stdout.strip()


def _digest(path):
    if not path.is_file():
        raise Stop(f"{path} is missing: run the step `build` first")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test(release):
    release.needs_tree()
    python = release.tree / ".venv/bin/python"
    programs = release.tree / release.build_folder("amd64") / "bin"
    release.run(python, "-m", "pytest", "-q", *TESTS, LOCKSTEP_BIN=str(programs))


def upgrade(release):
    release.needs_tree()
    release.run("tools/lib/older")
    where = subprocess.run([release.tree / "tools/lib/older", "--where"], capture_output=True, text=True, check=True)
    programs = release.tree / release.build_folder("amd64") / "bin"
    release.run(release.tree / ".venv/bin/python", "-m", "pytest", "-q",
                "tests/system/api-server/jobs/test_upgrade.py", LOCKSTEP_BIN=str(programs),
                LOCKSTEP_OLDER=where.stdout.strip())


def roots(release):
    release.needs_tree()
    folders = [CACHE / "roots" / name for name in ROOTS]
    for folder in folders:
        folder.parent.mkdir(parents=True, exist_ok=True)
        release.run("tools/lib/release/root", folder.name, folder)
    programs = release.tree / release.build_folder("amd64") / "bin"
    release.run(release.tree / ".venv/bin/python", "-m", "pytest", "-q", "tests/tools/test_roots.py",
                f"--junitxml={release.work / 'roots.xml'}", LOCKSTEP_BIN=str(programs),
                LOCKSTEP_ROOTS=" ".join(map(str, folders)))


def packages(release):
    release.needs_tree()
    key, variables = [], {}
    if release.key:
        # Where the fresh Debian sees it.
        shutil.copy(release.public_key(), release.work / "release.pub")
        key = ["--key", release.work / "release.pub"]
    if not release.here:
        variables = {"XDG_CACHE_HOME": release.cache}
        release.run_for_build("tools/deps", "--images", **variables)
    release.run_for_build("tools/package", "all", "--small", "--cuda", "--no-build", "--out", release.dist,
                          *release.arch_options(), *key, *release.url_options(), *release.home_options(),
                          **variables)
    for name in ("operator", "worker", "worker-cuda"):
        if not image.path(release.dist, release.version, name).is_file():
            raise Stop(f"{release.dist} has no image of {name}: run tools/deps --images, then this step "
                       f"again")


def bill(release):
    release.needs_tree()
    documents = sorted(release.dist.glob("sbom/*/*.spdx.json"))
    if not documents:
        raise Stop(f"{release.dist} has no SPDX documents: run the step `packages` first")
    release.run("tools/deps", "--release")
    for path in documents:
        release.run(CACHE / "release/bin/pyspdxtools", "-i", path)
    shutil.copy(release.tree / "LICENSE", release.dist)
    (release.dist / "RELEASE-NOTES.md").write_text(checks.notes(release.tree, release.version))


def describe(release):
    release.needs_tree()
    if not release.dist.is_dir():
        raise Stop(f"{release.dist} is missing: run the steps before `provenance` first")
    provenance.write(release)


def sign(release):
    public = release.public_key()
    if not (release.dist / provenance.NAME).is_file():
        raise Stop(f"{release.dist / provenance.NAME} is missing: run the steps before `sign` first")
    installer = release.dist / "install.sh"
    if installer.is_file() and " ".join(public.read_text().split()[:2]) not in installer.read_text():
        raise Stop(f"{installer} trusts another key than {public}: run the step `packages` with this --key")
    if not release.image_key and image_signature.images(release.dist):
        print("release: the images are not signed, because --image-key is missing", file=sys.stderr)
    image_signature.sign_all(release.dist, release.image_key, int(release.epoch()))
    sums.write(release.dist)
    if not provenance.is_current(release.dist):
        raise Stop(f"{provenance.NAME} is not about the files in {release.dist}: run the step `provenance` again")
    sums.sign(release.dist, release.key)
    verify(release.dist, release.dist / sums.SIGNERS)


def verify(folder, signers):
    """Raises Stop unless `signers` signed what is in the folder, all of it, and the images too."""
    sums.verify(folder, signers)
    image_signature.verify_all(folder)


def tag(release):
    release.needs_tree()
    name = checks.tag_of(release.version)
    checks.version_is_next(release.root, release.version)
    checks.tree_is_clean(release.root)
    commit = checks.git(release.tree, "rev-parse", "HEAD")
    if checks.git(release.tree, "rev-parse", "HEAD~") != checks.git(release.root, "rev-parse", "HEAD"):
        raise Stop(f"{release.root} has moved since the step `tree`: start the release anew")
    named = {"CHANGELOG.md", *(name for name, _, _ in versions.found(release.tree))}
    others = sorted({*checks.git(release.tree, "diff", "--name-only", "HEAD~").splitlines()} - named)
    if others:
        raise Stop(f"{release.tree} changes {', '.join(others[:5])}, where no version is: start the release anew")
    checks.git(release.root, "fetch", "-q", str(release.tree), commit)
    checks.git(release.root, "merge", "-q", "--ff-only", commit)
    signed = ["-c", "gpg.format=ssh", "-c", f"user.signingkey={release.key}"] if release.key else []
    checks.git(release.root, *signed, "tag", "-s" if signed else "-a", "-m", f"Lockstep {release.version}",
               name, commit)


def push(release):
    branch = checks.git(release.root, "branch", "--show-current")
    checks.git(release.root, "push", "--atomic", "origin", branch, checks.tag_of(release.version))


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    summary: str
    run: typing.Callable


STEPS = [
    Step("check", "VERSION is new, the tree is clean, CHANGELOG.md is ready, a key is named", check),
    Step("passed", "every suite of tools/test passed on this commit, by its record", passed),
    Step("machine", "a fresh Debian 12 of the newest packages; --here: this machine's are the newest", machine),
    Step("tree", "clone, write VERSION into every place, date CHANGELOG.md, commit in the clone", tree),
    Step("lint", "tools/check in the clone", lint),
    Step("build", "the programs of each architecture, with no path of this computer in them", build),
    Step("again", "the programs from another folder without ccache: the same bytes", again),
    Step("test", "tests of what is shipped, on these programs", test),
    Step("upgrade", "jobs run on while an earlier build is upgraded to this one, and back", upgrade),
    Step("roots", "the programs in Debian 11 and 13, Ubuntu 18.04, 22.04 and 24.04, and beside busybox", roots),
    Step("packages", "all that tools/package makes: packages, images, the chart, NOTICE, SPDX documents", packages),
    Step("bill", "the SPDX documents checked, LICENSE, and the notes of CHANGELOG.md", bill),
    Step("provenance", "how each file was made, and of which packages", describe),
    Step("sign", "the images by --image-key, SHA256SUMS by --key; both are checked", sign),
    Step("tag", "the commit and a signed tag, in this tree", tag),
    Step("push", "branch and tag to origin, together", push),
]
