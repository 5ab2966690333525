"""SHA256SUMS of a folder, and its signature by ssh-keygen. Both are checked without a network."""

import hashlib
import pathlib
import re
import subprocess

from checks import Stop

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
SIGNERS = "allowed_signers"
NAMESPACE = "lockstep-release"  # a signature of another namespace does not count
IDENTITY = "lockstep-release"
PATIENCE = 60


def _digest(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder):
    """Names below `folder`, but for those that this module writes."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise Stop(f"{path} is a link or a device; a release holds files only")
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
                  and path.relative_to(folder).as_posix() not in (SUMS, SIGNATURE, SIGNERS))


def write(folder):
    """Lists every file in the format of sha256sum."""
    names = _files(folder)
    if not names:
        raise Stop(f"{folder} is empty: nothing to release")
    bad = [name for name in names if re.search(r"[\\\n\r]", name)]
    if bad:
        raise Stop(f"{bad[0]!r} has a name that SHA256SUMS cannot hold")
    (folder / SUMS).write_text("".join(f"{_digest(folder / name)}  {name}\n" for name in names))


def sign(folder, key):
    """Signs SHA256SUMS by an SSH key, and writes the key's public half to allowed_signers."""
    public = pathlib.Path(f"{key}.pub")
    if not public.is_file():
        raise Stop(f"{public} is missing: it is the public half of the key")
    (folder / SIGNATURE).unlink(missing_ok=True)
    _run("-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(folder / SUMS))
    kind, text = public.read_text().split()[:2]
    (folder / SIGNERS).write_text(f'{IDENTITY} namespaces="{NAMESPACE}" {kind} {text}\n')


def verify(folder, signers):
    """Raises Stop unless `signers` signed the sums, every file has its sum, and no file is missing or
    unlisted."""
    for name in (SUMS, SIGNATURE):
        if not (folder / name).is_file():
            raise Stop(f"{folder / name} is missing")
    text = (folder / SUMS).read_bytes()
    _run("-Y", "verify", "-f", str(signers), "-I", IDENTITY, "-n", NAMESPACE, "-s",
         str(folder / SIGNATURE), given=text)
    listed = {}
    for line in text.decode().splitlines():
        entry = re.fullmatch(r"([0-9a-f]{64})  ([^/].*)", line)
        if not entry or ".." in pathlib.PurePosixPath(entry[2]).parts:
            raise Stop(f"{SUMS} has the line {line!r}, which is not `SUM  FILE`")
        listed[entry[2]] = entry[1]
    found = set(_files(folder))
    for name in sorted({*listed, *found}):
        if name not in found:
            raise Stop(f"{name} is missing")
        if name not in listed:
            raise Stop(f"{name} is not in {SUMS}")
        if _digest(folder / name) != listed[name]:
            raise Stop(f"{name} is not what was signed")


def _run(*arguments, given=None):
    # Without a terminal it asks for no passphrase: ssh-agent holds a key that has one.
    done = subprocess.run(["ssh-keygen", *arguments], input=given or b"", capture_output=True,
                          timeout=PATIENCE, start_new_session=True)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise Stop(f"ssh-keygen {arguments[1]} failed: {said}")
