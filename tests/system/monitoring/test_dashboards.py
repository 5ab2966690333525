"""The dashboards as files: made by tools/dashboards, and free of what our linter knows."""

import copy
import subprocess

import lint
import pytest
from panels import dashboards
from paths import ROOT


def test_dashboard_files_match_the_output_of_tools_dashboards():
    subprocess.run([ROOT / "tools/dashboards", "--check"], check=True)


@pytest.mark.parametrize("name", dashboards())
def test_linter_finds_no_problem_in_the_dashboard(name):
    assert lint.problems(dashboards()[name]) == []


def test_each_dashboard_stays_far_below_the_size_limit_of_a_configmap():
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
def test_linter_reports_a_mistake_in_a_dashboard(change, complaint):
    made = copy.deepcopy(dashboards()["fleet"])
    change(made)
    assert any(complaint in problem for problem in lint.problems(made)), lint.problems(made)
