"""A terminal's screen, as far as command-line programs use it: what stands where, in which style.

    screen = Screen(80, 24)
    screen.feed("\\x1b[32mready\\x1b[0m\\r\\n")
    screen.rows()[0]   # [("ready", Style(foreground="#3fb950"))]

Known: printing and scrolling, CR, LF, BS, TAB, cursor movement, erasing of lines and of the screen,
insertion and deletion of lines, colours (16, 256, 24 bits) and bold, dim, italic, underlined,
reversed. All else, window titles and the hiding of the cursor among it, is read and ignored.
"""

import dataclasses
import re
import unicodedata

# Readable on the dark background of cast2svg.py.
PALETTE = (
    "#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4 "
    "#6e7681 #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #f0f6fc"
).split()

TOKEN = re.compile(
    r"\x1b\[(?P<arguments>[0-9;?<=>]*)[ -/]*(?P<command>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[()][0-9A-Za-z]|\x1b[^\[\]()]"
    r"|(?P<text>[^\x00-\x1f\x7f]+)"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
)
UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?<=>]*[ -/]*|\][^\x07\x1b]*\x1b?|[()])?$")


@dataclasses.dataclass(frozen=True)
class Style:
    foreground: str = ""  # "#rrggbb"; empty: the terminal's own
    background: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    inverse: bool = False


SWITCHES = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"inverse": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"inverse": False},
    39: {"foreground": ""},
    49: {"background": ""},
}


def colour_256(index):
    if index < 16:
        return PALETTE[index]
    if index >= 232:
        return "#" + f"{8 + 10 * (index - 232):02x}" * 3
    index -= 16
    return "#" + "".join(
        f"{0 if level == 0 else 55 + 40 * level:02x}"
        for level in (index // 36, index // 6 % 6, index % 6)
    )


def restyle(style, codes):
    """`style` after SGR with `codes`."""
    codes = list(codes) or [0]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = Style()
        elif code in SWITCHES:
            style = dataclasses.replace(style, **SWITCHES[code])
        elif code in (38, 48):
            ground = "foreground" if code == 38 else "background"
            kind = codes.pop(0) if codes else 0
            if kind == 5 and codes:
                style = dataclasses.replace(style, **{ground: colour_256(codes.pop(0) & 255)})
            elif kind == 2 and len(codes) >= 3:
                red, green, blue = (codes.pop(0) & 255 for _ in range(3))
                style = dataclasses.replace(style, **{ground: f"#{red:02x}{green:02x}{blue:02x}"})
        else:
            for first, ground, bright in (
                (30, "foreground", 0),
                (40, "background", 0),
                (90, "foreground", 8),
                (100, "background", 8),
            ):
                if first <= code < first + 8:
                    style = dataclasses.replace(style, **{ground: PALETTE[code - first + bright]})
    return style


def width_of(text):
    """How many columns `text` takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


BLANK = (" ", Style())


class Screen:
    def __init__(self, columns, lines):
        self.columns = columns
        self.lines = lines
        self.style = Style()
        self.row = self.column = 0
        self.saved = (0, 0)
        self.cells = [self._blank_row() for _ in range(lines)]
        self.pending = ""

    def feed(self, text):
        text = self.pending + text
        unfinished = UNFINISHED.search(text)
        self.pending = unfinished.group() if unfinished else ""
        text = text[: len(text) - len(self.pending)]
        for token in TOKEN.finditer(text):
            if token["text"]:
                for character in token["text"]:
                    self._print(character)
            elif token["control"]:
                self._control(token["control"])
            elif token["command"] and not token["arguments"].startswith(("?", "<", "=", ">")):
                codes = [int(c or 0) for c in token["arguments"].split(";")]
                self._command(token["command"], codes)

    def rows(self):
        """For each line its runs of one style, [(text, Style)], without the blanks at its end."""
        result = []
        for cells in self.cells:
            runs = []
            for character, style in cells:
                if runs and runs[-1][1] == style:
                    runs[-1][0].append(character)
                else:
                    runs.append(([character], style))
            while runs and runs[-1][1] == Style() and not "".join(runs[-1][0]).strip(" "):
                runs.pop()
            if runs and runs[-1][1] == Style():
                text = "".join(runs[-1][0]).rstrip(" ")
                runs[-1] = ([text], runs[-1][1])
            result.append(tuple(("".join(text), style) for text, style in runs))
        return result

    def text(self):
        return "\n".join("".join(text for text, _ in row) for row in self.rows()).rstrip("\n")

    def _blank_row(self):
        return [BLANK] * self.columns

    def _print(self, character):
        width = width_of(character)
        if width == 0:
            return
        if self.column + width > self.columns:
            self.column = 0
            self._line_feed()
        self.cells[self.row][self.column] = (character, self.style)
        if width == 2:
            # The second half of a wide character holds nothing, so that later columns stay in place.
            self.cells[self.row][self.column + 1] = ("", self.style)
        self.column += width

    def _line_feed(self):
        if self.row + 1 < self.lines:
            self.row += 1
        else:
            self.cells = self.cells[1:] + [self._blank_row()]

    def _control(self, character):
        if character == "\n":
            self._line_feed()
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character == "\t":
            self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)

    def _move(self, row, column):
        self.row = min(max(row, 0), self.lines - 1)
        self.column = min(max(column, 0), self.columns - 1)

    def _command(self, command, codes):
        count = max(codes[0], 1)
        if command == "m":
            self.style = restyle(self.style, codes)
        elif command == "A":
            self._move(self.row - count, self.column)
        elif command == "B":
            self._move(self.row + count, self.column)
        elif command == "C":
            self._move(self.row, self.column + count)
        elif command == "D":
            self._move(self.row, self.column - count)
        elif command == "E":
            self._move(self.row + count, 0)
        elif command == "F":
            self._move(self.row - count, 0)
        elif command == "G":
            self._move(self.row, count - 1)
        elif command == "d":
            self._move(count - 1, self.column)
        elif command in "Hf":
            self._move(count - 1, max(codes[1], 1) - 1 if len(codes) > 1 else 0)
        elif command == "K":
            self._erase_line(codes[0])
        elif command == "J":
            self._erase_screen(codes[0])
        elif command == "L":
            self._shift_lines(count)
        elif command == "M":
            self._shift_lines(-count)
        elif command == "s":
            self.saved = (self.row, self.column)
        elif command == "u":
            self._move(*self.saved)

    def _erase_line(self, what):
        first = self.column if what == 0 else 0
        last = self.column + 1 if what == 1 else self.columns
        self.cells[self.row][first:last] = [BLANK] * (min(last, self.columns) - first)

    def _erase_screen(self, what):
        if what in (0, 1):
            self._erase_line(what)
            for row in range(self.row + 1, self.lines) if what == 0 else range(self.row):
                self.cells[row] = self._blank_row()
        else:
            self.cells = [self._blank_row() for _ in range(self.lines)]

    def _shift_lines(self, count):
        """Inserts `count` blank lines at the cursor's, or deletes -count lines from there."""
        below = self.cells[self.row :]
        blank = [self._blank_row() for _ in range(min(abs(count), len(below)))]
        shifted = blank + below if count > 0 else below[-count:] + blank
        self.cells[self.row :] = shifted[: len(below)]
