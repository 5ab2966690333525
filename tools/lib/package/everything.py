"""Makes everything that tools/package can make, in DIR, and lists the files with their sizes.

The programs are built once. Left out, with the reason in the list, are the parts that this computer or
these options do not allow:

  images                without buildah; the chart then names images by tag
  image of worker-cuda  without --cuda: it takes 0.8 GB of NVIDIA's libraries for each architecture
  krew                  without --url
"""

import argparse
import contextlib
import io
import pathlib
import shutil
import sys

import apk
import cuda_image
import deb
import helm_chart
import image
import krew
import notice
import rpm
import sbom
import sdist
import staging
import tarball
import trainer_bundle
import wheel
import worker_image
from errors import PackageError

SUMMARY = "make all of these, and list the files with their sizes"


def add_arguments(parser):
    staging.add_stage_arguments(parser)
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="the folder for the files (without it: build/dist)")
    parser.add_argument("--key", type=pathlib.Path, metavar="FILE",
                        help="the public key that install.sh trusts, as ssh-keygen writes it")
    parser.add_argument("--cuda", action="store_true", help="also the image of worker-cuda")
    parser.add_argument("--small", action="store_true", help="as that of `tools/package wheel`")
    parser.add_argument("--url", help="the address below which the files will be, for install.sh and krew")
    parser.add_argument("--home", metavar="URL", help="the project's address, for the chart and krew")


def run(options):
    architectures = list(dict.fromkeys(options.arch or ["amd64"]))
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    files, left_out = [], {}
    for architecture in architectures:
        staging.stage(architecture, compile_first=not options.no_build)
        if not options.no_build:
            trainer_bundle.build(architecture)
    for name, command, more in parts(options, architectures):
        if isinstance(more, str):
            left_out[name] = more
            continue
        print(f"package: {name}", file=sys.stderr, flush=True)
        given = {"arch": architectures, "no_build": True, "out": options.out, **more}
        files += _paths(command, argparse.Namespace(**given))
    print(listing(options.out, files, left_out))


def parts(options, architectures):
    """Yields (name, its command, its own options or why it is left out). Each may need what those before it
    have made.
    """
    builds = {each: staging.ROOT / "build" / staging.PRESETS[each] for each in architectures}
    programs = [*staging.PROGRAMS, trainer_bundle.NAME]
    first = architectures[0]
    # The packages, the images and the trainer take it from there.
    yield "notice", _notice, {"build": builds[first], "programs": programs}
    yield "tarball", tarball.run, {"key": options.key, "url": options.url}
    for name, command in (("deb", deb), ("rpm", rpm), ("apk", apk), ("sdist", sdist)):
        yield name, command.run, {}
    yield "wheel", wheel.run, {"small": options.small}
    yield "trainer", trainer_bundle.run, {}
    digests = []
    for name, command in (("operator", image), ("worker", worker_image), (cuda_image.NAME, cuda_image)):
        if not shutil.which("buildah"):
            yield f"image of {name}", command.run, "buildah is missing: run tools/deps --images"
        elif command is cuda_image and not options.cuda:
            yield f"image of {name}", command.run, "it takes 0.8 GB for each architecture: give --cuda"
        else:
            yield f"image of {name}", command.run, {"push": None}
            digests.append(f"{name}={image.digest(image.path(options.out, staging.version(), name))}")
    yield "chart", helm_chart.run, {"image": digests, "registry": None, "home": options.home}
    for architecture in architectures:
        yield f"sbom of {architecture}", sbom.run, {
            "build": builds[architecture], "programs": programs,
            "out": options.out / "sbom" / architecture}
    yield "krew", krew.run, {"url": options.url, "home": options.home} if options.url \
        else "it names the address of the files: give --url"


def _notice(options):
    file = options.out / staging.NOTICE.name
    notice.run(argparse.Namespace(**{**vars(options), "out": file, "check": None}))
    shutil.copyfile(file, staging.NOTICE)


def _paths(command, options):
    """The files that a command says it has made: the first word of each line."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        command(options)
    return [pathlib.Path(line.split()[0]) for line in said.getvalue().splitlines()]


def listing(out, files, left_out):
    sizes = {path: path.stat().st_size for path in sorted(set(files))}
    rows = [(_size(size), str(path.relative_to(out))) for path, size in sizes.items()]
    rows.append((_size(sum(sizes.values())), f"{len(sizes)} files in {out}"))
    rows += [("left out", f"{name}: {reason}") for name, reason in left_out.items()]
    return "\n".join(f"{size:>10}  {text}" for size, text in rows)


def _size(size):
    return f"{size / 1e6:.2f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
