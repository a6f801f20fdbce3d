"""benchopt's own page of results, with the plots and views of this benchmark, in a browser.

It loads plotly, gridjs and anime.js from the web, which tests have not. plotly is put in from
the Python package; the page calls little of the other two, so these have stand-ins here.
"""

import re

import numpy as np
import pytest
import yaml
from benchopt.benchmark import Benchmark
from benchopt.plotting import plot_benchmark
from benchopt.plotting.helpers import reset_solver_styles
from browser import LEAVE, in_a_browser, opened
from conftest import REPO
from frames import ELASTIC, EXACT, MATRIX, factorized, runs, seeds
from plotly.offline import get_plotlyjs

from benchmark_dspdc.report.results import GAPS, X_AXES

pytestmark = in_a_browser

CONFIG = yaml.safe_load((REPO / "config.yml").read_text())

#: Solvers: seconds a decade, the gap where they end, the rate of their theorem.
SOLVERS = {
    EXACT: (0.1, 1e-8, 1e-3), "SPDC[m=1]": (0.02, 1e-7, 2e-3), "SDCA[m=1]": (3.0, 1e-3, np.nan),
}
RATED = [solver for solver, (*_, rate) in SOLVERS.items() if np.isfinite(rate)]
#: The page offers every pair of a data set and an objective; these were run. The first one has
#: all that a list can offer, and every list is gone through on it.
PROBLEMS = {
    ("MTLMNN[source=aloi_like]", MATRIX): dict(eigs=5.0, objective_test_error=0.1),
    (factorized(), ELASTIC): dict(objective_test_error=np.nan),
    ("Sparse[n=200,p=300,random_state=0,row_nnz=10]", ELASTIC): dict(objective_test_error=np.nan),
}
REPETITIONS = 3


# The page ---------------------------------------------------------------------------

