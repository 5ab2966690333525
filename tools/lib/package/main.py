"""Makes what people install from the shipped programs."""

import argparse
import fcntl
import importlib
import subprocess
import sys

import staging
from errors import PackageError

# Each command and its module, which has
#   SUMMARY                 one line of help,
#   add_arguments(parser)   its options,
#   run(options)            its work; it raises PackageError if something is wrong.
COMMANDS = {
    "all": "everything", "programs": "staging", "trainer": "trainer_bundle", "chart": "helm_chart",
    "worker-image": "worker_image", "worker-cuda-image": "cuda_image",
    **{name: name for name in (
        "wheel", "sdist", "tarball", "deb", "rpm", "apk", "sbom", "notice", "image", "krew")}}


def main():
    parser = argparse.ArgumentParser(prog="tools/package", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        module = importlib.import_module(module)
        command = commands.add_parser(name, help=module.SUMMARY, description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args()
    staging.STAGE.mkdir(parents=True, exist_ok=True)
    try:
        # Two commands at once would remove each other's stage.
        with (staging.STAGE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            options.run(options)
    except PackageError as error:
        sys.exit(f"package: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"package: {error.cmd[0]} ended with {error.returncode}")
    except subprocess.TimeoutExpired as error:
        sys.exit(f"package: {error.cmd[0]} did not end within {error.timeout:.0f} s")


if __name__ == "__main__":
    main()
