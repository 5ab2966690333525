"""How to bring a real gang into each state of core's state machines, and keep it there.

WAYS holds, for each state, a function that makes a gang, drives it there and returns a Scene.
Nothing is left to luck: a state is held by something that has not happened yet (a machine that has
not come, an answer that a stopped agent cannot give, a file under another's lease), and the scene's
release() lets it happen. check_pairs.py breaks the build when a state of the enums, which it reads
from a program, is missing here.
"""

import dataclasses
import fcntl
import functools
import os
import signal
from typing import Any, Callable

VICTIMS = ("rank", "agent", "guard", "coordinator")


@dataclasses.dataclass
class Scene:
    gang: Any
    release: Callable[[], None] = lambda: None
    machine: int = 1  # whose rank, agent and guard are killed
    failures: int = 0  # process failures charged on the way here
    unjudged: int = 0  # and such as only this coordinator can charge
    charged: bool = False  # a rank that is killed now is charged to the job
    over: bool = False  # the verdict stands


# ---- the coordinator's ----


def gathering(make):
    gang = make(machines=3)
    gang.start(0, 1)
    gang.wait_phase("Idle", machine=1)
    gang.wait_phase("Gathering")
    return Scene(gang, release=lambda: gang.start(2))


def fencing(make):
    gang = running(make).gang
    gang.agents[2].kill()
    successor = gang.replace(2, predecessor_dead=False)
    gang.wait_phase("Fencing")

    def release():
        gang.heal()
        gang.wait_status(lambda s: s["machines"][2]["connected"], "machine 2 to join")
        gang.set_desired_state(fenced=[(2, successor.attempt)])

    return Scene(gang, release)


def backoff(make):
    gang = running(make).gang
    # The third takes 5 s, the second only one.
    for rank, next_phase in ((0, "Running"), (1, "Running"), (2, "Backoff")):
        generation = gang.status()["generation"]
        os.kill(gang.agents[rank].ranks()[rank], signal.SIGKILL)
        if next_phase == "Running":
            gang.wait_running(after=generation)
    gang.wait_phase("Backoff")
    return Scene(gang, failures=3)


