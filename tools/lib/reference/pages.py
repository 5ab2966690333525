"""The map of the documentation: each page of a shelf, with the question that it answers."""

import pathlib
import re
import sys

import yaml

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
SITE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "mkdocs.yml"
QUESTION = re.compile(r"# (?P<title>.+)\n\n(?P<question>[^?]+\?)(?=\s)")


class Map:
    """Makes the table of the pages below the heading that a block names, in the site's order."""

    def __init__(self):
        self._shelves = {}
        for section in yaml.safe_load(SITE.read_text())["nav"]:
            if isinstance(section, dict):
                self._shelves |= section

    def __call__(self, words, before):
        [shelf] = words
        rows = [_row(page) for page in self._shelves[shelf] if isinstance(page, str)]
        return "| page | the question that it answers |\n|---|---|\n" + "".join(rows)


def _row(page):
    found = QUESTION.match((DOCS / page).read_text())
    if not found:
        sys.exit(f"docs/{page} does not begin with its title and the question that it answers")
    question = re.sub(r"\]\((?!https?:)[^)]*\)", "]", " ".join(found["question"].split()))
    return f"| [{found['title']}]({page}) | {question} |\n"
