"""lockstep_torch.Live with today's PyTorch: each thing that went wrong on the way there, by a death that shows it."""

import os
import signal

import live_runs
import processes
import pytest
from waiting import wait_until

# Ranks die in the first step, before, in and after the exchange of gradients, and in the optimizer; rank 0 twice
# running.
DEATHS = {"0@0": "forward", "3@3": "optimizer", "1@6": "after", "0@9": "reduced", "0@10": "backward"}


@pytest.fixture
def both(python_with, tmp_path):
    """both(plan, ...): what a run with these deaths has left, and its report and output; it must have the bits of an
    undisturbed one."""
    def run(plan, **options):
        python = python_with("torch")
        whole, _, _ = live_runs.finish(live_runs.start(tmp_path / "whole", python, **options))
        found, report, output = live_runs.finish(live_runs.start(tmp_path / "run", python, plan, **options))
        assert live_runs.sums(found) == live_runs.sums(whole), output
        deaths = [phase for phase in plan.values() if phase != "slow"]
        assert live_runs.kept(report) == [0] + [3] * len(deaths), output
        return found, report, output
    return run


def test_deaths_in_each_phase_change_no_bit_and_cost_the_step_in_flight_alone(both):
    found, _, output = both(DEATHS, USES="rehearsal")
    # Rank 2 saw all five: it made those steps again that no other rank had finished.
    assert found[2].recovered == len(DEATHS)
    assert found[2].tries - found[2].steps <= len(DEATHS), output
    assert found[2].leaked <= 3, "descriptors: each group that is still there would have ten"
    assert found[2].folders == 1, "its TMPDIR"


def test_without_rehearsal_survivors_build_their_buckets_anew(python_with, tmp_path):
    # A newcomer's initial buckets beside survivors' rebuilt ones would abort, or sum wrong gradients.
    run = live_runs.start(tmp_path / "run", python_with("torch"), {"1@4": "forward", "2@8": "reduced"})
    found, report, output = live_runs.finish(run)
    assert live_runs.kept(report) == [0, 3, 3], output
    assert all(result.steps == 16 for result in found.values()), output


def test_data_loader_workers_of_survivors_go_on(both):
    found, _, output = both({"1@4": "forward"}, USES="rehearsal", WORKERS="2")
    assert "FileNotFoundError" not in output
    assert found[0].folders == 1


def test_survivor_in_a_step_longer_than_5_s_is_kept(both):
    both({"1@4": "forward", "3@4": "slow"}, USES="rehearsal")


@pytest.mark.parametrize("uses", ["rehearsal bf16", "rehearsal scaler"])
def test_mixed_precision(both, uses):
    both({"1@4": "forward", "2@8": "reduced", "0@11": "backward"}, USES=uses)


def test_gradients_are_accumulated_again(both):
    found, _, output = both({"1@4": "forward", "2@8": "backward"}, USES="rehearsal", ACCUMULATE="3")
    assert found[0].tries == found[0].steps + 2, output


def test_restart_of_all_resumes_from_the_checkpoint_of_state(python_with, tmp_path):
    run = live_runs.start(tmp_path / "run", python_with("torch"), {"0@9": "slow"}, CHECKPOINT="4",
                          USES="rehearsal", arguments=["--checkpoint", str(tmp_path / "kept")])
    wait_until(lambda: list((tmp_path / "kept").glob("**/*.step-8")), "the checkpoint", patience=100)
    os.kill(processes.parent(run.wait_ranks(4)[2][0]), signal.SIGKILL)  # the agent: its machine is lost
    found, report, output = live_runs.finish(run)
    assert live_runs.kept(report) == [0, 0], output
    assert report["generations"][1]["resume"].endswith("step-8"), report["generations"]
    assert [(result.steps, result.tries) for result in found.values()] == [(16, 8)] * 4, output
