"""tools/lib/terminal.py: what a program wrote stands where a terminal would show it."""

import pytest
from terminal import PALETTE, Screen, Style


def shown(text, columns=20, lines=4):
    screen = Screen(columns, lines)
    screen.feed(text)
    return screen.text()


@pytest.mark.parametrize(
    "written, expected",
    [
        ("one\r\ntwo", "one\ntwo"),
        ("slow\rfast", "fast"),
        ("a\tb", "a       b"),
        ("abc\b\bX", "aXc"),
        ("old line\r\x1b[Knew", "new"),
        ("keep this\x1b[4D\x1b[K", "keep"),
        ("1\r\n2\r\n\x1b[2A\x1b[Kone\r\n", "one\n2"),
        ("1\r\n2\r\n3\x1b[2;1H\x1b[J", "1"),
        ("abc\x1b[2J\x1b[Hx", "x"),
        ("1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"),
        ("1\r\n2\r\n3\x1b[1;1H\x1b[M", "2\n3"),
        ("1\r\n2\x1b[1;1H\x1b[L0", "0\n1\n2"),
        ("\x1b[?25l\x1b]0;title\x07text\x1b[?25h", "text"),
        ("日本x", "日本x"),
    ],
)
def test_text_stands_where_a_terminal_shows_it(written, expected):
    assert shown(written) == expected


def test_a_line_longer_than_the_screen_goes_on_in_the_next():
    assert shown("abcdef", columns=4) == "abcd\nef"


def test_a_sequence_cut_in_two_is_still_one():
    screen = Screen(20, 2)
    for part in ("\x1b", "[3", "1mred", "\x1b[", "0m"):
        screen.feed(part)
    assert screen.rows()[0] == (("red", Style(foreground=PALETTE[1])),)


@pytest.mark.parametrize(
    "codes, style",
    [
        ("1;32", Style(foreground=PALETTE[2], bold=True)),
        ("92", Style(foreground=PALETTE[10])),
        ("7", Style(inverse=True)),
        ("48;5;196", Style(background="#ff0000")),
        ("38;5;232", Style(foreground="#080808")),
        ("38;2;1;2;3;4", Style(foreground="#010203", underline=True)),
        ("1;31;0", Style()),
        ("31;39", Style()),
        ("", Style()),
    ],
)
def test_colours_and_weights_become_a_style(codes, style):
    screen = Screen(10, 1)
    screen.feed(f"\x1b[{codes}mx")
    assert screen.rows()[0] == (("x", style),)


@pytest.mark.parametrize("written", ["\x1b[999;999Hx", "\x1b[99A\x1b[99Dx", "\x1b[38;5mx", "\x1b[99Lx"])
def test_movement_past_the_edge_stays_on_the_screen(written):
    assert "x" in shown(written)
