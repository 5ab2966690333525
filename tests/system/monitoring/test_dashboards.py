"""The dashboards as files: made by tools/dashboards, and free of what our linter knows."""

import copy
import subprocess

import lint
import pytest
from panels import dashboards
from paths import ROOT


def test_the_files_are_those_that_the_tool_makes():
    subprocess.run([ROOT / "tools/dashboards", "--check"], check=True)


@pytest.mark.parametrize("name", dashboards())
def test_the_linter_is_content(name):
    assert lint.problems(dashboards()[name]) == []


def test_both_stay_far_below_what_a_configmap_can_hold():
    for name, dashboard in dashboards().items():
        assert len(str(dashboard)) < 256 * 1024, name


def _panel(made):
    [panel] = [each for each in made["panels"] if each["title"] == "Jobs by state"]
    return panel


def _change(panel=None, dashboard=None):
    def change(made):
        if panel:
            panel(_panel(made))
        if dashboard:
            dashboard(made)
    return change


@pytest.mark.parametrize("change, complaint", [
    (_change(lambda panel: panel.update(id=1)), "id 1 stands twice"),
    (_change(lambda panel: panel["gridPos"].update(w=14)), "overlap"),
    (_change(lambda panel: panel["gridPos"].update(x=20)), "beyond the right edge"),
    (_change(lambda panel: panel.update(description="")), "has no description"),
    (_change(lambda panel: panel.update(type="graph")), "deprecated"),
    (_change(lambda panel: panel["fieldConfig"]["defaults"].pop("unit")), "unit None"),
    (_change(lambda panel: panel["targets"][0].update(expr="up{job='$cluster'}")),
     "variable cluster is used and not declared"),
    (_change(lambda panel: panel["targets"][0].update(expr="lockstep_no_such_total")),
     "does not know lockstep_no_such_total"),
    (_change(lambda panel: panel["targets"].append(panel["targets"][0])), "two of one name"),
    (_change(dashboard=lambda made: made["templating"]["list"].append({"name": "cluster"})),
     "variable cluster is not used"),
    (_change(dashboard=lambda made: made.update(links=[])), "no link"),
])
def test_the_linter_finds_what_is_wrong(change, complaint):
    made = copy.deepcopy(dashboards()["fleet"])
    change(made)
    assert any(complaint in problem for problem in lint.problems(made)), lint.problems(made)
