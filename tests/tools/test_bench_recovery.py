"""bench/_recovery.py: which step of a run is the one after the recovery."""

from _recovery import Recovered


def recovered(log, *steps):
    """One that was killed at 1,000 ms; `steps`: (step, ms)."""
    run = Recovered.__new__(Recovered)
    run.log, run.killed = log, 1000e6
    run.steps = [(step, at * 1e6) for step, at in steps]
    return run.after()


def test_recovery_time_ignores_longer_pauses_between_other_steps():
    assert recovered("[m0 r0] continuing after step 45 with the state of rank 0",
                     (44, 900), (45, 990), (46, 1266), (47, 1310), (48, 2251)) == (0, 266, 266)
    assert recovered("[m0 r0] continuing after step 46 with the state of rank 0",
                     (44, 100), (45, 990), (46, 1001), (47, 1300), (48, 1310)) == (0, 300, 300)


def test_recovery_counts_repeated_steps_before_first_new_step():
    assert recovered("[m0 r0] resuming at step 43", (43, 900), (44, 950), (45, 990), (44, 1400),
                     (45, 1450), (46, 1500)) == (2, 400, 500)
