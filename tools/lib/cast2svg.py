"""Renders a terminal recording as an SVG: cast2svg.py [OPTIONS] RECORDING.cast OUT.svg

The recording is asciicast v2, as record.py writes it. The picture is a film that repeats (CSS only,
no script, so that it plays inside an <img>), or with --last its last frame. Every different line of
text is stored once, however many frames show it. Run it by .venv/bin/python, which finds pyte.
"""

import argparse
import itertools
import json
from xml.sax.saxutils import escape

import pyte
from wcwidth import wcswidth

CELL_WIDTH = 8.4  # of a 14 px monospace font: 0.6 em
CELL_HEIGHT = 18
MARGIN = 14
TITLE_HEIGHT = 30
BACKGROUND = "#0d1117"
FOREGROUND = "#c9d1d9"
# Readable on this background. By pyte's names, in the order of the codes 30 to 37.
COLOURS = {
    "black": "#484f58",
    "red": "#ff7b72",
    "green": "#3fb950",
    "brown": "#d29922",
    "blue": "#58a6ff",
    "magenta": "#bc8cff",
    "cyan": "#39c5cf",
    "white": "#b1bac4",
}
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


class Screen(pyte.Screen):
    """A pyte screen that knows dim text, which it keeps as struck through: nothing else is."""

    DIM = {2: (9,), 22: (22, 29)}

    def select_graphic_rendition(self, *codes):
        # After 38 and 48, a 2 is no style but says that three numbers of a colour follow.
        coloured = 38 in codes or 48 in codes
        known = codes if coloured else [n for code in codes for n in self.DIM.get(code, (code,))]
        super().select_graphic_rendition(*known)

    def rows(self):
        """For each line its runs of one style, ((text, style), ...), without the blanks at its end.

        A style is a pyte Char without its character.
        """
        return [self._runs(self.buffer[line]) for line in range(self.lines)]

    def _runs(self, line):
        cells = [line[column] for column in range(self.columns)]
        while cells and cells[-1].data == " " and not cells[-1].reverse and cells[-1].bg == "default":
            cells.pop()
        runs = itertools.groupby(cells, lambda cell: cell._replace(data=""))
        return tuple(("".join(cell.data for cell in run), style) for style, run in runs)


def read_cast(lines):
    """(columns, lines, [(seconds, text)]) of a recording."""
    header = json.loads(next(lines))
    if header.get("version") != 2:
        raise ValueError("not an asciicast of version 2")
    events = [json.loads(line) for line in lines if line.strip()]
    return header["width"], header["height"], [(t, text) for t, kind, text in events if kind == "o"]


def frames(columns, lines, events, interval=0.04, idle=2.0):
    """[(seconds shown, rows)]: what the screen showed and for how long, pauses cut to `idle`.

    Output that comes within `interval` seconds after a frame began belongs to it. The last frame is
    shown for 0 s.
    """
    screen = Screen(columns, lines)
    stream = pyte.Stream(screen)
    result = []
    began = None
    for index, (when, text) in enumerate(events):
        if began is None:
            began = when
        stream.feed(text)
        following = events[index + 1][0] if index + 1 < len(events) else None
        if following is not None and following - began < interval:
            continue
        shown = 0.0 if following is None else min(following - began, idle)
        rows = screen.rows()
        if result and result[-1][1] == rows:
            result[-1] = (result[-1][0] + shown, rows)
        else:
            result.append((shown, rows))
        began = None
    return result


def colour(name):
    """Of pyte's names: "default" is "", others than those above are hexadecimal."""
    return "" if name == "default" else COLOURS.get(name) or "#" + name


def css(style):
    foreground, background = colour(style.fg) or FOREGROUND, colour(style.bg)
    if style.reverse:
        foreground, background = background or BACKGROUND, foreground
    parts = [f"fill:{foreground}"] if foreground != FOREGROUND else []
    parts += ["font-weight:bold"] if style.bold else []
    parts += ["opacity:.65"] if style.strikethrough else []
    parts += ["font-style:italic"] if style.italics else []
    parts += ["text-decoration:underline"] if style.underscore else []
    return ";".join(parts), background


