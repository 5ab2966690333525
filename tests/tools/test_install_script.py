"""install.sh: what it installs, what it refuses, and what it leaves behind when it fails."""

import functools
import hashlib
import http.server
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import threading

import pytest
from paths import ROOT

SCRIPT = ROOT / "install.sh"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
FILES = ["bin/lockstep", "bin/lockstep-agent", "share/man/man1/lockstep.1.gz"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A folder with two pairs of keys: release and other."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("release", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder


class Release:
    """A folder with signed tarballs, of small shell scripts in place of programs."""

    def __init__(self, folder, key):
        self.folder, self.key = folder, key
        folder.mkdir()

    def add(self, version, files=FILES, size=0):
        top = f"lockstep-{version}-linux-{ARCH}"
        with tarfile.open(self.folder / f"{top}.tar.gz", "w:gz") as tar:
            for name in files:
                data = f'#!/bin/sh\necho "{name} {version}"\n'.encode() + os.urandom(size)
                entry = tarfile.TarInfo(f"{top}/{name}")
                entry.size, entry.mode = len(data), 0o755
                tar.addfile(entry, io.BytesIO(data))
        return self.sign()

    def sign(self):
        sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
                       for path in sorted(self.folder.glob("*.tar.gz")))
        (self.folder / "SHA256SUMS").write_text(sums)
        (self.folder / "SHA256SUMS.sig").unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "lockstep-release", "-f", self.key,
                        self.folder / "SHA256SUMS"], check=True, stderr=subprocess.DEVNULL)
        return self

    def tarball(self):
        return next(self.folder.glob("*.tar.gz"))


@pytest.fixture
def release(tmp_path, keys):
    return Release(tmp_path / "release", keys / "release").add("1.0")


class Install:
    def __init__(self, keys, prefix):
        self.keys, self.prefix = keys, prefix

    def __call__(self, source, *words, before=()):
        if isinstance(source, Release):
            source = source.folder
        return subprocess.run([*before, "sh", SCRIPT, "--from", str(source), "--prefix", self.prefix,
                               "--key", self.keys / "release.pub", *words],
                              capture_output=True, text=True, check=False)

    def version(self):
        return subprocess.check_output([self.prefix / "bin/lockstep"], text=True).split()[-1]

    def paths(self):
        """All that stands under the prefix."""
        return sorted(str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*"))


@pytest.fixture
def install(tmp_path, keys):
    (tmp_path / "prefix").mkdir()
    return Install(keys, tmp_path / "prefix")


def refused(done, *words):
    """Whether it failed with one line that has all words."""
    assert done.returncode == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return True


@pytest.fixture
def serve():
    """serve(folder): the address of a server of its files. Files named in `cut` end half-way."""
    servers = []

    def start(folder, cut=()):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                name = self.path.strip("/")
                if name not in cut:
                    return super().do_GET()
                data = (pathlib.Path(folder) / name).read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[:len(data) // 2])
                self.close_connection = True

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                 functools.partial(Handler, directory=folder))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_release_in_a_folder_is_installed_and_removed(release, install):
    done = install(release)
    assert done.returncode == 0, done.stderr
    assert "installed lockstep 1.0" in done.stderr and "not in PATH" in done.stderr
    assert install.version() == "1.0"
    # The agent is beside the program that a link leads to.
    assert (install.prefix / "bin/lockstep").resolve().with_name("lockstep-agent").exists()
    assert (install.prefix / "share/man/man1/lockstep.1.gz").read_bytes()
    own = install.prefix / "bin/own"
    own.touch()
    removed = subprocess.run(["sh", SCRIPT, "--uninstall", "--prefix", install.prefix], text=True,
                             capture_output=True, check=False)
    assert removed.returncode == 0, removed.stderr
    assert [path for path in install.prefix.rglob("*") if not path.is_dir()] == [own]


@pytest.mark.parametrize("client", ["curl", "wget"])
def test_release_is_downloaded_with_the_client_that_is_there(client, release, install, serve, tmp_path):
    if shutil.which(client) is None:
        pytest.skip(f"no {client} here")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ["sh", "tar", "gzip", "sha256sum", "ssh-keygen", "sed", "uname", "id", "mktemp", "cut",
                 "mkdir", "find", "sort", "mv", "ln", "rm", "rmdir", "readlink", "dirname", "head", "tr",
                 "grep", client]:
        (programs / name).symlink_to(shutil.which(name))
    done = install(serve(release.folder), before=["env", f"PATH={programs}"])
    assert done.returncode == 0, done.stderr
    assert install.version() == "1.0"


def test_key_may_be_a_file_of_allowed_signers(release, install, tmp_path):
    kind, text = (install.keys / "release.pub").read_text().split()[:2]
    signers = tmp_path / "allowed_signers"
    signers.write_text(f'lockstep-release namespaces="lockstep-release" {kind} {text}\n')
    assert install(release, "--key", signers).returncode == 0
    signers.write_text("somebody " + signers.read_text())
    assert refused(install(release, "--key", signers), "is no public key")


def test_upgrade_keeps_the_version_before_it_and_drops_links_without_a_file(release, install):
    install(release)
    release.tarball().unlink()
    assert install(release.add("1.1", [*FILES, "bin/new"])).returncode == 0
    assert install.version() == "1.1" and (install.prefix / "bin/new").exists()
    release.tarball().unlink()
    assert install(release.add("1.2")).returncode == 0
    assert install.version() == "1.2" and not (install.prefix / "bin/new").is_symlink()
    kept = sorted(path.name[:3] for path in (install.prefix / "lib/lockstep").iterdir())
    assert kept == ["1.1", "1.2"]


def test_version_that_is_installed_again_is_repaired_and_the_one_before_it_stays(release, install):
    install(release)
    release.tarball().unlink()
    install(release.add("1.1"))
    (install.prefix / "bin/lockstep").resolve().write_text("broken")
    assert install(release).returncode == 0
    assert install.version() == "1.1"
    kept = sorted(path.name[:3] for path in (install.prefix / "lib/lockstep").iterdir())
    assert kept == ["1.0", "1.1"]


def test_release_of_several_versions_needs_a_choice(release, install):
    release.add("1.1")
    assert refused(install(release), "several versions", "--version", "lockstep-1.1-linux")
    assert install(release, "--version", "1.0").returncode == 0
    assert install.version() == "1.0"
    assert refused(install(release, "--version", "9.9"), "has no Lockstep 9.9")


def tamper_file(release, keys):
    data = bytearray(release.tarball().read_bytes())
    data[-20] ^= 1
    release.tarball().write_bytes(data)


def tamper_sums(release, keys):
    tamper_file(release, keys)
    data = release.tarball().read_bytes()
    (release.folder / "SHA256SUMS").write_text(
        f"{hashlib.sha256(data).hexdigest()}  {release.tarball().name}\n")


def sign_by_another(release, keys):
    release.key = keys / "other"
    release.sign()


def sign_for_another_purpose(release, keys):
    (release.folder / "SHA256SUMS.sig").unlink()
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", release.key,
                    release.folder / "SHA256SUMS"], check=True, stderr=subprocess.DEVNULL)


