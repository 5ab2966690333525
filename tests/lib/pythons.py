"""The Pythons of this computer: on PATH, of tools/deps --pythons and of pyenv."""

import contextlib
import functools
import os
import pathlib
import shutil
import subprocess

PYENV = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()


def _candidates():
    yield from os.environ.get("LOCKSTEP_PYTHONS", "").split()
    yield "/usr/bin/python3"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    for minor in range(8, 15):
        yield from filter(None, [shutil.which(f"python3.{minor}")])
        yield from map(str, cache.glob(f"lockstep/pythons/3.{minor}.*/bin/python3.{minor}"))
        yield from sorted(map(str, PYENV.glob(f"versions/3.{minor}.*/bin/python3")))


@functools.cache
def pythons():
    """One Python of each minor version found here, by its version."""
    found = {}
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for path in _candidates():
        with contextlib.suppress(OSError):
            words = [path, "-c", ask]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            # What finds no such version (pyenv's stand-ins) says so and nothing else.
            if done.returncode == 0:
                found.setdefault(done.stdout.strip(), path)
    return found
