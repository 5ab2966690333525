"""Fields that may be in the spec or in the template's `worker` container (or its pod), but not in
both, and their rules.
"""

from crd.core import CORE
from crd.launcher import no_torchrun, no_unsupported
from crd.names import SUBDOMAIN, VARIABLE, listed, matches
from crd.schema import listing, rule, struct, text

OF_CONTAINER = ["image", "command", "args", "workingDir", "env", "envFrom"]
OF_POD = ["imagePullSecrets", "priorityClassName", "schedulerName"]

LAUNCHER = ("set launch: PerMachine, or remove the launcher: with PerProcess each process would be "
            "a launcher that starts processesPerMachine more")
# Machine 0 alone runs the command, a launcher's, which core looks at.
MPIRUN = "(self.framework == 'Mpi' && (!has(self.mpi) || self.mpi.start == 'Launcher'))"
UNSUPPORTED = ("write the program itself, without the launcher and launch: PerMachine, as in "
               "[python, train.py]: Lockstep starts every rank of all machines, where the launcher "
               "would run a separate training on each machine")
NO_PROGRAM = "must name a program, as in [python, train.py]"


def name_of(what):
    return rule(f"self == '' || {matches(SUBDOMAIN)}", f"must be the name of {what}")


def variable_rules(entry):
    """Of one environment variable, the CEL expression `entry`: (expression, message, member)."""
    return [
        (matches(VARIABLE, f"{entry}.name"),
         "must be letters, digits, '_', '-' and '.', and not begin with a digit", ".name"),
        (f"!({entry}.name in {listed(CORE['reservedVariables'])} || "
         f"{entry}.name.startsWith('LOCKSTEP_'))",
         "remove it: Lockstep sets it for every process", ".name"),
        (f"!has({entry}.value) || {entry}.value == '' || !has({entry}.valueFrom)",
         "has both value and valueFrom; keep one of them", None),
    ]


def fields(variable_source, variables_source):
    """The two schemas are the API server's own: sources of a variable's value, and of variables."""
    variable = struct("", {
        "name": text("Name of the variable."),
        "value": text("Its value. $(NAME) is replaced by a variable that is listed before."),
        "valueFrom": {"description": "Source of its value, as in a pod.",
                      **variable_source},
    }, *[rule(*each) for each in variable_rules("self")], required=["name"])
    secret = text("Name of the Secret.",
                  rule(matches(SUBDOMAIN), "must be the name of a Secret"))
    return {
        "image": text("The image with the command. Required with a command. Absent with trainer: the "
                      "operator's trainer image."),
        "command": listing(
            "The command of each process, or of each machine with launch PerMachine. $(NAME) is "
            "replaced by the process's own variable, as in $(RANK). Absent: the built-in trainer.",
            text(""), rule("self.size() == 0 || self[0] != ''", NO_PROGRAM)),
        "args": listing("Arguments of the command.", text("")),
        "workingDir": text("The folder in which processes start. Absent: the image's."),
        "env": listing("Environment variables besides those that Lockstep sets for every process.",
                       variable, kind="map", keys=["name"]),
        "envFrom": listing("Sources of many variables at once, as in a pod.", variables_source),
        "imagePullSecrets": listing("Secrets to pull images.",
                                    struct("", {"name": secret}, required=["name"])),
        "priorityClassName": text("PriorityClass of the pods.", name_of("a PriorityClass")),
        "schedulerName": text("Scheduler of the pods.", name_of("a scheduler")),
    }


def _worker_has(member):
    return ("(has(self.template) && has(self.template.spec) && "
            "has(self.template.spec.containers) && self.template.spec.containers.exists(c, "
            f"c.name == 'worker' && has(c.{member})))")


def _says(member):
    of_worker = _worker_has(member)[:-2] + f" && c.{member}.size() > 0))"
    return f"((has(self.{member}) && self.{member}.size() > 0) || {of_worker})"


def command_rules():
    """Of the whole spec."""
    return [
        rule(f"!{_says('args')} || {_says('command')}",
             "needs spec.command; the image's own entry point is not used", ".args"),
        rule(f"self.launch != 'PerMachine' || {_says('command')}",
             "needs spec.command; the built-in trainer runs once for each process", ".launch"),
        rule(f"!{MPIRUN} || {_says('command')}",
             "Mpi needs spec.command, as in [mpirun, python, train.py]; the built-in trainer does "
             "not use MPI", ".framework"),
        rule(f"has(self.trainer) || {_says('command')}",
             "is missing; write the command of each process, as in [python, train.py], or "
             "spec.trainer for the built-in trainer", ".command"),
        rule(f"!has(self.trainer) || !{_says('command')}",
             "cannot be beside spec.command; keep one of them: the trainer runs if there is no "
             "command", ".trainer"),
        rule(f"!{_says('command')} || {_says('image')}",
             "is missing; name the image that holds the command", ".image"),
        rule("self.launch != 'PerMachine' || (self.framework != 'Horovod' && (self.framework != "
             "'Mpi' || self.?mpi.?start.orValue('Launcher') == 'Launcher'))",
             "must be PerProcess: with framework: Horovod, mpi.start: Pmi or Pmix the agents start "
             "every rank themselves", ".launch"),
        rule("self.framework != 'Horovod' || self.numMachines * self.processesPerMachine <= 512",
             "makes more than 512 processes, which is the most that Horovod's rendezvous supports",
             ".numMachines"),
        rule("self.framework != 'TensorFlow' || self.launch != 'PerMachine'",
             "must be PerProcess with framework: TensorFlow, whose workers find each other by "
             "TF_CONFIG; processesPerMachine: 1 is one worker a machine", ".launch"),
        rule("self.framework != 'TensorFlow' || "
             "self.numMachines * self.processesPerMachine <= 2048",
             "makes more than 2048 workers, and TensorFlow's TF_CONFIG lists all of them",
             ".numMachines"),
        rule("self.framework != 'TensorFlow' || self.numMachines <= 1024",
             "must be at most 1024 with framework: TensorFlow, whose workers get the ports of "
             "all machines", ".numMachines"),
        *_launcher_rules("self.launch == 'PerMachine' || ", no_torchrun, LAUNCHER),
        *_launcher_rules(f"{MPIRUN} || ", no_unsupported, UNSUPPORTED),
    ]


def _launcher_rules(unless, none_in, message):
    return [
        rule(f"{unless}!has(self.command) || self.command.size() == 0 || {none_in('self')}",
             message, ".command"),
        rule(f"{unless}!has(self.template) || !has(self.template.spec) || "
             "!has(self.template.spec.containers) || self.template.spec.containers.all(c, "
             "c.name != 'worker' || !has(c.command) || c.command.size() == 0 || "
             f"{none_in('c')})", message, ".template"),
    ]


def place_rules():
    """Of the whole spec: one place only."""
    twice = "is also set in the template's {}; keep one of them"
    # The template first: most jobs have none, and that is all that is read of them then.
    rules = [rule(f"!{_worker_has(name)} || !has(self.{name})", twice.format("worker container"),
                  f".{name}") for name in OF_CONTAINER]
    rules += [rule("!has(self.template) || !has(self.template.spec) || "
                   f"!has(self.template.spec.{name}) || !has(self.{name})", twice.format("pod"),
                   f".{name}") for name in OF_POD]
    return rules
