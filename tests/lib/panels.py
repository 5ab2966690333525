"""The chart's dashboards as data, and what a Prometheus answers to each of their panels.

    problems = check_panels("http://127.0.0.1:9090", "ml", "gpt", time.time() - 60, time.time())
"""

import dataclasses
import json
import re

from paths import ROOT
from prometheus import INTERVAL, Api

FOLDER = ROOT / "helm/lockstep/dashboards"
STEPS = 120  # points of a picture


def dashboards():
    """By file name."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))}


def panels(dashboard):
    """All but rows; those in collapsed rows, too."""
    for panel in dashboard["panels"]:
        yield from panel["panels"] if panel["type"] == "row" else [panel]


@dataclasses.dataclass
class View:
    """What a person looks at: one job, from `start` to `end` (seconds since 1970)."""

    namespace: str
    trainingjob: str
    start: float
    end: float

    @property
    def step(self):
        return max(INTERVAL, (self.end - self.start) / STEPS)

    def fill(self, text, step=None):
        """Variables replaced as Grafana does; it looks back four scrapes at least for a rate."""
        step = step or self.step
        values = {"namespace": self.namespace, "trainingjob": self.trainingjob,
                  "__range": f"{self.end - self.start:.0f}s",
                  "__rate_interval": f"{max(4 * INTERVAL, step + INTERVAL):.0f}s"}
        return re.sub(r"\$([a-z_]\w*)", lambda name: values[name[1]], text)


def answers(api, target, view, step=None):
    """[(labels, [(time, value)])] of a panel's query; one point a line if it is instant."""
    step = step or view.step
    expr = view.fill(target["expr"], step)
    if not target["instant"]:
        return [line for line in api.range(expr, view.start, view.end, step) if line[1]]
    return [(labels, [(view.end, value)]) for labels, value in api.instant(expr, view.end)
            if value == value]  # without NaN


def check_panels(url, namespace, trainingjob, start, end, without=()):
    """What is wrong, a line each: queries and variables that fail or have no answer. Queries that
    name one of the metrics in `without` may be empty."""
    api, view = Api(url), View(namespace, trainingjob, start, end)
    return [problem for dashboard in dashboards().values()
            for problem in [*_check_variables(api, dashboard, view),
                            *_check_queries(api, dashboard, view, without)]]


def _check_queries(api, dashboard, view, without):
    for panel in panels(dashboard):
        for target in panel["targets"]:
            where = f"{dashboard['title']}, {panel['title']!r}, query {target['refId']}"
            try:
                empty = not answers(api, target, view)
            except RuntimeError as error:
                yield f"{where}: {error}: {view.fill(target['expr'])}"
                continue
            if empty and not any(name in target["expr"] for name in without):
                yield f"{where}: no data: {view.fill(target['expr'])}"


def _check_variables(api, dashboard, view):
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        query = variable["query"]["query"]
        metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
        if getattr(view, variable["name"]) not in api.label_values(
                view.fill(metric), label, view.start, view.end):
            yield f"{dashboard['title']}, variable {variable['name']}: not found by {query}"
