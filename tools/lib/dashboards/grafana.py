"""Grafana's classic dashboard JSON, as far as Lockstep's two dashboards use it.

    dashboard("lockstep-job", "Lockstep / Job", "...", [namespace], [
        Row("Training", [
            timeseries("Loss", "What the ranks report.", "short", Query("avg(loss)", "mean")),
        ]),
    ])

Positions and ids follow from the order; panels are as wide as they say and wrap at 24 columns.
"""

import dataclasses

COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# What every dashboard and link goes by: Grafana lists dashboards with this tag as links.
TAG = "lockstep"
# Of Grafana 11, which later ones bring up to date by themselves.
SCHEMA_VERSION = 39


@dataclasses.dataclass
class Query:
    expr: str
    legend: str = ""
    instant: bool = False


@dataclasses.dataclass
class Row:
    title: str
    panels: list
    collapsed: bool = False


@dataclasses.dataclass
class State:
    """One value of a state timeline."""
    name: str
    color: str


def timeseries(title, description, unit, *queries, width=8, height=8, stacked=None, bars=False,
               from_zero=True, colors=None, **defaults):
    """`stacked`: "normal", or "percent" for shares of their sum. `bars`: for events, counted by the
    minute at least. `colors`: of lines with a name that is known before."""
    custom = {"drawStyle": "bars" if bars else "line", "lineWidth": 1, "showPoints": "never",
              "fillOpacity": 60 if bars or stacked else 0, "spanNulls": False}
    if stacked:
        custom["stacking"] = {"mode": stacked, "group": "A"}
    options = {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"}}
    if from_zero:
        defaults["min"] = 0
    panel = _panel("timeseries", title, description, unit, queries, width, height, options,
                   {"custom": custom, "color": {"mode": "palette-classic"}, **defaults})
    panel["fieldConfig"]["overrides"] = [
        _override(name, {"color": {"mode": "fixed", "fixedColor": color}})
        for name, color in (colors or {}).items()]
    if bars:
        panel["interval"] = "1m"
    return panel


def stat(title, description, unit, query, width=4, height=4, text="value", mappings=(),
         thresholds=None, **defaults):
    """`thresholds`: [(None, color), (value, color), ...], upwards. `mappings`: value -> State."""
    options = {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "none",
               "justifyMode": "auto", "orientation": "auto", "textMode": text,
               "wideLayout": True, "showPercentChange": False, "percentChangeColorMode": "standard"}
    if mappings:
        defaults["mappings"] = [_mapping(mappings)]
    return _panel("stat", title, description, unit, [query], width, height, options,
                  {"thresholds": _thresholds(thresholds), "color": {"mode": "thresholds"},
                   **defaults})


def gauge(title, description, query, width=4, height=4, thresholds=None):
    """A share between 0 and 1."""
    options = {"reduceOptions": _LAST, "orientation": "auto", "sizing": "auto",
               "minVizWidth": 75, "minVizHeight": 75, "showThresholdLabels": False,
               "showThresholdMarkers": False, "shape": "gauge", "barShape": "flat",
               "barWidthFactor": 0.4, "segmentCount": 1, "segmentSpacing": 0.3, "effects": {}}
    return _panel("gauge", title, description, "percentunit", [query], width, height, options,
                  {"min": 0, "max": 1, "thresholds": _thresholds(thresholds),
                   "color": {"mode": "thresholds"}})


def bar_gauge(title, description, unit, *queries, width=8, height=8, thresholds=None, **defaults):
    options = {"reduceOptions": _LAST, "orientation": "horizontal", "displayMode": "basic",
               "valueMode": "color", "namePlacement": "auto", "showUnfilled": True,
               "sizing": "auto", "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 300,
               "legend": {"showLegend": False, "displayMode": "hidden", "placement": "bottom",
                          "calcs": []}}
    defaults.setdefault("min", 0)
    return _panel("bargauge", title, description, unit, queries, width, height, options,
                  {"thresholds": _thresholds(thresholds), "color": {"mode": "thresholds"},
                   **defaults})


def state_timeline(title, description, query, states, width=24, height=5):
    """`states`: value -> State."""
    options = {"mergeValues": True, "showValue": "auto", "rowHeight": 0.9, "alignValue": "left",
               "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom",
                          "calcs": []},
               "tooltip": {"mode": "single", "sort": "none"}}
    return _panel("state-timeline", title, description, "none", [query], width, height, options,
                  {"custom": {"fillOpacity": 80, "lineWidth": 0}, "mappings": [_mapping(states)],
                   "color": {"mode": "thresholds"}, "thresholds": _thresholds(None)})


