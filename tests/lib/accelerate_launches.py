"""What `accelerate launch` would start, for each of its options and each line of standard input.

Writes a list of {"line": [...], "world": [machines, processes of one], "env": {...}} as JSON, with
what the launcher adds to the environment; or with {"error": "..."}. The launcher itself is asked,
and stopped where it starts the processes.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from unittest import mock

import torch.distributed.run
from accelerate.commands import launch

BEFORE = dict(os.environ)
# What an option needs to be read, by what it begins with.
PLUGINS = {"--fsdp": "--use_fsdp", "--megatron": "--use_megatron_lm", "--zero": "--use_deepspeed",
           "--offload": "--use_deepspeed", "--deepspeed": "--use_deepspeed",
           "--gradient": "--use_deepspeed"}
# Options that decide the form of a line, or need what is not there.
OWN_CASES = ("--help", "--config_file", "--no_python", "--num_processes", "--num_machines",
             "--use_", "--cpu", "--multi_gpu", "--tpu", "--mpirun", "--fp8_backend")


class Started(Exception):
    """In place of processes."""


def started(environment, world):
    raise Started({"world": world, "env": {name: value for name, value in environment.items()
                                           if BEFORE.get(name) != value}})


def by_torchrun(arguments):
    machines = getattr(arguments, "nnodes", "1")
    started(dict(os.environ), [int(machines.split(":")[-1]), int(arguments.nproc_per_node)])


def as_process(_command, env=None, **_options):
    started(env, [1, 1])


def ask(line):
    os.environ.clear()  # the launcher may leave its variables there when it is stopped
    os.environ.update(BEFORE)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            launch.launch_command(launch.launch_command_parser().parse_args(line))
    except Started as done:
        return {"line": line, **done.args[0]}
    except (Exception, SystemExit) as error:
        return {"line": line, "error": repr(error)}
    return {"line": line, "error": "nothing was started"}


def value_of(action):
    if action.choices:
        return [list(action.choices)[-1]]
    if action.nargs == 0:
        return []
    return [{int: "2", float: "2.5"}.get(action.type, "true")]


def lines():
    """One for each option that decides nothing about the line's own form."""
    for action in launch.launch_command_parser()._actions:
        option = next((name for name in action.option_strings if name.startswith("--")), None)
        if option is None or option.startswith(OWN_CASES):
            continue
        plugin = next((PLUGINS[start] for start in PLUGINS if option.startswith(start)),
                      "--multi_gpu")
        yield [plugin, "--num_processes", "2", option, *value_of(action), "t.py"]


if __name__ == "__main__":
    with (mock.patch.object(torch.distributed.run, "run", by_torchrun),
          mock.patch.object(subprocess, "Popen", as_process),
          mock.patch.object(launch, "is_deepspeed_available", lambda: True)):
        json.dump([ask(line) for line in [*lines(), *json.load(sys.stdin)]], sys.stdout)
