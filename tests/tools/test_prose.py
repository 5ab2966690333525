"""tools/lib/prose.py, the check of Markdown's prose."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

import prose

LONG = " ".join(["w"] * 31)


@pytest.mark.parametrize("text, words", [
    (f"{LONG}.", "a sentence of 31 words"),
    (f"- {LONG}.", "a sentence of 31 words"),
    ("An agent\nwaits, for it has no peer.", '", for it"'),
    ("Whoever waits.\n\nIt is whom.", '"whom"'),
    ("The operator says of a pod what it is.", '"says of"'),
    ("| a | whoever |", '"whoever"'),
    ("a" * 60 + " " + "b" * 60, "121 columns"),
    ("<td>whoever</td>\n\nIt is whom.", '"whom"'),
    ("It sees the agent the agent waits.", '"the agent the agent"'),
])
def test_prose_that_is_hard_to_read_is_found(text, words):
    found = list(prose.check("page.md", text))
    assert any(words in line for line in found), found


@pytest.mark.parametrize("text", [
    "Short. \n" * 40,
    f"```sh\n{LONG} whoever {'x ' * 90}\n```",
    f"Run this:\n\n    {LONG} whoever {'x ' * 90}\n    {LONG}",
    f"| {LONG} | {LONG} |",
    f"[a link](https://example.com/{'x' * 120})",
    f"`{LONG}` runs it.",
    f"<!-- {LONG} -->",
    f"<table>\n<td>{LONG} whoever {'x ' * 90}</td>\n</table>",
    f"1. {' '.join(['w'] * 20)}\n2. {' '.join(['w'] * 20)}",
    f"{' '.join(['w'] * 20)}, e.g. {' '.join(['w'] * 5)}.",
])
def test_prose_within_the_limits_passes(text):
    assert list(prose.check("page.md", text)) == []


def test_finding_names_the_line_where_its_paragraph_begins():
    assert list(prose.check("page.md", f"# Title\n\nFine.\n\nOne.\n{LONG}.\n"))[0].startswith("page.md:5: ")


def test_doubled_words_in_comments_are_found():
    twice = "number " * 2
    code = f"int a = 0;  // {twice}of it\nlong long b;  // a long long\n// {'the machine ' * 2}that\n"
    assert [line.split(": ")[1] for line in prose.check("a.h", code)] == ['"number number"', '"the machine the machine"']
