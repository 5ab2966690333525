"""A dashboard as one picture, drawn of what a Prometheus answers. It is not Grafana: it shows what
is on which panel, with real data."""

import re

from panels import answers

from preview import units
from preview.canvas import BACKGROUND, BORDER, FAINT, PANEL, TEXT, Canvas
from preview.plots import DRAW, NO_DATA, Box, Times, table

WIDTH, MARGIN, GAP, HEAD = 1440, 16, 8, 84
# Seconds. The panels' own minute is for the hours that people look at, and a run has minutes.
SHORTEST_BARS = 10
ROW = 38  # of one unit of a grid position's height
COLUMN = (WIDTH - 2 * MARGIN + GAP) / 24


def draw(dashboard, api, view):
    """The SVG's text. Collapsed rows are shown open."""
    placed = list(_placed(dashboard))
    height = HEAD + MARGIN + max(y + panel["gridPos"]["h"] for panel, y in placed) * ROW
    canvas = Canvas(WIDTH, height)
    canvas.rectangle(0, 0, WIDTH, height, BACKGROUND)
    _head(canvas, dashboard, view)
    for panel, y in placed:
        box = Box(MARGIN + panel["gridPos"]["x"] * COLUMN, HEAD + y * ROW,
                  panel["gridPos"]["w"] * COLUMN - GAP, panel["gridPos"]["h"] * ROW - GAP)
        if panel["type"] == "row":
            fake = "; here of a fake exporter" if panel["title"].startswith("GPUs") else ""
            canvas.text(box.x, box.y + 21, f"⌄  {panel['title']}{fake}", 16, TEXT, weight=500)
        else:
            _panel(canvas, box, panel, api, view)
    return canvas.svg()


def _placed(dashboard):
    """Each panel and row with its height on the page."""
    below = 0
    for panel in dashboard["panels"]:
        yield panel, panel["gridPos"]["y"] + below
        nested = panel.get("panels", [])
        for each in nested:
            yield each, each["gridPos"]["y"] + below
        if nested:
            below += max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in nested)
            below -= panel["gridPos"]["y"] + 1


def _head(canvas, dashboard, view):
    canvas.text(MARGIN, 32, dashboard["title"], 20, TEXT, weight=500)
    canvas.text(WIDTH - MARGIN, 32, "Preview, drawn by Lockstep's tests of a real run's data; "
                "not Grafana", 13, FAINT, "end")
    x = MARGIN
    shown = {"Data source": "Prometheus"}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            value = "All" if variable["includeAll"] else getattr(view, variable["name"])
            shown[variable["label"]] = value
    for name, value in shown.items():
        words = f"{name}   {value}"
        width = len(words) * 7.2 + 20
        canvas.rectangle(x, 46, width, 26, PANEL, BORDER, 3)
        canvas.text(x + 10, 63, words, 12, TEXT)
        x += width + 8


def _panel(canvas, box, panel, api, view):
    canvas.rectangle(box.x, box.y, box.width, box.height, PANEL, BORDER, 3)
    canvas.text(box.x + 10, box.y + 20, panel["title"], 13, TEXT, weight=500, room=box.width - 16)
    inner = Box(box.x + 10, box.y + 32, box.width - 20, box.height - 38)
    if panel["type"] == "table":
        table(canvas, inner, *_cells(panel, api, view))
        return
    step = max(view.step, SHORTEST_BARS if "interval" in panel else 0)
    lines = [(_name(target["legendFormat"], labels), points) for target in panel["targets"]
             for labels, points in answers(api, target, view, step)]
    if panel["type"] in ("timeseries", "state-timeline"):
        lines.sort(key=lambda line: [int(part) if part.isdigit() else part
                                     for part in re.split(r"(\d+)", line[0])])
    if lines:
        DRAW[panel["type"]](canvas, inner, panel, lines, Times(view.start, view.end, step))
    else:
        words = panel["fieldConfig"]["defaults"].get("noValue", NO_DATA)
        canvas.text(inner.x + inner.width / 2, inner.y + inner.height / 2, words, 14, FAINT,
                    "middle")


def _name(form, labels):
    return re.sub(r"{{(\w+)}}", lambda name: labels.get(name[1], ""), form) or "value"


def _cells(panel, api, view):
    """Headings and rows, as the panel's transformations make them."""
    organize = panel["transformations"][-1]["options"]
    names = organize["renameByName"]
    keys = [name for name in names if not name.startswith("Value #")]
    unit = {each["matcher"]["options"]: part["value"]
            for each in panel["fieldConfig"]["overrides"]
            for part in each["properties"] if part["id"] == "unit"}
    rows = {}
    for target in panel["targets"]:
        heading = names[f"Value #{target['refId']}"]
        for labels, points in answers(api, target, view):
            row = rows.setdefault(tuple(labels[key] for key in keys), {})
            row[heading] = units.text(points[-1][1], unit[heading])
    headings = sorted(names, key=organize["indexByName"].get)
    values = [names[name] for name in headings if name not in keys]
    return ([names[name] for name in headings],
            [[*key, *[row.get(heading, "") for heading in values]] for key, row in
             sorted(rows.items())])
