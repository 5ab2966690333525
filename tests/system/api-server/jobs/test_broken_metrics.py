"""Rules about metrics on a real API server, with the real operator and real agents."""

import json
import sys

from broken_loss import TRAIN, undisturbed
from paths import ROOT
from waiting import wait_until

ONE = {"numMachines": 1, "processesPerMachine": 1}
PRINTS = """for step in 1 2 3; do echo "step $step/9 loss 2.$step"; sleep 0.1; done
echo "step 4/9 loss nan"
while true; do sleep 0.1; done"""


def rules(**rule):
    return {"rules": [{"metric": "loss", "is": "NotFinite", **rule}]}


def condition(status):
    return next((each for each in status.get("conditions", []) if each["type"] == "MetricBroken"), {})


def test_rule_that_reports_sets_a_condition_and_an_event_while_the_gang_goes_on(jobs):
    jobs.apply("gpt", PRINTS, **ONE, failurePolicy=rules())
    status = jobs.wait("gpt", lambda s: condition(s).get("status") == "True", "the condition")
    assert condition(status)["message"] == "rank 0 on machine 0: loss was NaN at step 4"
    assert status["state"] == "Running" and status["restarts"]["total"] == 0

    def told():
        found = json.loads(jobs.kubectl("get", "events", "-o", "json"))["items"]
        return [each["message"] for each in found if each["reason"] == "MetricBroken"]

    assert "loss was NaN at step 4" in wait_until(told, "the event", 60)[0]


def test_rule_that_fails_names_metric_rank_step_and_value_in_status_and_describe(jobs):
    jobs.apply("gpt", PRINTS, **ONE, failurePolicy=rules(action="Fail"))
    status = jobs.wait_state("gpt", "Failed")
    failure = status["lastFailure"]
    assert (failure["cause"], failure["rank"], failure["step"]) == ("BrokenMetric", 0, 4)
    assert failure["message"] == "rank 0 on machine 0: loss was NaN at step 4"
    assert "rank 0 on machine 0: loss was NaN at step 4" in jobs.kubectl("describe", "tj", "gpt")


def test_rule_that_restarts_resumes_before_the_step_and_leaves_its_data_out(jobs, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    jobs.apply("gpt", f"exec {sys.executable} {tmp_path}/train.py", **ONE,
               env=[{"name": "PYTHONPATH", "value": str(ROOT / "worker/python")}],
               checkpoint={"path": str(tmp_path / "ckpt")},
               failurePolicy=rules(action="RestartFromEarlier", skipSteps=1))
    status = jobs.wait_state("gpt", "Succeeded")
    [ended] = [each for each in status["history"] if each["cause"] == "BrokenMetric"]
    assert status["restarts"]["application"] == 1, ended
    log = jobs.kubelet.log("gpt-0")
    assert "begins at 401 skips 500-500" in log and f"bits {undisturbed(500)} False" in log
