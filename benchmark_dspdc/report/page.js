// The views of a report. One problem, one gap and one set of hidden methods count for all of them.
const look = Object.fromEntries(data.methods.map(method => [method.name, method]));
const order = data.methods.map(method => method.name);
const hidden = new Set();
const get = id => document.getElementById(id);
const visible = names => order.filter(name => names.includes(name) && !hidden.has(name));
const all = found => order.filter(name => name in found);

get("sentence").textContent = data.sentence;
get("origin").textContent = data.origin;
tell(data.notes, get("notes"));

// The bar that stays in sight
const problemList = select(get("bar"), "problem", "problem",
                           data.problems.map(problem => problem.title), () => render());
const gapList = select(get("bar"), "gap", "relative gap", data.gaps, () => render());
gapList.value = data.gaps.length - 1;
const search = element("input");
search.type = "search";
search.placeholder = "find methods";
search.setAttribute("aria-label", "show only methods whose name has these letters");
search.addEventListener("input", () => {
  hidden.clear();
  for (const name of order) {
    if (!name.toLowerCase().includes(search.value.toLowerCase())) hidden.add(name);
  }
  render();
});
get("bar").append(search);
const here = () => data.problems[problemList.value];

// A method's name with its look and how it was tuned
function who(name, sizes) {
  const box = element("span", undefined, "who-cell");
  box.append(swatch(look[name]), soft(name));
  const marks = element("span", undefined, "marks");
  if (sizes?.[0] && sizes?.[1] && /=auto/.test(name)) {
    const mark = element("span", `m=${sizes[0]}, q=${sizes[1]}${sizes[2] ? " = p" : ""}`, "mark");
    if (sizes[2]) mark.title = "all columns: DSPDC is then SPDC with blocks and other steps";
    marks.append(mark);
  }
  if (look[name].tuning) marks.append(element("span", look[name].tuning, "mark"));
  if (marks.children.length) box.append(marks);
  return box;
}

// A name that may be broken after its commas
const soft = name => name.replaceAll(",", ",\u200b");

// Cards
function seconds(value) {
  return value < 0.1 ? `${shown(1e3 * value, 2)} ms` : `${shown(value, 2)} s`;
}

function answer(winner) {
  if (!winner) return ["nobody reached a gap of 1e-2", ""];
  const [first, ...ties] = winner.solvers.map(soft);
  const time = `${seconds(winner.seconds)} to ${winner.gap}`;
  const next = winner.next ? `, ${shown(winner.factor, 2)} times as fast as ${soft(winner.next)}` : "";
  if (ties.length) return [first, `${time}${next}; tied with ${ties.join("; ")}`];
  return [first, time + next + (winner.seeds === 1 ? " (one run, no spread)" : "")];
}

function spark(problem) {
  const svg = draw("svg", {viewBox: "0 0 250 56", preserveAspectRatio: "none", "aria-hidden": "true"});
  const curves = problem.curves["relative gap"]?.by.seconds?.curves ?? {};
  const values = Object.values(curves), first = problem.winner?.solvers ?? [];
  if (!values.length) return svg;
  const across = axis(values.flatMap(curve => curve[0]), true, 0, 250, 100);
  const up = axis(values.flatMap(curve => curve[1]), true, 54, 2, 40);
  // The winners last, on top of the others.
  const names = Object.keys(curves).sort((a, b) => first.includes(a) - first.includes(b));
  for (const name of names) {
    const [at, median] = curves[name], wins = first.includes(name);
    draw("path", {fill: "none", stroke: ink(look[name].color), "stroke-width": wins ? 2.4 : 1,
      opacity: wins ? 1 : 0.45, "vector-effect": "non-scaling-stroke",
      d: "M" + at.map((x, k) => `${across.place(x).toFixed(1)} ${up.place(median[k]).toFixed(1)}`)
        .join("L")}, svg);
  }
  return svg;
}

function cards() {
  renewed(get("cards"), data.problems.map((problem, k) => {
    const card = element("button", undefined, "card"), [name, text] = answer(problem.winner);
    card.type = "button";
    card.setAttribute("aria-pressed", String(String(k) === problemList.value));
    card.title = problem.full;
    card.append(element("h3", problem.title), element("p", name, "who"), element("p", text, "note"),
                spark(problem));
    card.addEventListener("click", () => { problemList.value = k; render(); });
    return card;
  }));
}

