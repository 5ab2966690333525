"""Synced code (spec.sync) on real agents: machines that are lost in each phase of a sync, and two
users."""

import os
import sys

import pytest
from code_sender import CodeSender, digest_of
from waiting import wait_until

TRAIN = """\
import os, pathlib, time
import model
name = os.environ["LOCKSTEP_GENERATION"] + "-" + os.environ["RANK"]
(pathlib.Path(os.environ["OUT"]) / name).write_text(model.NAME)
time.sleep(1000)
"""
WAITS = f"[ -e train.py ] && exec {sys.executable} train.py; exec sleep 1000"


def version(name):
    return {"train.py": TRAIN, "model.py": f"NAME = {name!r}\n", "lib/__init__.py": ""}


class Synced:
    """A gang whose ranks note which code they run."""

    def __init__(self, gang, folder, machines=2, **options):
        self.out = folder / "out"
        self.out.mkdir()
        self.gang = gang(machines=machines, processes=2, command=["sh", "-c", WAITS],
                         environment={"OUT": str(self.out)}, sync={}, **options)
        self.gang.start()
        wait_until(lambda: self.gang.status(0), "machine 0")
        self.gang.set_desired_state()

    def sender(self):
        return CodeSender(self.gang.agents[0].folder / "run")

    def ran(self, generation):
        return {path.name.rpartition("-")[2]: path.read_text()
                for path in self.out.glob(f"{generation}-*")}

    def wait_ran(self, name):
        """The generation in which every rank ran it."""
        everyone = {str(rank) for rank in range(self.gang.machines * self.gang.processes)}

        def complete():
            generations = {path.name.rpartition("-")[0] for path in self.out.iterdir()}
            return next((each for each in sorted(generations)
                         if set(self.ran(each)) == everyone
                         and set(self.ran(each).values()) == {name}), None)

        generation = wait_until(complete, lambda: f"{name}: {sorted(self.out.iterdir())}\n"
                                f"{self.gang.status(0)}\n{self.gang.logs()}")
        for each in {path.name.rpartition("-")[0] for path in self.out.iterdir()}:
            assert len(set(self.ran(each).values())) == 1, "a generation ran code of two digests"
        return generation


@pytest.fixture
def synced(gang, tmp_path):
    return lambda **options: Synced(gang, tmp_path, **options)


def test_code_reaches_many_machines_and_an_edit_sends_only_what_changed(synced):
    job = synced(machines=6)
    job.gang.wait_running()
    with job.sender() as sender:
        assert sender.greeting["gang"]["code"].get("digest", "") == ""
        first = sender.send(version("first"))
        assert first == digest_of(version("first")) and sender.sent == 3
        assert job.wait_ran("first") == "1-2"
        sender.sent = 0
        second = sender.send(version("second"), replaces=first)
        assert second and sender.sent == 1
        assert job.wait_ran("second") == "1-3"
    status = job.gang.wait_running("1-2")
    assert status["code"]["digest"] == second and status["code"]["by"] == "alice"
    assert status["counters"]["stops"] == 2 and not status["counters"].get("processFailures")
    assert [each.get("code", "") for each in status["history"]] == ["", first, second]


def test_the_second_of_two_users_is_refused(synced):
    job = synced()
    job.gang.wait_running()
    with job.sender() as alice, job.sender() as bob:
        first = alice.send(version("hers"), replaces="")
        job.wait_ran("hers")
        nothing, why = bob.send(version("his"), replaces="", by="bob")
        assert nothing is None and "alice has synced other code" in why
        assert bob.send(version("his"), replaces=first, by="bob")
        job.wait_ran("his")


def test_a_machine_that_is_lost_while_it_fetches_stops_nothing_and_its_successor_fetches(synced):
    job = synced(policy={"machineLostAfter": "30s"})
    job.gang.wait_running()
    job.gang.agents[1].stop()
    with job.sender() as sender:
        assert sender.send(version("new"))
        status = job.gang.wait_status(lambda status: status["code"].get("missing") == "1",
                                      "machine 1 to be missing")
        assert status["phase"] == "Running" and status["generation"] == "1-1"
        job.gang.agents[1].kill()
        job.gang.replace(1)
        job.gang.set_desired_state(fenced=[(1, 2)], terminated=[(1, 1, "MachineLost")])
        job.wait_ran("new")


