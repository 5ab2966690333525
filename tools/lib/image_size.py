#!/usr/bin/env python3
"""Prints what a docker-archive holds: image_size.py ARCHIVE [BASE_DIGEST...]

One line: name, archive, size of all layers as registries keep them (gzip), and of those that are
not among the base's, whose digests (sha256:...) are given.
"""

import json
import sys
import tarfile
import zlib


def compressed_size(file):
    gzip = zlib.compressobj(6, wbits=31)
    size = 0
    while block := file.read(1 << 20):
        size += len(gzip.compress(block))
    return size + len(gzip.flush())


def layers(archive):
    """The image's name and, of each layer, its digest and its compressed size."""
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))
        digests = json.load(tar.extractfile(manifest["Config"]))["rootfs"]["diff_ids"]
        sizes = [compressed_size(tar.extractfile(layer)) for layer in manifest["Layers"]]
    return manifest["RepoTags"][0], list(zip(digests, sizes, strict=True))


def main():
    archive, *base = sys.argv[1:]
    name, each = layers(archive)
    total = sum(size for _, size in each)
    added = sum(size for digest, size in each if digest not in base)
    text = f"{name}  {archive}  {total / 1e6:.1f} MB compressed"
    print(text if added == total else f"{text}, {added / 1e6:.1f} MB of it Lockstep's")


if __name__ == "__main__":
    main()
