"""Packs the Helm chart for a release: lockstep-VERSION.tgz, the same bytes each time.

The tree's chart names images by tag and has no address. The packed chart names them by the digests
that are given, in the registry that is given, with the links that Artifact Hub shows.
"""

import base64
import gzip
import io
import pathlib
import re
import tarfile

import staging
import yaml
from errors import PackageError

SUMMARY = "pack the Helm chart, with the images' digests in its values"

CHART = staging.ROOT / "helm/lockstep"
ICON = staging.ROOT / "docs/images/icon.svg"
# Where values.yaml has each image.
IMAGES = {"operator": ("image",), "worker": ("agent", "image"), "worker-cuda": ("cudaTrainer", "image")}
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
URL = re.compile(r"https://[^\s'\"]+")


def add_arguments(parser):
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=sha256:DIGEST",
                        help=f"the digest of an image: {', '.join(IMAGES)}; may be repeated")
    parser.add_argument("--registry", help="where the images are, such as registry.example.com")
    parser.add_argument("--home", metavar="URL", help="the project's address, for home and sources")


def run(options):
    digests = dict(_image(text) for text in options.image)
    if options.home and not URL.fullmatch(options.home):
        raise PackageError(f"--home must be an https address, not '{options.home}'")
    files = {name: path.read_bytes() for name, path in _files().items()}
    values = with_images(files["values.yaml"].decode(), digests, options.registry)
    files["values.yaml"] = values.encode()
    about = with_links(files["Chart.yaml"].decode(), images(values, staging.version()), options.home)
    files["Chart.yaml"] = about.encode()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"lockstep-{staging.version()}.tgz"
    path.write_bytes(packed(files, staging.source_date()))
    print(path)


def _image(text):
    name, _, digest = text.partition("=")
    if name not in IMAGES or not DIGEST.fullmatch(digest):
        raise PackageError(f"--image takes NAME=sha256:DIGEST, with NAME of {', '.join(IMAGES)}, "
                           f"not '{text}'")
    return name, digest


def _files():
    """{name in the chart: path}, without what .helmignore leaves out."""
    ignored = [line.strip("/") for line in (CHART / ".helmignore").read_text().splitlines() if line]
    found = {path.relative_to(CHART).as_posix(): path for path in CHART.rglob("*") if path.is_file()}
    return {name: path for name, path in found.items()
            if name.partition("/")[0] not in ignored and name != ".helmignore"}


def with_images(values, digests, registry):
    """values.yaml, comments and all, with these digests and this registry."""
    for name, path in IMAGES.items():
        if name in digests:
            values = _set(values, (*path, "digest"), digests[name])
        if registry:
            values = _set(values, (*path, "repository"), f"{registry}/lockstep/{name}")
    return values


def _set(text, path, value):
    """The line of `path` in block style, each level two spaces deeper, gets the value."""
    lines, level = text.splitlines(keepends=True), 0
    for number, line in enumerate(lines):
        if level and line.strip() and not line.startswith("  " * level) \
                and not line.lstrip().startswith("#"):
            break
        if re.match(rf"{'  ' * level}{re.escape(path[level])}:", line):
            level += 1
            if level == len(path):
                lines[number] = f'{"  " * (level - 1)}{path[-1]}: "{value}"\n'
                return "".join(lines)
    raise PackageError(f"values.yaml has no {'.'.join(path)}")


def images(values, version):
    """[(name, reference)] of the images that these values lead to."""
    found, parsed = [], yaml.safe_load(values)
    for name, path in IMAGES.items():
        value = parsed
        for each in path:
            value = value[each]
        end = f"@{value['digest']}" if value["digest"] else f":{value['tag'] or version}"
        found.append((name, value["repository"] + end))
    return found


def with_links(about, references, home):
    """Chart.yaml with icon, maintainers and Artifact Hub's list of images; with the links if there is
    an address."""
    icon = base64.b64encode(ICON.read_bytes()).decode()
    lines = [f"icon: data:image/svg+xml;base64,{icon}", "maintainers:", "- name: The Lockstep authors"]
    if home:
        lines += [f"home: {home}", f"sources: [{home}]"]
    listed = "".join(f"    - name: {name}\n      image: {reference}\n" for name, reference in references)
    made = about.rstrip("\n") + "\n  artifacthub.io/images: |\n" + listed + "\n".join(lines) + "\n"
    yaml.safe_load(made)
    return made


def packed(files, seconds):
    """A .tgz as `helm package` makes it, but with one time and one owner."""
    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, buffer, mtime=0) as zipped, \
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        # Chart.yaml first, as Helm writes it.
        for name in sorted(files, key=lambda name: (name != "Chart.yaml", name)):
            entry = tarfile.TarInfo(f"lockstep/{name}")
            entry.size, entry.mtime, entry.mode = len(files[name]), seconds, 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()
