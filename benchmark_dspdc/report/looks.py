"""One colour and one marker for each method, wherever it is drawn; and the families of methods.

A family has a hue, a method a colour and a marker of its own, and variants of a method, which
differ in their options, differ by their dashes and shades. So a method looks the same on every
page, in every picture and beside any others.
"""

from typing import NamedTuple

#: Groups in which methods are listed. A result file has a family's place in this list as a number,
#: so new ones come at the end.
FAMILIES = (
    "other", "dual coordinate", "primal-dual", "variance reduced", "deterministic",
    "quasi-Newton", "peer", "primal coordinate",
)

#: How a solver came by its options, in a result file: not given, by hand, or by itself.
BY_HAND, SELF_TUNED = 1, 2

#: Colours that the colour-blind can tell apart (after Okabe and Ito), with a marker each.
LOOKS = {
    "Auto": ("#000000", "star"),
    "DSPDC": ("#D55E00", "circle"),
    "SPDC": ("#CC79A7", "square"),
    "RPDG": ("#A8336B", "diamond"),
    "ASVRG-SP": ("#F0A07A", "x"),
    "SDCA": ("#0072B2", "triangle-up"),
    "ASDCA": ("#56B4E9", "triangle-down"),
    "APCG": ("#1B3A73", "cross"),
    "SDNA": ("#3E8E9E", "x"),
    "APCG-primal": ("#7A6FB0", "diamond"),
    "SAGA": ("#009E73", "square"),
    "SVRG": ("#6BA52B", "circle"),
    "Katyusha": ("#005C42", "triangle-up"),
    "L-SVRG": ("#A9C94F", "triangle-down"),
    "L-Katyusha": ("#3E9C7F", "x"),
    "PURE-CD": ("#7D4E9E", "star"),
    "PDHG": ("#8C6D1F", "x"),
    "RPDHG": ("#C9A227", "star"),
    "FISTA": ("#E69F00", "cross"),
    "QNing": ("#4D4D00", "diamond"),
    "SPDHG": ("#B5179E", "triangle-down"),
    "S2CD": ("#2D6A4F", "x"),
}

#: For solvers that are not in the table, by their place among such.
OTHER_COLORS = ("#57606A", "#8C959F", "#3B4754", "#A47148", "#6E7781", "#B0A58F")
OTHER_SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")

#: Of the first variant of a method and the next ones; a shade is a part of white.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SHADES = (0.0, 0.3, 0.15, 0.45, 0.55)

#: The same for matplotlib, and plotly's numbers of symbols for benchopt's page.
LINES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 2))}
MARKERS = {
    "circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "triangle-down": "v",
    "cross": "P", "x": "X", "star": "*",
}
NUMBERS = {
    "circle": 0, "square": 1, "diamond": 2, "cross": 3, "x": 4, "triangle-up": 5,
    "triangle-down": 6, "star": 17,
}


class Look(NamedTuple):
    """How a solver is drawn: a colour, a dash and a marker, by plotly's names."""

    color: str
    dash: str
    symbol: str

    def for_matplotlib(self):
        """The same as keywords of matplotlib's `plot`."""
        return dict(color=self.color, linestyle=LINES[self.dash], marker=MARKERS[self.symbol])

    def for_benchopt(self):
        """The same as entries of a trace of benchopt's page."""
        parts = (int(self.color[k:k + 2], 16) / 255 for k in (1, 3, 5))
        return dict(color=(*parts, 1.0), marker=NUMBERS[self.symbol])


def looks(solvers):
    """The `Look` of each solver, given by benchopt's names such as "SPDC[m=1]"."""
    found, variants, others = {}, {}, {}
    for solver in solvers:
        word = solver.partition("[")[0]
        number = variants[word] = variants.get(word, -1) + 1
        k = others.setdefault(word, len(others)) if word not in LOOKS else 0
        color, symbol = LOOKS.get(
            word, (OTHER_COLORS[k % len(OTHER_COLORS)], OTHER_SYMBOLS[k % len(OTHER_SYMBOLS)])
        )
        k = number % len(DASHES)
        found[solver] = Look(_lightened(color, SHADES[k]), DASHES[k], symbol)
    return found


def _lightened(color, share):
    """A colour such as "#0072B2" with a share of white."""
    parts = (int(color[k:k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (255 - part)):02X}" for part in parts)
