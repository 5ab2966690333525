"""A rank that writes what it was given, as JSON, to a file of its own in the folder DESCRIBE_TO."""

import json
import os
import pathlib
import resource
import sys

LIMITS = ("NOFILE", "STACK", "CORE", "MEMLOCK", "NPROC")

if __name__ == "__main__":
    umask = os.umask(0)
    os.umask(umask)
    folder = pathlib.Path(os.environ["DESCRIBE_TO"])
    # Two machines may give the same number to a process.
    (folder / f"{os.urandom(8).hex()}.json").write_text(json.dumps({
        "arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(),
        "umask": umask, "executable": os.path.realpath(sys.executable),
        "limits": {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
                   for name in LIMITS}}))