// Time to a gap: a table with a scale in it
function times() {
  const problem = here(), target = problem.targets[gapList.value];
  get("times-title").textContent = `${problem.full}; to a relative gap of ${target.label}.`;
  const names = visible(Object.keys(target.rows));
  const late = name => target.rows[name].seconds === null;
  names.sort((a, b) => late(a) - late(b) || (late(a) ? problem.final[a][0] - problem.final[b][0]
    : target.rows[a].seconds - target.rows[b].seconds));
  const ends = names.flatMap(name => {
    const row = target.rows[name];
    return late(name) ? [problem.final[name][1]] : [row.seconds, row.low, row.high ?? row.seconds];
  }).filter(value => value > 0);
  const scale = axis(ends, true, 0, 100, 50);
  const best = Math.min(...names.filter(name => !late(name)).map(name => target.rows[name].seconds));
  const rows = names.map(name => {
    const row = target.rows[name], track = element("div", undefined, "track");
    const color = ink(look[name].color), run = problem.final[name][1];
    const dot = element("b", undefined, late(name) ? "open" : "");
    dot.style.left = `${scale.place(late(name) ? run : row.seconds)}%`;
    dot.style[late(name) ? "borderColor" : "background"] = color;
    if (!late(name) && problem.repetitions > 1) {
      const line = element("i"), [from, to] = [row.low, row.high ?? run].map(scale.place);
      Object.assign(line.style, {left: `${from}%`, width: `${Math.max(to - from, 0.5)}%`,
                                 background: color});
      track.append(line);
    }
    track.append(dot);
    const spread = problem.repetitions > 1 && row.high !== null && !late(name)
      ? ` (${shown(row.low)} to ${shown(row.high)})` : "";
    const cells = [
      who(name, problem.blocks[name]),
      {text: late(name) ? `> ${shown(run)}` : shown(row.seconds) + spread,
       className: row.seconds === best ? "best" : ""}, track,
      late(name) ? "-" : `${shown(row.seconds / best, 2)}`, shown(row.work),
      problem.final[name][0]?.toExponential(1) ?? "-",
    ];
    if (problem.errors) {
      const error = problem.errors[name];
      cells.push(error === null ? "-" : (100 * error).toFixed(2) + " %");
    }
    return cells;
  });
  const heads = ["method", "seconds", "", "times the best", problem.work, "final gap"];
  if (problem.errors) heads.push("3-NN error");
  get("times-table").replaceChildren(table(heads, rows, [1, 3, 4, 5, 6]));
  if (problem.errors && problem.euclidean !== null) get("times-table").append(element("p",
    `3-NN error on test points; with Euclidean distances ${(100 * problem.euclidean).toFixed(2)} %.`,
    "note"));
}

// Errors, where packages with another objective take part
function errors() {
  const found = here().beside ?? {}, names = visible(Object.keys(found));
  names.sort((a, b) => found[a][0] - found[b][0] || found[a][1] - found[b][1]);
  const rows = names.map(name => {
    const [error, settled, run] = found[name];
    return [who(name), `${(100 * error).toFixed(2)} %`, shown(settled), shown(run)];
  });
  get("errors-table").replaceChildren(...(rows.length ? [
    element("p", "Errors of all, with packages that minimise another objective and have no gap " +
      `to this one. Settled: from then on within ${100 * data.settled} % of the last error.`, "note"),
    table(["method", "3-NN error", "settled, s", "run, s"], rows, [1, 2, 3]),
  ] : []));
}

// Curves
const vertical = select(get("curves-controls"), "curves-vertical", "vertical", [], () => curves());
const horizontal = select(get("curves-controls"), "curves-horizontal", "horizontal", [], () => curves());
const upScale = select(get("curves-controls"), "curves-up", "scale, vertical", ["log", "linear"],
                       () => curves());
const acrossScale = select(get("curves-controls"), "curves-across", "scale, horizontal",
                           ["log", "linear"], () => curves());

