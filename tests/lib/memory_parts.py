"""Parts of checkpoints that an agent holds in memory, as they come and go."""

import os
import pathlib
import re


def held(folder):
    """[(machine, step, files and folders in it)] of an agent's run folder."""
    # os.walk passes over what is removed meanwhile.
    whole = [(pathlib.Path(path), folders) for path, folders, _ in os.walk(folder / "memory")]
    return sorted((path.name, part.rpartition("-")[2], _size(path / part))
                  for path, folders in whole for part in folders
                  if re.fullmatch(r"[0-9]+-[0-9]+", path.parent.name)
                  and path.parent.parent == folder / "memory")


def _size(part):
    return sum(len(folders) + len(files) for _, folders, files in os.walk(part))
