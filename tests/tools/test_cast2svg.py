"""tools/lib/{record,cast2svg}.py: a program's terminal becomes a picture of it."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from cast2svg import css, frames, render
from paths import ROOT

LIB = ROOT / "tools/lib"
SVG = "{http://www.w3.org/2000/svg}"


def texts(rows):
    return ["".join(text for text, _ in row) for row in rows if row]


def test_simultaneous_output_makes_one_frame():
    shown = frames(10, 2, [(0.0, "a"), (0.01, "b"), (1.0, "c")])
    assert [texts(rows) for _, rows in shown] == [["ab"], ["abc"]]


def test_continuous_output_makes_several_frames():
    shown = frames(20, 2, [(i / 100, "x") for i in range(10)])
    assert [texts(rows) for _, rows in shown] == [["x" * 4], ["x" * 8], ["x" * 10]]


def test_a_frame_is_shown_until_the_next_and_long_pauses_are_cut():
    shown = frames(10, 2, [(0.0, "a"), (0.5, "b"), (60.0, "c")], idle=2.0)
    assert [seconds for seconds, _ in shown] == [0.5, 2.0, 0.0]


def test_output_that_changes_nothing_makes_no_frame():
    shown = frames(10, 2, [(0.0, "a"), (0.5, "\x1b[?25l"), (1.0, "b")])
    assert [(seconds, texts(rows)) for seconds, rows in shown] == [(1.0, ["a"]), (0.0, ["ab"])]


@pytest.mark.parametrize(
    "codes, rule, background",
    [
        ("1;32", "fill:#3fb950;font-weight:bold", ""),
        ("2", "opacity:.65", ""),
        ("2;31;22", "fill:#ff7b72", ""),
        ("2;0", "", ""),
        ("7", "fill:#0d1117", "#c9d1d9"),
        ("38;5;232;48;5;196", "fill:#080808", "#ff0000"),
        ("38;2;1;2;3;4", "fill:#010203;text-decoration:underline", ""),
    ],
)
def test_escape_codes_set_colour_and_font_style(codes, rule, background):
    [(_, rows)] = frames(10, 1, [(0.0, f"\x1b[{codes}mx")])
    [(text, style)] = rows[0]
    assert (text, *css(style)) == ("x", rule, background)


def test_line_drops_invisible_trailing_spaces():
    [(_, rows)] = frames(20, 2, [(0.0, "日本 x  \r\n\x1b[41m  \x1b[0m  ")])
    assert texts(rows) == ["日本 x", "  "]


def test_a_line_that_several_frames_show_is_stored_once():
    shown = frames(20, 3, [(0.0, "stays\r\n"), (1.0, "more"), (2.0, " <&>")])
    svg = render(20, 3, shown)
    assert svg.count(">stays</text>") == 1
    assert svg.count(">more &lt;&amp;&gt;</text>") == 1
    ElementTree.fromstring(svg)


def test_recording_of_program_becomes_svg_of_its_output(tmp_path):
    cast, svg = tmp_path / "out.cast", tmp_path / "out.svg"
    program = r"printf '\033[1;31mred\033[0m plain\n'; stty size; exit 3"
    run = subprocess.run(
        [sys.executable, LIB / "record.py", "--size", "40x10", cast, "--", "sh", "-c", program],
        stdout=subprocess.DEVNULL,
    )
    assert run.returncode == 3
    assert json.loads(cast.read_text().splitlines()[0])["width"] == 40

    subprocess.run(
        [sys.executable, LIB / "cast2svg.py", "--last", "--title", "a & b", cast, svg], check=True
    )
    root = ElementTree.parse(svg).getroot()
    assert root.findtext(f"{SVG}title") == "a & b"
    lines = [t.text for t in root.iter(f"{SVG}text")]
    assert "red" in lines and " plain" in lines and "10 40" in lines
    assert "font-weight:bold" in root.findtext(f"{SVG}style")