def leased(path):
    """Whoever opens `path` waits, as for a slow file server, until what this returns is called, or
    for /proc/sys/fs/lease-break-time."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # somebody asks for the lease
    fd = os.open(path, os.O_RDWR)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    return functools.partial(os.close, fd)


def preparing(make):
    gang = make(machines=3, checkpoint="checkpoints")
    generations = gang.checkpoint / "generations"
    generations.mkdir(parents=True)
    slow = generations / "0-1"
    slow.touch()
    release = leased(slow)
    gang.start()
    gang.wait_phase("Preparing")
    return Scene(gang, release)


def starting(make):
    gang = make(machines=3)
    gang.start(0, 2)
    gang.wait_phase("Idle", machine=2)
    gang.agents[2].stop()
    gang.start(1)
    gang.wait_phase("Running", machine=1)
    gang.wait_phase("Starting")
    return Scene(gang, release=gang.agents[2].cont, charged=True)


def running(make, **options):
    gang = make(machines=3, **options)
    gang.start()
    gang.wait_running()
    return Scene(gang, charged=True)


def stopping(make):
    gang = running(make, environment={"STUBBORN": "1"}).gang
    gang.set_desired_state(stop=("Suspended", 600))
    gang.wait_phase("Stopping")
    gang.wait_phase("Stopping", machine=1)

    def release():
        gang.heal()
        gang.wait_status(lambda s: True, "a coordinator")
        gang.set_desired_state(stop=("Suspended", 0))
        gang.wait_phase("Held")
        gang.set_desired_state()

    return Scene(gang, release)


def held(make):
    gang = running(make).gang
    gang.set_desired_state(stop=("Suspended", 0))
    gang.wait_phase("Held")

    def release():
        gang.heal()
        gang.wait_status(lambda s: True, "a coordinator")
        gang.set_desired_state()

    return Scene(gang, release)


def verdict(make):
    gang = running(make).gang
    gang.open_gates([2])
    gang.wait_status(lambda s: s["machines"][2]["state"] == "Finished", "rank 2 to finish")
    gang.agents[2].stop()  # its acknowledgement does not come
    gang.open_gates([0, 1])
    gang.wait_phase("Verdict")
    return Scene(gang, gang.agents[2].cont, machine=2, over=True)


def done(make):
    gang, unread = held_by_its_output(make, machines=2, held=0)
    gang.open_gates()
    gang.wait_phase("Done")
    return Scene(gang, unread.close, machine=0, over=True)


# ---- the member's, of machine 1 ----


def joining(make):
    gang = make(machines=3, proxied=[1])
    gang.proxies[1].cut()
    gang.start()
    gang.wait_phase("Joining", machine=1)
    gang.wait_phase("Gathering")
    return Scene(gang, gang.proxies[1].heal)


def idle(make):
    return gathering(make)


def member_starting(make):
    ranks = 32
    for _ in range(5):  # on a busy computer an agent may have started all of them before one acts
        gang = make(machines=2, processes=ranks)
        catch = gang.gates / "catch"
        catch.touch()
        # The first rank stops the agent while it still starts the others.
        (gang.gates / "hook").write_text(
            f'if [ "$RANK" = {ranks} ] && rm "$GATES/catch" 2>/dev/null; then kill -STOP "$PPID"; '
            'fi\n')
        gang.start()
        gang.agents[1].wait_stopped()
        gang.agents[1].stopped = True
        if len(gang.agents[1].ranks()) < ranks:
            return Scene(gang, gang.agents[1].cont, charged=True)
    raise AssertionError("the agent was always stopped too late")


def finished(make):
    gang = running(make).gang
    gang.tell(1, 0)
    gang.wait_phase("Finished", machine=1)
    return Scene(gang)


def stopped(make):
    gang = running(make).gang
    gang.agents[2].stop()  # the stop cannot be completed
    os.kill(gang.agents[0].ranks()[0], signal.SIGKILL)
    gang.wait_phase("Stopped", machine=1)
    return Scene(gang, gang.agents[2].cont, unjudged=1)


def exiting(make):
    gang, unread = held_by_its_output(make, machines=3, held=1)
    gang.open_gates([2])
    gang.wait_status(lambda s: s["machines"][2]["state"] == "Finished", "rank 2 to finish")
    gang.agents[2].stop()  # keeps machine 0 until it has acknowledged
    gang.open_gates([0, 1])
    gang.wait_phase("Exiting", machine=1)

    def release():
        gang.agents[2].cont()
        unread.close()

    return Scene(gang, release, over=True)


def held_by_its_output(make, machines, held):
    """A running gang; the agent of machine `held` cannot leave before its output is read."""
    gang = make(machines=machines)
    (gang.gates / "hook").write_text("yes 0123456789 | head -n 30000\n")
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    gang.start(*(m for m in range(machines) if m != held))
    gang.start(held, stdout=write)
    os.close(write)
    gang.wait_phase("Running")
    return gang, os.fdopen(read)


WAYS = {
    ("coordinator", "Gathering"): gathering,
    ("coordinator", "Fencing"): fencing,
    ("coordinator", "Backoff"): backoff,
    ("coordinator", "Preparing"): preparing,
    ("coordinator", "Starting"): starting,
    ("coordinator", "Running"): running,
    ("coordinator", "Stopping"): stopping,
    ("coordinator", "Held"): held,
    ("coordinator", "Verdict"): verdict,
    ("coordinator", "Done"): done,
    ("member", "Joining"): joining,
    ("member", "Idle"): idle,
    ("member", "Starting"): member_starting,
    ("member", "Running"): running,
    ("member", "Finished"): finished,
    ("member", "Stopping"): stopping,
    ("member", "Stopped"): stopped,
    ("member", "Exiting"): exiting,
}

_NO_RANKS_YET = "no generation has been announced, so no rank was ever started"
_RANKS_CONFIRMED_DEAD = "the state is entered when every machine has confirmed its ranks dead"
_RANKS_DONE = "every rank has exited 0"

UNREACHABLE = {
    (("coordinator", "Gathering"), "rank"): _NO_RANKS_YET,
    (("coordinator", "Fencing"), "rank"): "a machine that says HELLO in a later generation's time "
    "has its ranks killed at once; that this machine 1 has none is what member Stopped tests",
    (("coordinator", "Backoff"), "rank"): _RANKS_CONFIRMED_DEAD,
    (("coordinator", "Preparing"), "rank"): _NO_RANKS_YET,
    (("coordinator", "Held"), "rank"): _RANKS_CONFIRMED_DEAD,
    (("coordinator", "Verdict"), "rank"): _RANKS_DONE,
    (("coordinator", "Done"), "rank"): _RANKS_DONE,
    (("coordinator", "Done"), "agent"): "every other agent has acknowledged the verdict; killed "
    "then, it is killed in member Exiting",
    (("member", "Joining"), "rank"): _NO_RANKS_YET,
    (("member", "Idle"), "rank"): _NO_RANKS_YET,
    (("member", "Finished"), "rank"): _RANKS_DONE,
    (("member", "Stopped"), "rank"): "the state is entered when nothing of the generation is alive",
    (("member", "Exiting"), "rank"): _RANKS_DONE,
}