def table(title, description, columns, keys, width=24, height=8, link=None):
    """One line for each set of `keys` (label -> heading); `columns`: [(heading, unit, expr)].
    `link`: (title, url) of each line, behind its last key."""
    queries = [Query(expr, instant=True) for _, _, expr in columns]
    names = {f"Value #{_ref(i)}": heading for i, (heading, _, _) in enumerate(columns)}
    order = [*keys, *names]
    organize = {"id": "organize", "options": {
        "excludeByName": {"Time": True},
        "indexByName": {name: i for i, name in enumerate(order)},
        "renameByName": {**keys, **names}}}
    overrides = [_override(heading, {"unit": unit}) for heading, unit, _ in columns]
    if link:
        overrides.append(_override(list(keys.values())[-1],
                                   {"links": [{"title": link[0], "url": link[1]}]}))
    options = {"showHeader": True, "cellHeight": "sm", "frameIndex": 0}
    panel = _panel("table", title, description, "none", queries, width, height, options,
                   {"custom": {"align": "auto", "inspect": False,
                               "cellOptions": {"type": "auto"}},
                    "color": {"mode": "thresholds"}, "thresholds": _thresholds(None)})
    for target in panel["targets"]:
        target["format"] = "table"
    panel["transformations"] = [{"id": "merge", "options": {}}, organize]
    panel["fieldConfig"]["overrides"] = overrides
    return panel


def query_variable(name, label, query, all_value=False):
    """A variable whose values Prometheus knows: `query` as label_values(METRIC, LABEL)."""
    variable = {"name": name, "label": label, "type": "query", "datasource": DATASOURCE,
                "query": {"query": query, "refId": "Variable"}, "refresh": 2, "sort": 1,
                "multi": all_value, "includeAll": all_value, "hide": 0}
    if all_value:
        variable["allValue"] = ".*"
        variable["current"] = {"text": ["All"], "value": ["$__all"]}
    return variable


def dashboard(uid, title, description, variables, rows):
    source = {"name": "datasource", "label": "Data source", "type": "datasource",
              "query": "prometheus", "refresh": 1, "hide": 0}
    link = {"title": "Lockstep", "type": "dashboards", "tags": [TAG], "asDropdown": False,
            "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "dashboard",
            "tooltip": "The other dashboards of Lockstep"}
    return {
        "uid": uid, "title": title, "description": description, "tags": [TAG], "editable": True,
        "schemaVersion": SCHEMA_VERSION, "version": 1, "graphTooltip": 1, "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "timepicker": {},
        "annotations": {"list": []}, "links": [link],
        "templating": {"list": [source, *variables]}, "panels": _place(rows)}


# ---- the parts of a panel ----

_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}


def _panel(kind, title, description, unit, queries, width, height, options, defaults):
    return {"type": kind, "title": title, "description": description, "datasource": DATASOURCE,
            "gridPos": {"w": width, "h": height}, "options": options,
            "fieldConfig": {"defaults": {"unit": unit, **defaults}, "overrides": []},
            "targets": [_target(i, query) for i, query in enumerate(queries)]}


def _target(index, query):
    return {"refId": _ref(index), "datasource": DATASOURCE, "editorMode": "code",
            "expr": query.expr, "legendFormat": query.legend, "format": "time_series",
            "instant": query.instant, "range": not query.instant}


def _ref(index):
    return chr(ord("A") + index)


def _mapping(states):
    return {"type": "value", "options": {
        str(value): {"text": state.name, "color": state.color, "index": i}
        for i, (value, state) in enumerate(states.items())}}


def _thresholds(steps):
    return {"mode": "absolute", "steps": [
        {"color": color, "value": value} for value, color in steps or [(None, "blue")]]}


def _override(field, properties):
    return {"matcher": {"id": "byName", "options": field},
            "properties": [{"id": name, "value": value} for name, value in properties.items()]}


def _place(rows):
    """All panels with ids and positions; a collapsed row holds its own."""
    placed, top, number = [], 0, 0
    for row in rows:
        number += 1
        head = {"type": "row", "title": row.title, "id": number, "collapsed": row.collapsed,
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1}, "panels": []}
        placed.append(head)
        top += 1
        into = head["panels"] if row.collapsed else placed
        left = tallest = 0
        for panel in row.panels:
            width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
            if left + width > COLUMNS:
                left, top, tallest = 0, top + tallest, 0
            number += 1
            into.append({"id": number, **panel,
                         "gridPos": {"x": left, "y": top, "w": width, "h": height}})
            left += width
            tallest = max(tallest, height)
        # What lies in a collapsed row takes no room until it is opened.
        top += 0 if row.collapsed else tallest
    return placed