def drop_signature(release, keys):
    (release.folder / "SHA256SUMS.sig").unlink()


def drop_tarball(release, keys):
    release.tarball().unlink()


@pytest.mark.parametrize("break_it, words", [
    (tamper_file, ["does not have the checksum", ".tar.gz"]),
    (tamper_sums, ["good signature"]),
    (sign_by_another, ["good signature"]),
    (sign_for_another_purpose, ["good signature"]),
    (drop_signature, ["has no SHA256SUMS.sig"]),
    (drop_tarball, ["has no lockstep-1.0"]),
], ids=lambda value: getattr(value, "__name__", ""))
def test_broken_release_is_refused_and_leaves_nothing(break_it, words, release, install, keys):
    break_it(release, keys)
    assert refused(install(release), *words)
    assert install.paths() == []


@pytest.mark.parametrize("name", ["SHA256SUMS", "TARBALL"])
def test_interrupted_download_leaves_nothing(name, release, install, serve):
    name = release.tarball().name if name == "TARBALL" else name
    done = install(serve(release.folder, cut=[name]))
    assert done.returncode == 1 and f"{name} failed; nothing was installed" in done.stderr
    assert install.paths() == []


def test_missing_file_of_a_server_is_named(release, install, serve):
    (release.folder / "SHA256SUMS.sig").unlink()
    done = install(serve(release.folder))
    assert done.returncode == 1 and "SHA256SUMS.sig failed" in done.stderr


def test_file_of_another_origin_is_never_overwritten(release, install):
    other = install.prefix / "bin/lockstep-agent"
    other.parent.mkdir()
    other.write_text("mine")
    assert refused(install(release), "bin/lockstep-agent was not installed by this script")
    assert install.paths() == ["bin", "bin/lockstep-agent"]
    assert other.read_text() == "mine"


def test_failure_between_two_links_restores_the_version_before(release, install):
    install(release)
    before = install.paths()
    release.tarball().unlink()
    release.add("1.1", [*FILES, "share/zsh/site-functions/_lockstep"])
    (install.prefix / "share/zsh").write_text("a file where a folder must be")
    done = install(release)
    assert done.returncode == 1 and "cannot write the link" in done.stderr
    (install.prefix / "share/zsh").unlink()
    assert install.paths() == before and install.version() == "1.0"