function curves() {
  const problem = here();
  renew(vertical, Object.keys(problem.curves));
  const kind = problem.curves[chosen(vertical)];
  renew(horizontal, Object.keys(kind.by));
  const found = kind.by[chosen(horizontal)], log = chosen(upScale) === "log" && kind.log;
  const series = visible(Object.keys(found.curves)).map(name => {
    const [x, y, low, high] = found.curves[name];
    return {name, look: look[name], x, y, low, high};
  });
  chart("curves-plot", series, {label: found.label, log: chosen(acrossScale) === "log"},
        {label: kind.label, log}, `${kind.label} over ${found.label} on ${problem.title}`, 460);
  legend("curves-legend", all(found.curves), look, hidden, render);
  let note = problem.repetitions > 1
    ? "Medians over the repetitions, with a band from their 10 % to their 90 % quantile. " : "";
  if (chosen(vertical) === "primal gap" && problem.uncertainty !== null) {
    note += `P* is the least value of all runs, ${problem.star.toPrecision(10)}; the optimum is at ` +
            `most ${problem.uncertainty.toExponential(1)} less: below that nothing is known.`;
  }
  get("curves-note").textContent = note;
}

function methods() {
  const boxes = data.families.map(family => {
    const own = data.methods.filter(method => method.family === family);
    if (!own.length) return null;
    const field = element("fieldset"), head = element("label"), every = element("input");
    every.type = "checkbox";
    every.checked = own.some(method => !hidden.has(method.name));
    every.addEventListener("change", () => {
      own.forEach(({name}) => every.checked ? hidden.delete(name) : hidden.add(name));
      render();
    });
    head.append(every, element("strong", family === "other" ? "without a family" : family));
    field.append(head);
    for (const {name} of own) {
      const line = element("label"), box = element("input");
      box.type = "checkbox";
      box.checked = !hidden.has(name);
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(name); else hidden.add(name);
        render();
      });
      line.append(box, swatch(look[name]), name);
      field.append(line);
    }
    return field;
  });
  get("methods").replaceChildren(...boxes.filter(Boolean));
}

// All problems
function shade(ratio) {
  // From the best, green, to ten times the best and more, orange.
  const far = Math.min(Math.log10(ratio), 1);
  return `hsl(${140 - 110 * far} 60% 50% / ${0.16 + 0.3 * Math.abs(far - 0.4)})`;
}

function overall() {
  const found = data.overall[gapList.value], gap = data.gaps[gapList.value];
  const names = visible(Object.keys(found.rows));
  const mean = name => found.rows[name].mean ?? Infinity, share = name => found.rows[name].solved;
  names.sort((a, b) => share(b) - share(a) || mean(a) - mean(b) ||
    found.rows[a].shifted - found.rows[b].shifted);
  get("all-note").textContent = found.problems.length
    ? `Time to ${gap} over that of the best method in hindsight (regret), for each problem that some ` +
      "method solved; the geometric mean where a method solved all that it was run on; the share " +
      "that it solved; and the shifted geometric mean of its seconds (shift 10 ms; what was not " +
      "reached counts as the time that it was given)."
    : `No method reached ${gap} on any problem.`;
  const titles = found.problems.map(k => data.problems[k].title);
  const rows = names.map(name => {
    const row = found.rows[name];
    return [who(name), row.mean === null ? "-" : shown(row.mean, 2),
      `${Math.round(100 * row.solved)} % of ${row.problems}`, shown(row.shifted, 2),
      ...row.ratios.map((ratio, k) => ratio === null ? {text: "", title: "not run"}
        : typeof ratio === "string" ? {text: "\u2013", title: `${titles[k]}: ${ratio}`}
          : {text: shown(ratio, 2), color: shade(ratio), title: titles[k]})];
  });
  const heads = ["method", "mean", "solved", "seconds", ...found.problems.map(k => `P${k + 1}`)];
  get("all-table").replaceChildren(...(found.problems.length
    ? [table(heads, rows, heads.map((_, k) => k).slice(1)),
       element("p", found.problems.map(k => `P${k + 1}: ${data.problems[k].title}`).join("; "), "note")]
    : []));
}

// Speed-ups
function speedups() {
  const target = here().targets[gapList.value], found = target.speedups;
  const kept = found.solvers.map((name, k) => k).filter(k => !hidden.has(found.solvers[k]));
  const rows = kept.map((k, n) => [
    element("span", `${n + 1}`), who(found.solvers[k]),
    ...kept.map(j => {
      const value = found.values[k][j];
      return value === null ? "" : {text: shown(value, 2), color: shade(1 / Math.min(value, 1)),
        title: `${found.solvers[k]} is ${shown(value)} times as fast as ${found.solvers[j]}`};
    }),
  ]);
  const heads = ["", "method", ...kept.map((_, n) => String(n + 1))];
  get("speedups-table").replaceChildren(table(heads, rows, heads.map((_, k) => k).slice(2)));
  const missed = visible(Object.keys(target.rows)).filter(name => !found.solvers.includes(name));
  get("speedups-note").textContent = missed.length
    ? `Left out, because they did not reach ${target.label}: ${missed.join("; ")}` : "";
}