class Classes:
    """Short names for the styles in use."""

    def __init__(self):
        self.names = {}

    def attribute(self, style):
        rule, _ = css(style)
        if not rule:
            return ""
        return f' class="{self.names.setdefault(rule, f"s{len(self.names)}")}"'

    def rules(self):
        return "".join(f".{name}{{{rule}}}" for rule, name in self.names.items())


def draw_row(row, classes):
    shapes, texts, column = [], [], 0
    for text, style in row:
        x, width = MARGIN + column * CELL_WIDTH, wcswidth(text) * CELL_WIDTH
        _, background = css(style)
        if background:
            shapes.append(
                f'<rect x="{x:g}" width="{width:g}" height="{CELL_HEIGHT}" fill="{background}"/>'
            )
        if text.strip():
            # textLength holds the columns in place whatever font the reader has.
            texts.append(
                f'<text x="{x:g}" y="13" textLength="{width:g}"{classes.attribute(style)}>'
                f"{escape(text)}</text>"
            )
        column += wcswidth(text)
    return "".join(shapes + texts)


def film_css(shown, width):
    total = sum(seconds for seconds, _ in shown) or 1.0
    steps, elapsed = [], 0.0
    for index, (seconds, _) in enumerate(shown):
        steps.append(f"{100 * elapsed / total:.3f}%{{transform:translateX({-index * width:g}px)}}")
        elapsed += seconds
    last = -(len(shown) - 1) * width
    return (
        f"@keyframes film{{{''.join(steps)}}}"
        f".film{{animation:film {total:.2f}s step-end infinite}}"
        f"@media(prefers-reduced-motion:reduce){{.film{{animation:none;"
        f"transform:translateX({last:g}px)}}}}"
    )


def render(columns, lines, shown, title=""):
    """The SVG of `shown`, [(seconds, rows)], as text."""
    width = columns * CELL_WIDTH + 2 * MARGIN
    height = lines * CELL_HEIGHT + TITLE_HEIGHT + MARGIN
    classes, ids, definitions, film = Classes(), {}, [], []
    for index, (_, rows) in enumerate(shown):
        uses = []
        for line, row in enumerate(rows[:lines]):
            if not row:
                continue
            if row not in ids:
                ids[row] = f"r{len(ids)}"
                definitions.append(f'<g id="{ids[row]}">{draw_row(row, classes)}</g>')
            uses.append(f'<use href="#{ids[row]}" y="{line * CELL_HEIGHT}"/>')
        film.append(f'<g transform="translate({index * width:g} 0)">{"".join(uses)}</g>')
    dots = "".join(
        f'<circle cx="{18 + 18 * i}" cy="15" r="5.5" fill="{colour}"/>'
        for i, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    )
    animation = film_css(shown, width) if len(shown) > 1 else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" xml:space="preserve"><title>{escape(title)}</title>'
        f"<style>text{{font:14px {FONT};fill:{FOREGROUND};white-space:pre}}"
        f".title{{font:13px system-ui,sans-serif;fill:#8b949e;text-anchor:middle}}"
        f"{classes.rules()}{animation}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>{dots}'
        f'<text class="title" x="{width / 2:g}" y="20">{escape(title)}</text>'
        f"<defs>{''.join(definitions)}</defs>"
        f'<svg y="{TITLE_HEIGHT}" width="{width:g}" height="{lines * CELL_HEIGHT}">'
        f'<g class="film">{"".join(film)}</g></svg></svg>\n'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording")
    parser.add_argument("out")
    parser.add_argument("--last", action="store_true", help="only the last frame, not a film")
    parser.add_argument("--title", default="", help="text of the window's title bar")
    parser.add_argument("--idle", type=float, default=2.0, help="longest pause kept, in seconds")
    parser.add_argument("--hold", type=float, default=5.0, help="seconds the last frame stays")
    arguments = parser.parse_args()
    with open(arguments.recording, encoding="utf-8") as recording:
        columns, lines, events = read_cast(recording)
    shown = frames(columns, lines, events, idle=arguments.idle)
    if not shown:
        parser.error(f"{arguments.recording} holds no output")
    shown[-1] = (arguments.hold, shown[-1][1])
    if arguments.last:
        shown = shown[-1:]
    used = max(line + 1 for _, rows in shown for line, row in enumerate(rows) if row or line == 0)
    with open(arguments.out, "w", encoding="utf-8") as out:
        out.write(render(columns, used, shown, arguments.title))


if __name__ == "__main__":
    main()
