"""The commands and options of the command lines, made of the manual pages that the programs print."""

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
    """Makes the options of the programs or commands that a block names: `lockstep-run`. The word
    `overview` stands for a table of all commands of `lockstep`."""

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
        every = sorted(set(self._pages) - skipped)
        if words == ["overview"]:
            return _overview((name, self._pages[name]) for name in every)
        parts = [_page(self._pages[name]) for name in (every if words == ["lockstep"] else words)]
        return "\n".join(part for part in parts if part)


def _sections(roff):
    return dict(re.findall(r"^\.SH ([A-Z ]+)\n(.*?)(?=^\.SH |\Z)", roff, re.DOTALL | re.MULTILINE))


def _title(sections):
    return re.split(r" \[| [A-Z]", _text(sections["SYNOPSIS"]))[0]


def _overview(pages):
    rows = []
    for name, roff in pages:
        sections = _sections(roff)
        title = f"`{_text(sections['SYNOPSIS']).replace(' [OPTION]...', '')}`"
        if _page(roff):
            title = f"[{title}](options.md#{name})"
        rows.append(f"| {title} | {_cell(_sentence(sections['DESCRIPTION']))} |\n")
    return "| command | what it does |\n|---|---|\n" + "".join(rows)


def _page(roff):
    sections = _sections(roff)
    rows = []
    for title in SHOWN:
        for part in re.split(r"^\.SS ", sections.get(title, ""), flags=re.MULTILINE):
            for term, text in re.findall(r"^\.TP\n(.*)\n((?:(?!\.).*\n)*)", part, re.MULTILINE):
                if "--help" not in _text(term):
                    meaning = MORE.sub(". ", _text(text))
                    rows.append(f"| `{_cell(_text(term))}` | {_cell(meaning)} |")
    if not rows:
        return ""
    title = _title(sections)
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
