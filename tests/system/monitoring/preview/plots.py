"""One function a type of panel: draws its answers into a box of a canvas.

`lines` holds [(name, [(time, value)])] for all of the panel's queries together.
"""

import datetime
import math
import typing

from preview import units
from preview.canvas import BORDER, FAINT, GRID, SERIES, TEXT, color, words_width

LEGEND = 11  # size of its words
NO_DATA = "no data: this run had no GPU"


class Times(typing.NamedTuple):
    """Seconds since 1970; `step` lies between two points of a line."""

    start: float
    end: float
    step: float


class Box:
    def __init__(self, x, y, width, height):
        self.x, self.y, self.width, self.height = x, y, width, height
        self.right, self.bottom = x + width, y + height


def timeseries(canvas, box, panel, lines, view):
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults["custom"]
    fixed = {each["matcher"]["options"]: each["properties"][0]["value"]["fixedColor"]
             for each in panel["fieldConfig"]["overrides"]}
    colors = {name: color(fixed.get(name, SERIES[i % len(SERIES)]))
              for i, (name, _) in enumerate(lines)}
    bottom = legend(canvas, box, [(name, colors[name]) for name, _ in lines])
    stacked = custom.get("stacking", {}).get("mode")
    if stacked:
        lines = stack(lines, view)
    values = [value for _, points in lines for _, value in points]
    low = defaults.get("min", min(values))
    marks = units.ticks(low, defaults.get("max", max([*values, low])), 4, defaults["unit"])
    labels = [units.text(mark, defaults["unit"]) for mark in marks]
    left = box.x + max(words_width(label, 11) for label in labels) + 10
    plot = Box(left, box.y + 4, box.right - left - 4, bottom - box.y - 24)

    def place(at, value):
        share = (value - marks[0]) / (marks[-1] - marks[0])
        x = plot.x + plot.width * (at - view.start) / (view.end - view.start)
        return x, plot.bottom - plot.height * min(1.0, max(0.0, share))

    for mark, label in zip(marks, labels, strict=True):
        y = place(view.start, mark)[1]
        canvas.line(plot.x, y, plot.right, y, GRID)
        canvas.text(plot.x - 6, y + 4, label, 11, FAINT, "end")
    time_axis(canvas, plot, view)
    if custom["drawStyle"] == "bars":
        _bars(canvas, lines, colors, place, view, marks[0])
    else:
        _curves(canvas, lines, colors, place, view, custom["fillOpacity"] / 100, bool(stacked))


def _bars(canvas, lines, colors, place, view, ground):
    width = max(2.0, 0.7 * (place(view.start + view.step, 0)[0] - place(view.start, 0)[0]))
    # The upper ones first: a stack's line holds the sum of those below it.
    for name, points in reversed(lines):
        for at, value in points:
            if value > ground:
                x, y = place(at, value)
                canvas.rectangle(x - width / 2, y, width, place(at, ground)[1] - y, colors[name],
                                 opacity=0.9)


def _curves(canvas, lines, colors, place, view, opacity, stacked):
    for name, points in reversed(lines):
        for piece in pieces(points, view):
            along = [place(*point) for point in piece]
            ground = [(along[-1][0], place(view.start, 0)[1]), (along[0][0],
                                                                place(view.start, 0)[1])]
            if stacked:  # opaque, so that each shows its own part alone
                canvas.path([*along, *ground], fill="#181b1f")
            if opacity:
                canvas.path([*along, *ground], fill=colors[name], opacity=opacity)
            if len(along) == 1:
                canvas.circle(*along[0], 2, colors[name])
            canvas.path(along, stroke=colors[name])


def pieces(points, view):
    """Parts without a gap."""
    found = [[points[0]]]
    for point in points[1:]:
        if point[0] - found[-1][-1][0] > 1.5 * view.step:
            found.append([])
        found[-1].append(point)
    return found


def stack(lines, view):
    """Each line on top of those before it."""
    below, stacked = {}, []
    for name, points in lines:
        sums = []
        for at, value in points:
            key = round((at - view.start) / view.step)
            below[key] = below.get(key, 0.0) + value
            sums.append((at, below[key]))
        stacked.append((name, sums))
    return stacked


def time_axis(canvas, plot, view):
    span = view.end - view.start
    step = next(each for each in (10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 1e9)
                if each * plot.width / span >= 70)
    at = math.ceil(view.start / step) * step
    while at <= view.end - 20 * span / plot.width:  # half of a label's width
        x = plot.x + plot.width * (at - view.start) / span
        moment = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
        canvas.text(x, plot.bottom + 16, moment.strftime("%H:%M:%S" if step < 60 else "%H:%M"), 11,
                    FAINT, "middle")
        at += step


def legend(canvas, box, entries):
    """At the box's foot, in two lines at most; the height where it begins."""
    rows, x = [[]], box.x
    for name, fill in entries:
        width = 20 + words_width(name, LEGEND) + 12
        if x + width > box.right and rows[-1]:
            rows.append([])
            x = box.x
        rows[-1].append((x, name, fill))
        x += width
    shown, left_out = rows[:2], sum(map(len, rows[2:]))
    top = box.bottom - 17 * len(shown)
    for number, row in enumerate(shown):
        y = top + 17 * number + 13
        for x, name, fill in row:
            canvas.rectangle(x, y - 5, 12, 3, fill)
            canvas.text(x + 17, y, name, LEGEND, TEXT, room=box.right - x - 17)
    if left_out:
        canvas.text(box.right, box.bottom - 4, f"+ {left_out}", LEGEND, FAINT, "end")
    return top