// Profiles
const profileKind = select(get("profile-controls"), "profile-kind", "",
                           ["performance profile", "data profile"], () => profiles());

function profiles() {
  const kind = chosen(profileKind).split(" ")[0];
  const found = data.overall[gapList.value].profiles[kind];
  const label = kind === "data" ? "passes over the data" : "factor of the fastest method's time";
  chart("profile-plot", visible(Object.keys(found)).map(name => {
    const [count, x, y] = found[name];
    return {name, title: `${name} (${count} problems)`, look: look[name], x, y, step: true};
  }), {label, log: true, unit: kind === "data" ? "passes" : "times the best"},
  {label: "share of problems", log: false},
  `share of problems over ${label}, to ${data.gaps[gapList.value]}`, 340);
  legend("profile-legend", all(found), look, hidden, render,
         name => `${name} (${found[name][0]})`);
}

// Theory
function rates() {
  const found = data.rates[problemList.value] ?? {};
  const series = visible(Object.keys(found)).flatMap(name => {
    const [x, measured, predicted] = found[name];
    return [{name, look: look[name], x, y: measured},
            {name, title: `${name}, predicted`, look: {...look[name], dash: "dash"}, x, y: predicted,
             bare: true, thin: true}];
  });
  chart("rates-plot", series, {label: "passes over the data", log: false, unit: "passes"},
        {label: "P(x) - D(y)", log: true}, `predicted and measured gaps on ${here().title}`, 340);
  legend("rates-legend", all(found), look, hidden, render);
}

// What does not depend on a choice
{
  const {gap, rows} = data.unfinished;
  get("unfinished-note").textContent = rows.length
    ? `Curves whose time was over above a relative gap of ${gap}. What they would need is ` +
      "extrapolated from the end of their time: a guess, not a measurement."
    : `Every curve reached a relative gap of ${gap}.`;
  if (rows.length) get("unfinished-table").append(table(
    ["problem", "method", "gap", "seconds", `seconds to ${gap}, a guess`],
    rows.map(([problem, solver, found, seconds, needed]) => [
      problem, solver, found.toExponential(1), shown(seconds),
      needed === null ? "does not fall" : shown(needed, 2),
    ]), [2, 3, 4]));
  const classes = {"holds": "holds", "fails": "fails", "undecided": "unknown"};
  const known = data.verdicts.filter(row => row.known), rest = data.verdicts.filter(row => !row.known);
  const details = row => {
    const box = element("details");
    box.append(element("summary", `${row.place}${row.form ? `, ${row.form}` : ""}: ${row.claim}`));
    box.append(table(["setting", "comparison", "verdict", "ratios", ""], row.findings.map(f => [
      f.setting, f.variant, {text: f.outcome, className: classes[f.outcome]}, f.ratios, f.reason,
    ])));
    return box;
  };
  const claims = get("claims");
  if (known.length) {
    claims.append(table(["claim", "in the paper", "DSPDC", "verdict", "settings", "ratios"],
      known.map(row => [row.claim, row.place, row.form,
        {text: row.outcome, className: classes[row.outcome]}, row.count, row.measured])));
    claims.append(...known.map(details));
  } else claims.append(element("p", "This file has none of the problems that the paper's claims are " +
    "about; `make figures` runs them.", "note"));
  if (rest.length) {
    const box = element("details", undefined, "note");
    box.append(element("summary", `${rest.length} claims that this file cannot answer`));
    box.append(...rest.map(details));
    claims.append(box);
  }
  const pictures = get("pictures-box");
  for (const {name, data: bytes} of data.pictures) {
    const figure = element("figure"), image = element("img");
    image.src = `data:image/png;base64,${bytes}`;
    image.alt = `${name}: P(x) - P* over seconds, a panel for each setting of the paper's figure`;
    figure.append(image);
    pictures.append(figure);
  }
  if (!data.pictures.length) {
    pictures.append(element("p", "No problem of the paper's figures is in this file.", "note"));
  }
  get("machines").append(table(["", ""], data.machine));
}

function render() {
  cards(); times(); errors(); curves(); methods(); overall(); speedups(); profiles(); rates();
}
window.redraw = render;
render();
window.ready = true;
