"""Makes what people install from the shipped programs."""

import argparse
import importlib
import subprocess
import sys

from errors import PackageError

# A command is the module of its name, which has
#   SUMMARY                 one line of help,
#   add_arguments(parser)   its options,
#   run(options)            its work; it raises PackageError if something is wrong.
COMMANDS = [
    "programs",
    "wheel",
    "sbom",
    "notice",
    "image",
    "chart",
    "krew",
]


def main():
    parser = argparse.ArgumentParser(prog="tools/package", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(name)
        command = commands.add_parser(name, help=module.SUMMARY, description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args()
    try:
        options.run(options)
    except PackageError as error:
        sys.exit(f"package: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"package: {error.cmd[0]} ended with {error.returncode}")


if __name__ == "__main__":
    main()
