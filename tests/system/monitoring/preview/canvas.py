"""Shapes and words as SVG, in the colours of Grafana's dark theme."""

from xml.sax.saxutils import escape

BACKGROUND, PANEL, BORDER = "#111217", "#181b1f", "#2c3038"
TEXT, FAINT, GRID = "#ccccdc", "#8e8e9e", "#2a2d34"
SERIES = ["#73BF69", "#F2CC0C", "#8AB8FF", "#FF780A", "#F2495C", "#5794F2", "#B877D9", "#705DA0",
          "#37872D", "#FADE2A", "#447EBC", "#C15C17"]
NAMED = {"green": "#73BF69", "dark-green": "#37872D", "red": "#F2495C", "orange": "#FF9830",
         "yellow": "#FADE2A", "blue": "#5794F2", "light-blue": "#8AB8FF", "purple": "#B877D9"}
# Of the sans-serif fonts that a reader may have; only legends and cut-off words depend on it.
CHARACTER = 0.56  # of its size: the mean width


def color(name):
    return NAMED.get(name, name)


class Canvas:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self._parts = []

    def rectangle(self, x, y, width, height, fill, stroke="none", radius=0, opacity=1):
        self._add("rect", x=x, y=y, width=max(0, width), height=max(0, height), fill=fill,
                  stroke=stroke, rx=radius, fill_opacity=opacity)

    def line(self, x1, y1, x2, y2, stroke):
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke)

    def path(self, points, stroke="none", fill="none", opacity=1, width=1.4):
        found = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._add("path", d=found, stroke=stroke, fill=fill, fill_opacity=opacity,
                  stroke_width=width, stroke_linejoin="round")

    def circle(self, x, y, radius, fill):
        self._add("circle", cx=x, cy=y, r=radius, fill=fill)

    def arc(self, x, y, radius, start, end, stroke, width):
        """`start`, `end`: points on the circle."""
        self._add("path", d=f"M{start[0]:.1f} {start[1]:.1f}A{radius:.1f} {radius:.1f} 0 0 1 "
                  f"{end[0]:.1f} {end[1]:.1f}", stroke=stroke, fill="none", stroke_width=width)

    def text(self, x, y, words, size=12, fill=TEXT, anchor="start", weight=400, room=None):
        """Cut off if it is longer than `room`."""
        if room is not None:
            longest = max(1, int(room / (size * CHARACTER)))
            words = words if len(words) <= longest else words[:longest - 1] + "…"
        attributes = self._attributes(x=x, y=y, font_size=size, fill=fill, text_anchor=anchor,
                                      font_weight=weight)
        self._parts.append(f"<text {attributes}>{escape(words)}</text>")

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" '
                'font-family="Inter, Helvetica, Arial, sans-serif">\n'
                + "\n".join(self._parts) + "\n</svg>\n")

    def _add(self, element, **attributes):
        self._parts.append(f"<{element} {self._attributes(**attributes)}/>")

    @staticmethod
    def _attributes(**attributes):
        shown = {name: f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float)
                 else value for name, value in attributes.items()}
        return " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in shown.items())


def words_width(words, size):
    return len(words) * size * CHARACTER