def test_a_machine_that_is_lost_while_the_gang_is_held_runs_the_mended_code(synced):
    job = synced()
    job.gang.wait_running()
    with job.sender() as sender:
        broken = sender.send({**version("broken"), "model.py": "def ("}, watched=True)
        status = job.gang.wait_phase("Held")
        assert status["reason"] == "waiting for the next edit of the code"
        assert "SyntaxError" in status["history"][-1]["failure"]["stderr"]
        assert not status["counters"].get("processFailures")
        job.gang.agents[1].kill()
        job.gang.replace(1)
        job.gang.set_desired_state(fenced=[(1, 2)], terminated=[(1, 1, "MachineLost")])
        assert sender.send(version("mended"), replaces=broken, watched=True)
        job.wait_ran("mended")


def test_a_machine_that_is_lost_as_the_new_code_starts_is_followed_by_the_same_code(synced):
    job = synced()
    job.gang.wait_running()
    with job.sender() as sender:
        assert sender.send(version("new"))
        # At once when some rank runs it, whatever the others do then.
        wait_until(lambda: list(job.out.iterdir()), "the first rank of the new code")
        job.gang.agents[1].kill()
        job.gang.replace(1)
        job.gang.set_desired_state(fenced=[(1, 2)], terminated=[(1, 1, "MachineLost")])
        job.gang.wait_running("1-2")
        assert job.wait_ran("new")


def test_a_new_machine_0_takes_the_code_from_a_member(synced):
    job = synced()
    job.gang.wait_running()
    with job.sender() as sender:
        assert sender.send(version("new"))
        job.wait_ran("new")
    job.gang.agents[0].kill()
    job.gang.replace(0)
    wait_until(lambda: job.gang.status(0), "the new machine 0")
    # The operator has not spoken.
    assert job.gang.status(0)["phase"] in ("Gathering", "Fencing")
    job.gang.set_desired_state(fenced=[(0, 2)])
    job.gang.wait_running("2-0")
    wait_until(lambda: set(job.ran("2-1").values()) == {"new"} and len(job.ran("2-1")) == 4,
               lambda: f"{job.ran('2-1')} {job.gang.logs()}")


def test_code_that_no_machine_holds_holds_the_gang_until_it_is_sent_again(synced):
    job = synced()
    job.gang.wait_running()
    with job.sender() as sender:
        digest = sender.send(version("new"))
        job.wait_ran("new")
    job.gang.code = {"digest": digest, "generation": "1-2"}
    for machine in (1, 0):
        job.gang.agents[machine].kill()
        job.gang.replace(machine)
    job.gang.agents[0].kill()  # each has an attempt that the other knows
    job.gang.replace(0)
    wait_until(lambda: job.gang.status(0), "the new machine 0")
    attempts = [(machine, agent.attempt) for machine, agent in job.gang.agents.items()]
    job.gang.set_desired_state(fenced=attempts)
    status = job.gang.wait_phase("Held")
    assert "run kubectl lockstep sync" in status["reason"] and status["code"]["lost"]
    with job.sender() as sender:
        assert sender.send(version("new")) == digest
        job.gang.wait_running("3-0")
    latest = job.gang.status(0)["generation"]
    wait_until(lambda: job.ran(latest) == dict.fromkeys("0123", "new"), job.gang.logs)


def test_a_command_that_names_the_images_code_is_refused(gang, tmp_path):
    job = gang(machines=1, command=[sys.executable, f"{os.getcwd()}/train.py"], sync={})
    job.start()
    wait_until(lambda: job.status(0), "machine 0")
    job.set_desired_state()
    with CodeSender(job.agents[0].folder / "run") as sender:
        nothing, why = sender.send(version("new"))
        assert nothing is None and "would run the image's" in why
