"""The pure parts of the page, by themselves in the browser: texts, changes of the view, the time strip."""

import json
import subprocess

import pytest
from made_up import view
from paths import ROOT

SOURCES = ROOT / "cli/ui/page"


@pytest.fixture(scope="module")
def model(chromium):
    """model(expression, argument): its value, where `text`, `view` and `model` are the page's modules."""
    page = chromium.new_page()
    for name in ("text", "view", "model"):
        script = subprocess.run(["esbuild", SOURCES / f"{name}.js", "--bundle", "--format=iife",
                                 f"--global-name={name}"], check=True, capture_output=True, text=True)
        page.evaluate(f"() => {{ {script.stdout}; globalThis.{name} = {name} }}")
    yield lambda expression, argument=None: page.evaluate(f"(it) => {expression}", argument)
    page.close()


def listed(start, *items, dropped=0):
    return {"from": start, "dropped": dropped, "items": list(items)}


def merged(model, *answers):
    keep = "{ events: v.events, generations: v.generations, series: v.series, dropped: v.dropped }"
    return model(f"(() => {{ let v = null; for (const a of it) v = view.merge(v, a); return {keep} }})()",
                 [{"format": 1, "version": n, **each} for n, each in enumerate(answers, start=1)])


@pytest.mark.parametrize("seconds, said", [
    (0.0034, "3.4 ms"), (0.0999, "100 ms"), (0.9996, "1.0 s"), (59.94, "59.9 s"), (59.96, "1m00s"),
    (3599.6, "1h00m"), (7384, "2h03m"), (86400 * 4 + 7200, "4d02h"), (None, "–")])
def test_durations_keep_what_matters(model, seconds, said):
    assert model("text.brief(it)", seconds) == said


@pytest.mark.parametrize("value, said", [
    (0, "0"), (2.523, "2.52"), (0.00012, "1.2e-4"), (0.0523, "0.0523"), (65800, "65.8k"),
    (1.2e6, "1.20M"), (-3.25, "-3.25"), (None, "–")])
def test_figures_keep_three_digits(model, value, said):
    assert model("text.short(it)", value) == said


def test_changes_replace_the_end_of_lists_and_what_has_not_changed_stays(model):
    now = merged(model, {"events": listed(0, "a", "b"), "generations": listed(0, "1-1")},
                 {"events": listed(1, "B", "c")}, {})
    assert now["events"] == ["a", "B", "c"] and now["generations"] == ["1-1"]


def test_events_that_the_server_dropped_leave_the_page_too(model):
    now = merged(model, {"events": listed(0, "a", "b", "c")},
                 {"events": listed(1, "d", dropped=2)})
    assert now["events"] == ["c", "d"] and now["dropped"]["events"] == 2


def test_column_of_a_curve_that_comes_later_begins_with_nothing(model):
    now = merged(model, {"series": {"from": 0, "t": [1, 2], "step": [5, 6]}},
                 {"series": {"from": 2, "t": [3], "step": [7], "loss": [0.5]}})
    assert now["series"] == {"t": [1, 2, 3], "step": [5, 6, 7], "loss": [None, None, 0.5]}


def test_thinned_curve_replaces_the_old_one(model):
    now = merged(model, {"series": {"from": 0, "t": [1, 2, 3], "step": [5, 6, 7]}},
                 {"series": {"from": 0, "t": [1, 3], "step": [5, 7]}})
    assert now["series"] == {"t": [1, 3], "step": [5, 7]}


def test_view_of_another_format_is_refused(model):
    said = model("(() => { try { view.merge(null, it) } catch (error) { return error.message } })()",
                 {"format": 2, "version": 1})
    assert "format 1" in said and "reload" in said


def test_time_strip_has_every_moment_once(model):
    made = view()
    segments = model("model.timeline(it)", {"generations": made["generations"]["items"], "now": 60.0,
                                            "live": True, "step": 310})
    assert segments[0]["from"] == 0 and segments[-1]["to"] == 60.0
    for one, next_one in zip(segments, segments[1:]):
        assert abs(one["to"] - next_one["from"]) < 1e-9, json.dumps(segments, indent=1)
    kinds = [each["kind"] for each in segments]
    assert kinds == ["wait", "spawn", "startup", "productive", "detect", "stop", "wait", "spawn",
                     "startup", "redone", "productive"]
    [redone] = [each for each in segments if each["kind"] == "redone"]
    assert redone["steps"] == 21  # from 130 to 150
