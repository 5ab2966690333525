"""The options of the command lines, made of the manual pages that the programs print."""

import pathlib
import re
import subprocess
import tempfile
import textwrap

# What follows a description that is no sentence.
MORE = re.compile(r"(?<![.?!]) (?=(?:Range|Default|Environment): )")
FONTS = re.compile(r"\\f[BIR]")
ESCAPES = {r"\-": "-", r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\&": "", r"\e": "\\"}
SHOWN = ("ARGUMENTS", "OPTIONS")


class Pages:
    """Makes the options of the programs or commands that a block names: `lockstep-run`."""

    def __init__(self, folder):
        self._pages = {}
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([folder / "lockstep", "man", scratch], check=True)
            for page in pathlib.Path(scratch).glob("*.1"):
                self._pages[page.stem] = page.read_text()
        self._pages["lockstep-operator"] = subprocess.check_output(
            [folder / "lockstep-operator", "--help-man"], text=True)

    def __call__(self, words, before):
        skipped = {"lockstep", "kubectl-lockstep", "lockstep-operator"}
        commands = sorted(set(self._pages) - skipped) if words == ["lockstep"] else words
        parts = [_page(name, self._pages[name]) for name in commands]
        return "\n".join(part for part in parts if part)


def _page(name, roff):
    sections = {title: body for title, body in re.findall(
        r"^\.SH ([A-Z ]+)\n(.*?)(?=^\.SH |\Z)", roff, re.DOTALL | re.MULTILINE)}
    rows = []
    for title in SHOWN:
        for part in re.split(r"^\.SS ", sections.get(title, ""), flags=re.MULTILINE):
            for term, text in re.findall(r"^\.TP\n(.*)\n((?:(?!\.).*\n)*)", part, re.MULTILINE):
                if "--help" not in _text(term):
                    meaning = MORE.sub(". ", _text(text))
                    rows.append(f"| `{_cell(_text(term))}` | {_cell(meaning)} |")
    if not rows:
        return ""
    synopsis = _text(sections["SYNOPSIS"])
    title = re.split(r" \[| [A-Z]", synopsis)[0]
    about = textwrap.fill(_sentence(sections["DESCRIPTION"]), 100)
    return (f"### {title}\n\n{about}\n\n"
            "| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")


def _text(roff):
    text = FONTS.sub("", roff)
    for escape, plain in ESCAPES.items():
        text = text.replace(escape, plain)
    return " ".join(text.split())


def _sentence(roff):
    text = _text(roff)
    return text if text.endswith(".") else text + "."


def _cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
