"""lockstep.train(cluster=True): a function on real agents under a real operator and API server."""

import sys
import types

import lockstep
import pytest
from lockstep_client import cluster

PATIENCE = 120


@pytest.fixture
def far(kubelet, there, monkeypatch):
    # These pods have no kubelet that serves logs.
    monkeypatch.setattr(cluster._Api, "log",
                        lambda self, pod: iter(kubelet.log(pod).splitlines()))
    return {**there, "cluster": True, "image": "example.com/test:1", "python": sys.executable,
            "scheduler_name": "nobody", "topology": lockstep.Topology(bind="None"),
            "timeout": PATIENCE, "framework": "None", "echo": False}


def test_a_function_with_its_module_runs_there_and_rank_0_gives_the_value(far):
    own = types.ModuleType("own_module")
    exec("def twice(x): return 2 * x", own.__dict__)
    sys.modules["own_module"] = own
    try:
        def fit(plus):
            import os
            import random

            import lockstep as inside
            noise = random.Random(0).randbytes(20_000)  # its text takes four lines
            return own.twice(int(os.environ["WORLD_SIZE"])) + plus, inside.generation(), noise

        value = lockstep.train(fit, machines=2, processes=2, kwargs={"plus": 1}, modules=[own],
                               **far)
    finally:
        del sys.modules["own_module"]
    assert value[:2] == (9, "1-1") and len(value[2]) == 20_000

    def fails():
        import os
        if os.environ["RANK"] == "1":
            raise ValueError("boom")

    with pytest.raises(lockstep.JobFailed) as caught:
        lockstep.train(fails, processes=2, **far)
    assert caught.value.rank == 1 and str(caught.value).endswith("| ValueError: boom")
