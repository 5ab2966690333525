"""Makes lockstep-VERSION-linux-ARCH.tar.gz, and install.sh, which installs it.

The copy of install.sh beside the tarballs knows the address of the release and the public key that
signs it, if they are given here. SHA256SUMS and SHA256SUMS.sig must stand beside them:

  cd DIR; sha256sum *.tar.gz > SHA256SUMS
  ssh-keygen -Y sign -n lockstep-release -f KEY SHA256SUMS
"""

import gzip
import pathlib
import re
import tarfile

import linux
import staging
import tree as trees
from errors import PackageError

SUMMARY = "make a tarball and the install.sh that installs it"
# Without a quote, which would end the string in install.sh.
KEY = re.compile(r"(?:ssh|sk-ssh|ecdsa|sk-ecdsa)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+(?: [^'\n]*)?")
URL = re.compile(r"https?://[^\s']+")


def add_arguments(parser):
    linux.add_arguments(parser)
    parser.add_argument("--key", type=pathlib.Path, metavar="FILE",
                        help="the public key that install.sh trusts, as ssh-keygen writes it")
    parser.add_argument("--url", help="the address where install.sh looks for the tarballs")


def run(options):
    options.out.mkdir(parents=True, exist_ok=True)
    installer = write_installer(options.out, options.key, options.url)
    for architecture, tree in trees.make_trees(options):
        print(make_tarball(architecture, tree, options.out))
    print(installer)


def make_tarball(architecture, tree, out):
    """Packs the tree of an architecture and returns the tarball's path."""
    folder = f"lockstep-{staging.version()}-linux-{architecture}"
    return pack(tree, folder, out / f"{folder}.tar.gz")


def pack(tree, folder, path):
    """Writes `path`, with the tree as `folder`: the same bytes for the same files. Returns `path`."""
    date = staging.source_date()

    def owned_by_root(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = date
        return entry

    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for each in [tree, *sorted(tree.rglob("*"))]:
            name = f"{folder}/{each.relative_to(tree)}".removesuffix("/.")
            tar.add(each, name, recursive=False, filter=owned_by_root)
    return path


def write_installer(out, key, url):
    """Copies install.sh with the text of the key file and the address, and returns its path."""
    text = (staging.ROOT / "install.sh").read_text()
    if key is not None:
        words = key.read_text(errors="replace").strip() if key.is_file() else ""
        if not KEY.fullmatch(words):
            raise PackageError(f"{key} is no public key as ssh-keygen writes it")
        text = text.replace("release_key=''", f"release_key='{words}'")
    if url is not None:
        if not URL.fullmatch(url):
            raise PackageError(f"--url must be an http address, not '{url}'")
        text = text.replace("release_url=''", f"release_url='{url.rstrip('/')}'")
    path = out / "install.sh"
    path.write_text(text)
    path.chmod(0o755)
    return path
