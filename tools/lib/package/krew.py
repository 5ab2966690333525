"""Writes what krew installs `kubectl lockstep` from: archives of the program, and DIR/lockstep.yaml.

krew takes no archive that holds a link, so the tarballs in DIR do not fit. From each of them this
makes kubectl-lockstep-VERSION-linux-ARCH.tar.gz, with the program under the plugin's name and the
licences. The manifest names them by their checksums and by the address of the release.
"""

import gzip
import hashlib
import io
import pathlib
import re
import tarfile

import staging
import yaml
from errors import PackageError

SUMMARY = "write krew's manifest and archives, from the tarballs"
URL = re.compile(r"https://[^\s'\"]+")


def add_arguments(parser):
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="the folder with the tarballs")
    parser.add_argument("--url", required=True, help="the address below which the archives will be")
    parser.add_argument("--home", metavar="URL", help="the project's address (without it: --url)")


def run(options):
    for name, address in (("--url", options.url), ("--home", options.home or options.url)):
        if not URL.fullmatch(address):
            raise PackageError(f"{name} must be an https address, not '{address}'")
    version = staging.version()
    platforms = []
    for architecture in staging.PRESETS:
        path = options.out / f"lockstep-{version}-linux-{architecture}.tar.gz"
        if path.is_file():
            archive = options.out / f"kubectl-{path.name}"
            repack(path, archive)
            print(archive)
            platforms.append(platform(archive, architecture, options.url.rstrip("/")))
    if not platforms:
        raise PackageError(f"{options.out} has no lockstep-{version}-linux-ARCH.tar.gz: run "
                           f"tools/package tarball first")
    path = options.out / "lockstep.yaml"
    path.write_text(yaml.safe_dump(manifest(version, platforms, options.home or options.url), sort_keys=False, width=100))
    print(path)


def repack(tarball, archive):
    """Writes the plugin's files of the tarball, with their times, as regular files of one folder."""
    folder = tarball.name.removesuffix(".tar.gz")
    with tarfile.open(tarball) as source, archive.open("wb") as file, \
            gzip.GzipFile("", "wb", 6, file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as target:
        found = False
        for entry in source:
            if entry.name == f"{folder}/bin/lockstep":
                name, found = "kubectl-lockstep", True
            elif entry.isfile() and entry.name.startswith(f"{folder}/share/doc/lockstep/"):
                name = pathlib.PurePath(entry.name).name
            else:
                continue
            content = source.extractfile(entry).read()
            entry.name = name
            target.addfile(entry, io.BytesIO(content))
    if not found:
        archive.unlink()
        raise PackageError(f"{tarball} has no {folder}/bin/lockstep")


def platform(archive, architecture, url):
    return {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": f"{url}/{archive.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "bin": "kubectl-lockstep",
    }


def manifest(version, platforms, home):
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
        "metadata": {"name": "lockstep"},
        "spec": {
            "version": f"v{version}", "homepage": home,
            "shortDescription": "Runs and inspects distributed training jobs",
            "description": "Shows TrainingJobs of Lockstep and their machines, logs and failures,\n"
                           "and checks job files before you apply them.\n",
            "platforms": platforms,
        },
    }
