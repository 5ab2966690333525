"""A real object store that speaks S3, over a folder: the Versity S3 Gateway.

    with ObjectStore(folder) as store:
        run(..., env={**os.environ, **store.variables})

LOCKSTEP_TEST_MINIO names a program of MinIO's server to take in its place.
"""

import contextlib
import os
import pathlib
import ssl
import subprocess
import urllib.error
import urllib.request

import parts
from ports import free_port
from waiting import wait_until

KEY, SECRET = "key-of-a-test", "secret-of-a-test"


def program():
    """lockstep-s3; LOCKSTEP_TEST_S3 names another one."""
    return pathlib.Path(os.environ.get("LOCKSTEP_TEST_S3") or parts.build("s3", print) / "lockstep-s3")


class ObjectStore:
    """`bucket` is the folder of the bucket's objects, under their keys."""

    def __init__(self, folder, certificate=None, key=None):
        """`certificate` and `key`: PEM files; the store then speaks HTTPS."""
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.bucket = self.data / "bucket"
        self.log = self.folder / "store.log"
        self.url = "s3://bucket/run"
        self.address = ("127.0.0.1", free_port())
        self._certificate = ["--cert", certificate, "--key", key] if certificate else []
        self.endpoint = ("https" if certificate else "http") + "://%s:%d" % self.address
        self._process = None

    @property
    def variables(self):
        """What a client needs in its environment."""
        path = f"{program().parent}:{os.environ['PATH']}"
        return {"PATH": path, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": self.endpoint}

    def __enter__(self):
        self.bucket.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Also after stop(): the objects are still there."""
        host, port = self.address
        if minio := os.environ.get("LOCKSTEP_TEST_MINIO"):
            command = [minio, "server", "--address", f"{host}:{port}", self.data]
            secrets = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
        else:
            metadata = self.folder / "metadata"
            metadata.mkdir(exist_ok=True)
            command = [parts.build("objects", print) / "versitygw", "--port", f"{host}:{port}", "--quiet", *self._certificate,
                       "posix", "--sidecar", metadata, self.data]
            secrets = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with self.log.open("a") as log:
            self._process = subprocess.Popen(command, env={**os.environ, **secrets},
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, lambda: f"the object store: {self.log.read_text()[-2000:]}")

    def stop(self):
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = None

    def keys(self, below=""):
        """The objects below a key, as the gateway keeps them: one file each."""
        folder = self.bucket / "run" / below
        return sorted(str(path.relative_to(self.bucket / "run"))
                      for path in folder.rglob("*") if path.is_file())

    def _answers(self):
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        with contextlib.suppress(urllib.error.HTTPError):
            try:
                urllib.request.urlopen(self.endpoint, timeout=5, context=ssl._create_unverified_context()).close()
            except (urllib.error.URLError, OSError) as error:
                return isinstance(error, urllib.error.HTTPError)
        return True
