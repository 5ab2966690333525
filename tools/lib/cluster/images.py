"""An image made by hand: Debian's static busybox, which by default only sleeps.

It is every pod's sandbox, and what tests run when they need no more than a shell.
"""

import hashlib
import io
import json
import pathlib
import tarfile

from architecture import ARCHITECTURE

BUSYBOX = "lockstep.test/busybox:1"
APPLETS = ["sh", "sleep", "cat", "echo", "wget", "timeout", "nslookup", "httpd", "ls", "touch",
           "kill"]


def write_busybox(archive):
    """A docker-archive."""
    layer = _tar([("bin/busybox", pathlib.Path("/bin/busybox").read_bytes())],
                 [(f"bin/{applet}", "busybox") for applet in APPLETS])
    config = json.dumps({
        "architecture": ARCHITECTURE, "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }).encode()
    manifest = [{"Config": "config.json", "RepoTags": [BUSYBOX], "Layers": ["layer.tar"]}]
    pathlib.Path(archive).write_bytes(_tar([
        ("manifest.json", json.dumps(manifest).encode()), ("config.json", config),
        ("layer.tar", layer)]))


def _tar(files, links=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()
