"""Writes DIR/lockstep.yaml, the manifest by which krew installs `kubectl lockstep`.

It names the release's tarballs in DIR by their checksums and by the address of the release.
"""

import hashlib
import pathlib
import re

import staging
import yaml
from errors import PackageError

SUMMARY = "write krew's manifest of the tarballs"
URL = re.compile(r"https://[^\s'\"]+")


def add_arguments(parser):
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="the folder with the tarballs")
    parser.add_argument("--url", required=True, help="the address below which the tarballs will be")


def run(options):
    if not URL.fullmatch(options.url):
        raise PackageError(f"--url must be an https address, not '{options.url}'")
    version = staging.version()
    platforms = []
    for architecture in staging.PRESETS:
        path = options.out / f"lockstep-{version}-linux-{architecture}.tar.gz"
        if path.is_file():
            platforms.append(platform(path, architecture, options.url.rstrip("/")))
    if not platforms:
        raise PackageError(f"{options.out} has no lockstep-{version}-linux-ARCH.tar.gz: run "
                           f"tools/package tarball first")
    path = options.out / "lockstep.yaml"
    path.write_text(yaml.safe_dump(manifest(version, platforms, options.url), sort_keys=False, width=100))
    print(path)


def platform(path, architecture, url):
    folder = path.name.removesuffix(".tar.gz")
    return {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": f"{url}/{path.name}",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        # The plugin starts `lockstep`, which must be beside it.
        "files": [{"from": f"{folder}/bin/*", "to": "."}, {"from": f"{folder}/share/doc/lockstep/*", "to": "."}],
        "bin": "kubectl-lockstep",
    }


def manifest(version, platforms, url):
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
        "metadata": {"name": "lockstep"},
        "spec": {
            "version": f"v{version}", "homepage": url,
            "shortDescription": "Runs and inspects distributed training jobs",
            "description": "Shows TrainingJobs of Lockstep and their machines, logs and failures,\n"
                           "and checks job files before you apply them.\n",
            "platforms": platforms,
        },
    }