def stand_in(folder, name, script):
    """A program `name` that runs `script` before the real one. `once` succeeds the first time only,
    because undo() calls the same programs; `stop` is a Ctrl-C: it ends program and install.sh."""
    folder.mkdir()
    program = folder / name
    program.write_text(f'#!/bin/sh\nonce() {{ mkdir {folder}/used 2>/dev/null; }}\n'
                       f'stop() {{ trap "" TERM; kill -TERM 0; exit 143; }}\n{script}\nexec {shutil.which(name)} "$@"\n')
    program.chmod(0o755)
    return ["setsid", "--wait", "env", f"PATH={folder}:{os.environ['PATH']}"]


REPLACES = 'case "$2" in */replaced)'
PLACES = 'case "$2" in */lib/lockstep/[0-9]*)'
MOVE = f'{shutil.which("mv")} "$@"'


@pytest.mark.parametrize("name, script", [
    ("mv", f"{REPLACES} exit 1 ;; esac"),
    ("mv", f"{REPLACES} stop ;; esac"),
    ("mv", f"{REPLACES} {MOVE}; stop ;; esac"),
    ("mv", f"{PLACES} once && stop ;; esac"),
    ("mv", f"{PLACES} once && {{ {MOVE}; stop; }} ;; esac"),
    ("readlink", '! ls "${1%/bin/*}"/lib/lockstep/.install.*/links 2>/dev/null || ! once || stop'),
    ("ln", "! once || stop"),
], ids=["cannot replace", "before it replaces", "after it replaced", "before it places", "after it placed",
        "reading a link", "making a link"])
@pytest.mark.parametrize("again", [False, True], ids=["upgrade", "same version"])
def test_failure_or_signal_at_any_step_keeps_what_was_installed(name, script, again, release, install, tmp_path):
    install(release)
    before = install.paths()
    if not again:
        release.tarball().unlink()
        release.add("1.1")
    done = install(release, before=stand_in(tmp_path / "programs", name, script))
    if not again and REPLACES in script:
        assert done.returncode == 0 and install.version() == "1.1"  # an upgrade replaces nothing
        return
    assert done.returncode != 0
    assert install.paths() == before and install.version() == "1.0"


def test_link_in_a_folder_that_is_elsewhere_is_refused(release, install, tmp_path):
    (tmp_path / "far/away").mkdir(parents=True)
    (install.prefix / "bin").symlink_to(tmp_path / "far/away")
    assert refused(install(release), "bin/lockstep", "link to elsewhere", "--prefix")
    assert list((tmp_path / "far/away").iterdir()) == []


def test_prefix_without_space_keeps_what_it_had(release, install):
    """On a file system of 2 MB, in namespaces of the test's own."""
    release.tarball().unlink()
    release.add("1.1", size=4 << 20)
    done = install(release, before=["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                                    f"mount -t tmpfs -o size=2m none {install.prefix} && "
                                    f"touch {install.prefix}/own && \"$@\"; code=$?; "
                                    f"ls -A {install.prefix}; exit $code", "sh"])
    assert refused(done, "cannot unpack", "may be full")
    assert done.stdout.split() == ["own"]


def test_prefix_that_cannot_be_written_is_named(release, install):
    """A read-only file system: modes do not stop root."""
    done = install(release, before=["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                                    f"mount -t tmpfs -o ro none {install.prefix} && \"$@\"", "sh"])
    assert refused(done, f"cannot write to {install.prefix}", "--prefix")


@pytest.mark.parametrize("words, answer", [
    (["--frm", "x"], "unknown argument '--frm'"),
    (["--from"], "--from needs a value"),
    ([], "where the release is"),
    (["--from", "."], "name one with --key"),
])
def test_wrong_usage_is_explained(words, answer, release, tmp_path):
    done = subprocess.run(["sh", SCRIPT, "--prefix", tmp_path, *words], cwd=release.folder,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and answer in done.stderr and "--help" in done.stderr


def test_uninstall_without_an_installation_says_so(tmp_path):
    done = subprocess.run(["sh", SCRIPT, "--uninstall", "--prefix", tmp_path], capture_output=True,
                          text=True, check=False)
    assert refused(done, "installed nothing under")


def test_script_that_arrived_in_part_does_nothing(release, install, tmp_path):
    text = SCRIPT.read_text()
    part = tmp_path / "part.sh"
    part.write_text(text[:text.rindex("main")])
    done = subprocess.run(["sh", part, "--from", release.folder, "--prefix", install.prefix], text=True,
                          capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert install.paths() == []
