"""A container image unpacked from its docker-archive, and its programs run in it as a pod would run
them: nobody's user, no capability, a root file system that cannot be written.

    image = Image("operator.tar", folder)
    image.run("/lockstep-operator", "--version").stdout
"""

import json
import os
import pathlib
import shutil
import subprocess
import tarfile

SCRIPT = pathlib.Path(__file__).parent / "image_root.sh"
REMOVED = ".wh."  # how a layer says that a file of those below it is gone


class Image:
    def __init__(self, archive, folder):
        self.root = pathlib.Path(folder) / "root"
        self.root.mkdir()
        with tarfile.open(archive) as tar:
            (manifest,) = json.load(tar.extractfile("manifest.json"))
            self.name = manifest["RepoTags"][0]
            self.config = json.load(tar.extractfile(manifest["Config"]))["config"]
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=tar.extractfile(layer)) as files:
                    self._unpack(files)

    def _unpack(self, files):
        kept = []
        for entry in files:
            path = pathlib.PurePosixPath(entry.name)
            if path.name.startswith(REMOVED):
                gone = self.root / path.parent / path.name.removeprefix(REMOVED)
                shutil.rmtree(gone) if gone.is_dir() else gone.unlink(missing_ok=True)
            elif not entry.isdev():
                kept.append(entry)
        # Later layers hold whole files: what stands there is another's.
        for entry in kept:
            if not entry.isdir():
                (self.root / entry.name).unlink(missing_ok=True)
        files.extractall(self.root, kept, numeric_owner=True)

    def start(self, *command, environment=None, mounts=(), **options):
        """A process of the image's own user, which finds the folders `mounts` at the same path."""
        user = self.config["User"]
        assert user.replace(":", "").isdigit(), f"{user!r} is not a numeric user"
        given = dict(variable.split("=", 1) for variable in self.config.get("Env") or [])
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", SCRIPT, self.root, user,
             " ".join(map(str, mounts)), *map(str, command)],
            env={"PATH": os.environ["PATH"], "IMAGE_ENVIRONMENT": "\n".join(
                f"{name}={value}" for name, value in {**given, **(environment or {})}.items())},
            stdin=subprocess.DEVNULL, text=True, **options)

    def run(self, *command, patience=120, **options):
        """The finished process, with its output."""
        process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=patience)
        return subprocess.CompletedProcess(command, process.returncode, out, err)
