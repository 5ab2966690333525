"""What a good dashboard keeps to, beyond Grafana's types."""

import itertools
import re

from panels import dashboards, panels
from paths import ROOT

DOCS = ROOT / "docs/reference/metrics.md"
COLUMNS = 24
# graph, singlestat, table-old and their like are gone from Grafana, or going.
TYPES = {"bargauge", "gauge", "stat", "state-timeline", "table", "timeseries"}
# Grafana's ids of units, as far as they are used.
UNITS = {"none", "short", "percentunit", "s", "bytes", "Bps", "flops", "reqps", "watt", "celsius"}
# Variables that Grafana itself fills in.
BUILT_IN = {"__all", "__range", "__rate_interval", "__url_time_range", "__data"}


def problems(dashboard):
    """A line for each thing that is wrong."""
    return [problem for rule in RULES for problem in rule(dashboard)]


def metrics_in(expr):
    """Names of Lockstep's and DCGM's metrics in a query, without a histogram's suffixes."""
    without_strings = re.sub(r'"[^"]*"', '""', expr)
    names = re.findall(r"(?<![\w:])(?:lockstep|DCGM)_\w+", without_strings)
    known = known_metrics()
    return {name if name in known else re.sub("_(bucket|sum|count)$", "", name) for name in names}


def known_metrics():
    """As docs/reference/metrics.md lists them."""
    return set(re.findall(r"^\| `(\w+)`", DOCS.read_text(), re.M))


# ---- rules ----

def _ids(dashboard):
    everything = [*dashboard["panels"], *(nested for panel in dashboard["panels"]
                                          for nested in panel.get("panels", []))]
    ids = [panel["id"] for panel in everything]
    for twice in {each for each in ids if ids.count(each) > 1}:
        yield f"id {twice} stands twice"


def _positions(dashboard):
    # What a collapsed row holds lies over the next rows until it is opened.
    groups = [dashboard["panels"], *(each["panels"] for each in dashboard["panels"]
                                     if each.get("panels"))]
    for group in groups:
        for panel in group:
            if panel["gridPos"]["x"] + panel["gridPos"]["w"] > COLUMNS:
                yield f"{panel['title']!r} is beyond the right edge"
        for one, other in itertools.combinations(group, 2):
            if _overlap(one["gridPos"], other["gridPos"]):
                yield f"{one['title']!r} and {other['title']!r} overlap"


def _overlap(one, other):
    return (one["x"] < other["x"] + other["w"] and other["x"] < one["x"] + one["w"]
            and one["y"] < other["y"] + other["h"] and other["y"] < one["y"] + one["h"])


def _words(dashboard):
    if not dashboard.get("description"):
        yield "the dashboard has no description"
    titles = []
    for row in [dashboard["panels"], *(each.get("panels", []) for each in dashboard["panels"])]:
        titles += [panel["title"] for panel in row if panel["type"] == "row"]
    for panel in panels(dashboard):
        if not panel.get("description"):
            yield f"{panel['title']!r} has no description"
        elif not panel["description"].endswith("."):
            yield f"{panel['title']!r}: its description is not a sentence"
    for twice in {each for each in titles if titles.count(each) > 1}:
        yield f"row {twice!r} stands twice"


def _kinds(dashboard):
    for panel in panels(dashboard):
        if panel["type"] not in TYPES:
            yield f"{panel['title']!r}: type {panel['type']} is deprecated or unknown"


def _units(dashboard):
    for panel in panels(dashboard):
        units = [panel["fieldConfig"]["defaults"].get("unit")]
        units += [each["value"] for override in panel["fieldConfig"]["overrides"]
                  for each in override["properties"] if each["id"] == "unit"]
        for unit in units:
            if unit not in UNITS:
                yield f"{panel['title']!r}: unit {unit}"


def _variables(dashboard):
    declared = {each["name"] for each in dashboard["templating"]["list"]}
    text = str(dashboard["panels"]) + str(dashboard["templating"])
    used = {name for pair in re.findall(r"\$([a-z_]\w*)|\$\{(\w+)", text) for name in pair if name}
    for name in sorted(declared - used):
        yield f"variable {name} is not used"
    for name in sorted(used - declared - BUILT_IN):
        yield f"variable {name} is used and not declared"


def _queries(dashboard):
    for panel in panels(dashboard):
        refs = [target["refId"] for target in panel["targets"]]
        if not refs or len(set(refs)) < len(refs):
            yield f"{panel['title']!r} has no query, or two of one name"
        for target in panel["targets"]:
            if target["datasource"]["uid"] != "${datasource}":
                yield f"{panel['title']!r} asks a data source of its own"
            for name in sorted(metrics_in(target["expr"]) - known_metrics()):
                if not name.startswith("DCGM_"):
                    yield f"{panel['title']!r}: docs/reference/metrics.md does not know {name}"
            if panel["type"] == "timeseries" and not target["legendFormat"]:
                yield f"{panel['title']!r}: a query without a legend"


def _links(dashboard):
    others = {each["uid"]: each for each in dashboards().values()}
    if not any(link["type"] == "dashboards" and set(link["tags"]) & set(dashboard["tags"])
               for link in dashboard["links"]):
        yield "no link to the other dashboards"
    for uid, query in re.findall(r"/d/([\w-]+)\?([^'\"]*)", str(dashboard["panels"])):
        if uid not in others:
            yield f"a link leads to {uid}, which is none of ours"
            continue
        known = {each["name"] for each in others[uid]["templating"]["list"]}
        for name in sorted(set(re.findall(r"var-(\w+)=", query)) ^ known):
            yield f"a link to {uid} and its variables differ in {name}"


RULES = [_ids, _positions, _words, _kinds, _units, _variables, _queries, _links]
