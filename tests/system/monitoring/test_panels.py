"""Every panel of the dashboards, asked of a real Prometheus that scrapes a real job."""

import json
import time
from xml.etree import ElementTree

import pytest
from panels import View, answers, check_panels, dashboards, panels
from preview.page import draw
from prometheus import PATIENCE
from waiting import wait_until

pytestmark = pytest.mark.slow  # a Prometheus is built first

# Without kubelets the agents share this computer's cgroup, which may have no limits; and on one NUMA
# node no memory is far (tests/system/guests has this metric's samples of two). Of CPUs no peak is known.
# No rank of this job restarts alone, and this computer has no RDMA ports.
NOT_HERE = ("lockstep_memory_limit_bytes", "lockstep_cpu_throttled_seconds_total",
            "lockstep_rank_numa_memory_bytes", 'name="mfu"', "increase(lockstep_rank_restarts_total",
            "lockstep_machine_rdma_")


def test_every_panel_and_every_variable_has_data(watched_job):
    def problems():
        return check_panels(watched_job.prometheus.url, watched_job.namespace, watched_job.name,
                            watched_job.start, time.time(), without=NOT_HERE)

    # A rate needs a few scrapes of what happened last.
    wait_until(lambda: not problems(), lambda: "\n".join(problems()), 120, 1)


def test_samples_carry_the_labels_that_dashboards_ask_for(watched_job):
    pod = f"{watched_job.name}-1-r2"
    [(labels, _)] = watched_job.prometheus.wait(f'lockstep_rank_up{{pod="{pod}",rank="3"}}')
    assert labels["namespace"] == watched_job.namespace
    assert labels["trainingjob"] == watched_job.name
    assert labels["machine"] == "1"
    assert labels["container"] == "worker"


def test_panel_finds_gpus_under_both_label_forms_of_the_exporter(watched_job):
    api, namespace = watched_job.prometheus, watched_job.namespace
    plain = api.wait(f'DCGM_FI_DEV_GPU_UTIL{{namespace="{namespace}",exported_pod=""}}')
    renamed = api.wait(f'DCGM_FI_DEV_GPU_UTIL{{exported_namespace="{namespace}"}}')
    assert {labels["pod"] for labels, _ in plain} == {f"{watched_job.name}-0"}
    assert {labels["pod"] for labels, _ in renamed} == {"dcgm-exporter-1"}
    [panel] = [each for each in panels(dashboards()["job"]) if each["title"] == "GPU utilization"]

    def machines():
        view = View(namespace, watched_job.name, watched_job.start, time.time())
        return {labels["machine"] for labels, _ in answers(api, panel["targets"][0], view)}

    # The panel asks agent and exporter together, which may not have been scraped at the same step.
    wait_until(lambda: machines() == {"0", "1"}, "the GPUs of both machines", PATIENCE, 0.2)


def test_panel_shows_gpu_values_from_the_ranks_if_the_exporter_is_silent(watched_job):
    [panel] = [each for each in panels(dashboards()["job"]) if each["title"] == "Power"]
    [target] = panel["targets"]
    # Of the CPUs here no rank tells its power.
    silent = target["expr"].replace("DCGM_FI_DEV_POWER_USAGE", "no_such_metric")
    told = {**target, "expr": silent.replace("gpu_power_watts", "teraflops")}

    def gpus():
        view = View(watched_job.namespace, watched_job.name, watched_job.start, time.time())
        return {(labels["machine"], labels["gpu"])
                for labels, _ in answers(watched_job.prometheus, told, view)}

    wait_until(lambda: gpus() == {("0", "of rank 0"), ("0", "of rank 1"), ("1", "of rank 2"),
                                  ("1", "of rank 3")}, gpus, PATIENCE, 0.2)


def test_panel_check_reports_queries_without_data(watched_job):
    problems = check_panels(watched_job.prometheus.url, watched_job.namespace, "another",
                            watched_job.start, time.time())
    assert any("variable trainingjob" in problem for problem in problems), json.dumps(problems)
    assert any("'Loss'" in problem and "no data" in problem for problem in problems)


def test_preview_page_shows_the_title_of_every_panel(watched_job):
    view = View(watched_job.namespace, watched_job.name, watched_job.start, time.time())
    for dashboard in dashboards().values():
        words = [each.text for each in ElementTree.fromstring(
            draw(dashboard, watched_job.prometheus, view)).iter() if each.text]
        assert {panel["title"] for panel in panels(dashboard)} <= set(words)
        assert any("not Grafana" in each for each in words)


def test_no_rule_fails_and_no_alert_fires_for_a_healthy_job(watched_job):
    groups = watched_job.prometheus.rules()
    health = {rule["name"]: (rule["health"], rule.get("lastError")) for group in groups
              for rule in group["rules"]}
    assert set(health.values()) == {("ok", None)}, health
    firing = [rule["name"] for group in groups for rule in group["rules"]
              if rule.get("state") == "firing"]
    assert firing == []