#: Scripts of the page by a word of their address, and what is put in their place.
SCRIPTS = {
    # The page is written for plotly.js 2, where a title could be a text.
    "plotly": lambda: get_plotlyjs() + """;
        const react = Plotly.react;
        const titled = part => typeof part?.title === "string"
          ? {...part, title: {text: part.title}} : part;
        window.Plotly = {...Plotly, react: (box, data, layout) => react(box, data, {
          ...titled(layout), xaxis: titled(layout.xaxis), yaxis: titled(layout.yaxis)})};
    """,
    "gridjs": lambda: """
        window.gridjs = {html: html => ({html}), Grid: class {
          constructor(options) { this.options = options; }
          on() { return this; }
          forceRender() { return this.render(this.box); }
          render(box) {
            const {columns, data} = this.options;
            const row = (tag, text) => "<tr>" + columns.map((column, k) => column.hidden ? "" :
              `<${tag} class="gridjs-${tag}">${text(column, k)}</${tag}>`).join("") + "</tr>";
            const shown = value => value?.html ?? value;
            this.box = box;
            box.innerHTML = `<table class="gridjs-table"><thead>${row("th", c => c.name)}</thead>
              <tbody>${data.map(values => row("td", (column, k) => shown(
                column.formatter(values[k])))).join("")}</tbody></table>`;
            return this;
          }
        }};
    """,
    "animejs": lambda: """
        window.anime = {timeline() { return {add() { return this; }}; }};
    """,
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The text of the page as `benchopt run` writes it, of curves made by hand."""
    folder = tmp_path_factory.mktemp("outputs")
    frame = runs(*(
        curve.assign(objective_predicted_rate=rate)
        for (dataset, objective), more in PROBLEMS.items()
        for solver, (decade, to, rate) in SOLVERS.items()
        for curve in seeds(solver, decade * np.linspace(1.0, 1.3, REPETITIONS), dataset=dataset,
                           objective=objective, to=to, points=12, **more)
    ))
    frame.to_parquet(folder / "run.parquet")
    benchmark = Benchmark(REPO)
    # Where it would write otherwise is in the repository.
    benchmark.get_output_folder = lambda: folder
    reset_solver_styles()
    plot_benchmark(folder / "run.parquet", benchmark, display=False)
    (written,) = folder.glob("*_run.html")
    return written.read_text("utf-8")


def with_scripts(text):
    """The page with all that it loads put in, or left out if it is a font or a style."""
    for word, script in SCRIPTS.items():
        text, count = re.subn(
            rf'<script src="https://[^"]*{word}[^"]*"></script>',
            lambda _, script=script: f"<script>{script()}</script>", text,
        )
        assert count == 1, f"benchopt's page loads {word} {count} times"
    return re.sub(r'<link [^>]*href="https://[^>]*>', "", text)


# What is seen of it -----------------------------------------------------------------

#: Goes through all views and all lists of all charts, and leaves in the page what each drew.
PROBE = LEAVE + """
// Plotly fits a figure to its box a tenth of a second after it was drawn.
const settled = () => wait(150);

const all = (box, marks) => [...document.querySelectorAll(`#${box} ${marks}`)].filter(
  mark => mark.getClientRects().length);
const texts = (box, marks) => all(box, marks).map(mark => mark.textContent).filter(text => text);

// The page has each list twice, the second for small screens.
const lists = kind => [...document.getElementById(`${kind}-custom-params-container`)
  .querySelectorAll("select")];
const ofProblem = list => /_(dataset|objective)$/.test(list.id);

// Points that can be drawn of a curve on the axes of the moment.
const drawable = (curve, axes) => curve.x.filter((x, k) => [[x, axes[0]], [curve.y[k], axes[1]]]
  .every(([value, axis]) => Number.isFinite(value) && (axis !== "log" || value > 0))).length;

const look = (view = null) => {
  const {type = null, data = []} = getPlotData() ?? {};
  const kind = state().plot_kind, option = kind.length + 1;
  const box = type === "scatter" ? "plot_with_legend_container" : "plot_container";
  const figure = document.getElementById(box)._fullLayout;
  const axes = type !== "table" && figure ? [figure.xaxis.type, figure.yaxis.type] : [];
  const sizes = traces => traces.filter(size => size > 0);
  return {
    view, kind, type, axes, scale: state().scale,
    options: Object.fromEntries(getPlotDropdowns().map(
      key => [key.slice(option), String(state(key))])),
    lists: Object.fromEntries(lists(kind).map(
      list => [list.id.slice("change_".length + option), list.value])),
    has: sizes(type === "scatter" ? data.map(curve => drawable(curve, axes)) : []),
    curves: sizes(all(box, ".scatterlayer .trace").map(
      trace => trace.querySelectorAll(".points path").length)),
    // Areas between two curves, such as quantiles.
    hasAreas: data.filter(
      curve => ("x_low" in curve || "y_low" in curve) && drawable(curve, axes)).length,
    areas: all(box, ".scatterlayer .js-fill").length,
    legend: texts("plot_legend", ".curve"),
    bars: sizes(all(box, ".barlayer .point path").map(
      bar => bar.getBoundingClientRect().height)),
    names: texts(box, ".xtick"),
    titles: texts(box, ":is(.gtitle, .xtitle, .ytitle)"),
    remark: texts(box, ".annotation-text").join(),
    heading: texts("table_container", "h2").join(),
    columns: texts("table_container", "th"),
    rows: all("table_container", "tbody tr").map(
      row => [...row.cells].map(cell => cell.textContent)),
    given: type === "table" ? data : [],
  };
};

const choose = (list, value) => {
  if (list.value === value) return;
  list.value = value;
  list.dispatchEvent(new Event("change", {bubbles: true}));
};

const combinations = lists => lists.reduce((found, list) => found.flatMap(
  chosen => [...list.options].map(option => [...chosen, [list, option.value]])), [[]]);
const first = lists => lists.map(list => [list, list.options[0].value]);

const walk = async seen => {
  Object.assign(seen, {views: [], choices: [], offered: {}});
  await settled();
  seen.first = look();
  const views = [...document.querySelectorAll("#view-tabs span.view")];
  for (const view of [...views, ...views.toReversed()]) {
    view.click();
    await settled();
    seen.views.push(look(view.textContent));
  }
  const kinds = document.getElementById("plot_kind");
  for (const {value: kind} of kinds.options) {
    const where = lists(kind).filter(ofProblem), what = lists(kind).filter(l => !ofProblem(l));
    for (const chosen of [
      ...combinations(where).map(pairs => [...pairs, ...first(what)]),
      ...combinations(what).map(pairs => [...first(where), ...pairs]),
    ]) {
      choose(kinds, kind);
      for (const [list, value] of chosen) choose(list, value);
      await wait(0);
      seen.choices.push(look());
    }
    seen.offered[kind] = Object.fromEntries(lists(kind).map(
      list => [list.id.slice(`change_${kind}_`.length), [...list.options].map(o => o.value)]));
  }
  await settled();
};
"""


@pytest.fixture(scope="module")
def seen(page, tmp_path_factory):
    found, console, requests = opened(
        with_scripts(page), tmp_path_factory.mktemp("with_scripts"), PROBE
    )
    assert (found["faults"], console, requests) == ([], [], set())
    return found


# Tests ------------------------------------------------------------------------------

@pytest.mark.nightly
def test_without_a_network_the_page_is_empty_as_the_docs_say(page, tmp_path):
    found, _, requests = opened(page, tmp_path, PROBE)
    change = "; if benchopt ships its scripts, change docs/reading-results.md, Without a network"
    for word in SCRIPTS:
        assert any(word in url for url in requests), f"{word} is not asked for{change}"
    assert len(found["views"]) == 2 * len(CONFIG["plot_configs"])
    for look in (found["first"], *found["views"], *found["choices"]):
        drawn = [look[marks] for marks in ("curves", "bars", "rows", "titles")]
        assert drawn == [[]] * 4, f"{look['kind']} draws{change}"


def test_every_view_can_be_chosen_and_draws(seen):
    views = CONFIG["plot_configs"]
    assert [look["view"] for look in seen["views"]] == [*views, *reversed(views)]
    for look in seen["views"]:
        view, kind = views[look["view"]], look["kind"]
        assert kind == view["plot_kind"]
        assert look["scale"] == view.get("scale", look["scale"])
        for key, value in view.items():
            if key not in ("plot_kind", "scale"):
                assert look["options"][key.removeprefix(f"{kind}_")] == str(value)
        # The lists beside it say what is drawn.
        assert look["lists"] == look["options"]
        check(look)
    # However one comes to a view, from the left or from the right, its axes are the same.
    assert [look["axes"] for look in seen["views"]] == [
        look["axes"] for look in reversed(seen["views"])]
    # The page opens with the first of them, but for ticks, which follow the width.
    same = {"view": None, "names": None}
    assert seen["first"] | same == seen["views"][0] | same


def test_every_choice_of_every_list_draws(seen):
    assert list(seen["offered"]) == CONFIG["plots"]
    for kind, lists in seen["offered"].items():
        looks = [look for look in seen["choices"] if look["kind"] == kind]
        for name, values in lists.items():
            assert {look["options"][name] for look in looks} == set(values), (kind, name)
        for name, names in (("dataset", 0), ("objective", 1)):
            if name in lists:
                assert lists[name] == list(dict.fromkeys(key[names] for key in PROBLEMS))
        if "gap" in lists:
            assert lists["gap"] == [str(gap) for gap in GAPS]
    # Times on two machines are in reports alone.
    axes = set(X_AXES) - {"reference loops"}
    assert set(seen["offered"]["gaps_and_scores"]["X_axis"]) == axes
    assert "3-NN error on the test data" in seen["offered"]["gaps_and_scores"]["Y"]
    for look in seen["choices"]:
        check(look)


def check(look):
    """Something is drawn for each solver, and it is what was asked for."""
    kind, options = look["kind"], look["options"]
    named = (kind, options)
    problem = (options.get("dataset"), options.get("objective"))
    run = problem in PROBLEMS or kind == "performance_profile"
    headings = [look["heading"]] if look["type"] == "table" else look["titles"]
    for name in problem if kind != "performance_profile" else ():
        assert name in headings[0], named
    reached = [s for s, (_, to, _) in SOLVERS.items() if to < float(options.get("gap", "inf"))]
    if look["type"] == "table":
        assert [row[0] for row in look["rows"]] == (sorted(SOLVERS) if run else []), named
        assert len(set(look["columns"])) == len(look["columns"]), named
        # Nothing that the plots wrote is rounded away.
        for shown, given in zip(sorted(look["rows"]), sorted(look["given"]), strict=True):
            assert len(shown) == len(look["columns"]), named
            for one, other in zip(shown, given, strict=True):
                assert one == other or float(one) == pytest.approx(float(other), rel=0.01), shown
        for solver, *cells in look["rows"]:
            missing = 2 * sum(SOLVERS[solver][1] >= gap for gap in GAPS)
            if kind == "speed_ups":
                missing = len(SOLVERS) - len(reached) if solver in reached else len(SOLVERS)
            assert cells.count("-") == missing, named
        return
    assert (look["remark"] == "Not available") == (not run), named
    if look["type"] == "scatter":
        expected = curves_of(kind, options) if run else []
        assert look["curves"] == look["has"] and len(look["curves"]) == len(expected), named
        assert look["areas"] == look["hasAreas"], named
        assert set(look["legend"]) >= set(expected), named
    elif run:
        assert look["names"] == [s if s in reached else f"{s}, not reached" for s in SOLVERS]
        assert len([height for height in look["bars"] if height > 0]) == len(reached), named
        # A line on the bar for each repetition.
        assert look["curves"] == [REPETITIONS] * len(reached), named


def curves_of(kind, options):
    """The names of the curves that a chart draws of a problem that was run."""
    if kind == "performance_profile":
        return [f"{solver} ({len(PROBLEMS)} problems)" for solver in SOLVERS]
    if kind == "predicted_rate":
        return [name for solver in RATED for name in (solver, f"{solver}, predicted")]
    return RATED if options.get("objective_column") == "objective_predicted_rate" else [*SOLVERS]