def shade(panel, value):
    """The colour of a value: of its mapping, else of its threshold."""
    defaults = panel["fieldConfig"]["defaults"]
    for mapping in defaults.get("mappings", []):
        if str(int(value)) in mapping["options"]:
            return color(mapping["options"][str(int(value))]["color"])
    steps = defaults["thresholds"]["steps"]
    return color([step["color"] for step in steps
                  if step["value"] is None or value >= step["value"]][-1])


def said(panel, value):
    defaults = panel["fieldConfig"]["defaults"]
    for mapping in defaults.get("mappings", []):
        if str(int(value)) in mapping["options"]:
            return mapping["options"][str(int(value))]["text"]
    return units.text(value, defaults["unit"], defaults.get("decimals"))


def stat(canvas, box, panel, lines, _):
    value = lines[0][1][-1][1]
    words = said(panel, value)
    size = min(34, box.width / max(4, len(words)) / 0.6)
    canvas.text(box.x + box.width / 2, box.y + box.height / 2 + size / 3, words, size,
                shade(panel, value), "middle", 500)


def gauge(canvas, box, panel, lines, _):
    value = lines[0][1][-1][1]
    radius = min(box.width / 2 - 12, box.height - 16)
    x, y = box.x + box.width / 2, box.y + radius + 8
    share = min(1.0, max(0.0, value))

    def at(part):
        angle = math.pi * (1 - part)
        return x + radius * math.cos(angle), y - radius * math.sin(angle)

    canvas.arc(x, y, radius, at(0), at(1), BORDER, 14)
    if share > 0:
        canvas.arc(x, y, radius, at(0), at(share), shade(panel, value), 14)
    canvas.text(x, y - 2, said(panel, value), 20, shade(panel, value), "middle", 500)


def bargauge(canvas, box, panel, lines, _):
    defaults = panel["fieldConfig"]["defaults"]
    highest = defaults.get("max") or max(points[-1][1] for _, points in lines) or 1
    room = min(30, box.height / len(lines))
    names = min(box.width * 0.4, max(words_width(name, 11) for name, _ in lines) + 8)
    for number, (name, points) in enumerate(lines):
        value, y = points[-1][1], box.y + number * room
        canvas.text(box.x, y + room / 2 + 4, name, 11, TEXT, room=names)
        left, width = box.x + names, box.width - names - 78
        canvas.rectangle(left, y + 2, width, room - 4, "#22252b")
        canvas.rectangle(left, y + 2, width * min(1, value / highest), room - 4,
                         shade(panel, value), opacity=0.85)
        canvas.text(box.right, y + room / 2 + 4, said(panel, value), 12, shade(panel, value), "end")


def state_timeline(canvas, box, panel, lines, view):
    seen = {value: None for _, points in lines for _, value in points}
    bottom = legend(canvas, box, [(said(panel, value), shade(panel, value))
                                  for value in sorted(seen)])
    left = box.x + max(words_width(name, 11) for name, _ in lines) + 8
    plot = Box(left, box.y, box.right - left - 4, bottom - box.y - 22)
    room = plot.height / len(lines)
    scale = plot.width / (view.end - view.start)
    for number, (name, points) in enumerate(lines):
        y = plot.y + number * room
        canvas.text(left - 6, y + room / 2 + 4, name, 11, TEXT, "end")
        for start, end, value in spans(points, view):
            x = plot.x + (start - view.start) * scale
            width = (end - start) * scale
            canvas.rectangle(x, y + 2, width, room - 4, shade(panel, value), opacity=0.8)
            if width > words_width(said(panel, value), 11) + 8:
                canvas.text(x + 5, y + room / 2 + 4, said(panel, value), 11, "#0b0c0e")
    time_axis(canvas, plot, view)


def spans(points, view):
    """(start, end, value) of equal neighbours."""
    start, value = points[0]
    last = start
    for at, next_value in points[1:]:
        if next_value != value or at - last > 1.5 * view.step:
            yield start, min(at, last + view.step), value
            start, value = at, next_value
        last = at
    yield start, min(view.end, last + view.step), value


def table(canvas, box, headings, rows):
    """`rows`: texts."""
    width = box.width / len(headings)
    for number, cells in enumerate([headings, *rows]):
        y = box.y + 18 + number * 28
        for column, words in enumerate(cells):
            canvas.text(box.x + column * width, y, words, 12,
                        NAME_COLOR if number and column == 1 else TEXT if number else FAINT,
                        weight=400 if number else 600, room=width - 8)
        canvas.line(box.x, y + 9, box.right, y + 9, GRID)


NAME_COLOR = "#6E9FFF"  # of what is a link
DRAW = {"timeseries": timeseries, "stat": stat, "gauge": gauge, "bargauge": bargauge,
        "state-timeline": state_timeline}
