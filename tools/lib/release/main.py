"""Makes a release: dist/ with all that people install, and a tag.

The steps, in order, are those of `--dry-run`. They work in clones under build/releases/VERSION, and this
tree gets the release's commit and tag only at the end. `--only`, `--from` and `--until` choose steps.

The programs are built in a fresh Debian 12 of the newest packages, as root, whatever this machine has.

The steps before `sign` read FILE.pub of `--key FILE` only, so the key need not be on a machine that builds."""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("", "package", "testing"))]

import steps
from checks import Stop


def parsed():
    parser = argparse.ArgumentParser(
        prog="tools/release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="steps:\n" + "\n".join(f"  {step.name:11} {step.summary}" for step in steps.STEPS))
    parser.add_argument("version", nargs="?", metavar="VERSION", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--no-push", action="store_true", help="commit and tag in this tree only")
    parser.add_argument("--dry-run", action="store_true", help="list the steps and do nothing")
    parser.add_argument("--only", action="append", metavar="STEP", help="run this step; may be repeated")
    parser.add_argument("--from", dest="first", metavar="STEP", help="run this step and those after it")
    parser.add_argument("--until", dest="last", metavar="STEP", help="run no step after it")
    parser.add_argument("--without", action="append", default=[], metavar="STEP",
                        help="leave this step out; may be repeated. provenance.json names it")
    parser.add_argument("--here", action="store_true",
                        help="build on this machine, whose packages must be the newest")
    parser.add_argument("--key", type=pathlib.Path, help="the SSH key that signs SHA256SUMS and the tag")
    parser.add_argument("--image-key", type=pathlib.Path, metavar="FILE",
                        help="the EC key in PEM that signs the images as cosign does; without it no signature")
    parser.add_argument("--arch", action="append", choices=list(steps.SHIPPED),
                        help="an architecture; may be repeated (without it: all)")
    parser.add_argument("--out", type=pathlib.Path, help="without it dist/; must be empty or absent")
    parser.add_argument("--url", help="the https address below which the files will be, for install.sh and krew")
    parser.add_argument("--home", help="the project's https address, for the chart and krew")
    parser.add_argument("--verify", type=pathlib.Path, metavar="DIR",
                        help="check signature and sums of a release in DIR, offline, and do nothing else")
    parser.add_argument("--signers", type=pathlib.Path, metavar="FILE",
                        help="with --verify: the public keys that you trust (ssh-keygen's ALLOWED SIGNERS)")
    options = parser.parse_args()
    if bool(options.version) == bool(options.verify):
        parser.error("give a VERSION, or --verify DIR")
    if options.verify and not options.signers:
        parser.error("--verify needs --signers FILE: a key that comes with the files proves nothing")
    names = [step.name for step in steps.STEPS]
    for name in [*(options.only or []), *options.without, *filter(None, (options.first, options.last))]:
        if name not in names:
            parser.error(f"no step is called '{name}'; the steps are {', '.join(names)}")
    if options.first and options.last and names.index(options.first) > names.index(options.last):
        parser.error(f"--from {options.first} is behind --until {options.last}")
    if options.only and (options.first or options.last):
        parser.error("--only goes with neither --from nor --until")
    return options


def chosen(options):
    names = [step.name for step in steps.STEPS]
    if options.only:
        wanted = [step for step in steps.STEPS if step.name in options.only]
    else:
        first = names.index(options.first or names[0])
        wanted = steps.STEPS[first:names.index(options.last or names[-1]) + 1]
    left_out = {*options.without, *(["push"] if options.no_push else [])}
    return [step for step in wanted if step.name not in left_out]


def main():
    options = parsed()
    try:
        if options.verify:
            steps.verify(options.verify, options.signers)
            print(f"{options.verify}: signatures and sums are right")
            return
        release = steps.Release(options.version, options.out, options.key, options.url, options.home,
                                options.arch, here=options.here, left_out=options.without,
                                image_key=options.image_key)
        for step in chosen(options):
            if options.dry_run:
                print(f"{step.name:11} {step.summary}")
                continue
            print(f"release: {step.name}: {step.summary}", file=sys.stderr, flush=True)
            step.run(release)
    except Stop as stop:
        sys.exit(f"release: {stop}")
    except subprocess.CalledProcessError as error:
        command = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd[:4]))
        sys.exit(f"release: {command} ended with {error.returncode}")
    except subprocess.TimeoutExpired as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
