"""The recording and alert rules, by promtool."""

import pathlib
import subprocess

import lint
import pytest
import yaml
from prometheus import RULES, program

HERE = pathlib.Path(__file__).resolve().parent
FILES = sorted(RULES.glob("*.yaml"))


def rules():
    for file in FILES:
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from group["rules"]


def promtool(*arguments):
    done = subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # promtool is built first
def test_promtool_and_its_linter_accept_the_rules():
    promtool("check", "rules", "--lint=all", "--lint-fatal", *FILES)


@pytest.mark.slow
def test_each_alert_fires_when_it_should_and_not_otherwise():
    promtool("test", "rules", HERE / "rules_test.yaml")


def test_promtool_tests_cover_each_alert():
    tests = yaml.safe_load((HERE / "rules_test.yaml").read_text())["tests"]
    tried = {each["alertname"] for test in tests for each in test.get("alert_rule_test", [])
             if each["exp_alerts"]}
    assert tried == {rule["alert"] for rule in rules() if "alert" in rule}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_use_only_documented_metrics(rule):
    assert lint.metrics_in(rule["expr"]) <= lint.known_metrics()
    if "alert" in rule:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
