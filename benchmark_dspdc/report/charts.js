"use strict";
// Small helpers of the pages, and one kind of chart: lines, steps and points over two axes, each
// linear or logarithmic. Texts reach the page only as text nodes and attributes.
const data = JSON.parse(document.getElementById("data").textContent);
const drawn = window.drawn = {};
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function table(heads, rows, numbers = []) {
  const made = element("table"), top = made.createTHead().insertRow(), body = made.createTBody();
  heads.forEach((text, k) => {
    const box = element("th", text, numbers.includes(k) ? "number" : "");
    box.scope = "col";
    top.append(box);
  });
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, k) => {
      const box = element("td", undefined, numbers.includes(k) ? "number" : "");
      if (cell instanceof Node) box.append(cell);
      else if (cell !== null && typeof cell === "object") {
        box.textContent = cell.text;
        if (cell.className) box.classList.add(cell.className);
        if (cell.color) box.style.background = cell.color;
        if (cell.title) box.title = cell.title;
      } else box.textContent = cell;
      line.append(box);
    });
  }
  const scroll = element("div", undefined, "scroll");
  scroll.append(made);
  return scroll;
}

// The first three sentences, and the others on demand; so is what a long one lists.
function tell(sentences, box) {
  const hidden = summary => {
    const made = element("details", undefined, "note");
    made.append(element("summary", summary));
    return made;
  };
  const rest = hidden(`${sentences.length - 3} more notes`);
  sentences.forEach((sentence, k) => {
    const colon = sentence.indexOf(": "), long = sentence.length > 200 && colon > 15;
    const made = long ? hidden(sentence.slice(0, colon)) : element("p", sentence, "note");
    if (long) made.append(element("p", sentence.slice(colon + 2)));
    (k < 3 ? box : rest).append(made);
  });
  if (sentences.length > 3) box.append(rest);
}

function shown(value, digits = 3) {
  if (value === null || value === undefined) return "-";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(Math.max(0, digits - 2)).replace("e+", "e");
  return size >= 100 ? value.toFixed(0) : value.toPrecision(digits);
}

function select(box, id, name, options, change) {
  const label = element("label", name + " "), list = element("select");
  list.id = id;
  options.forEach((text, k) => list.append(new Option(text, k)));
  list.addEventListener("change", change);
  label.append(list);
  box.append(label);
  return list;
}

function renew(list, options) {
  if (options.length === list.options.length
      && options.every((text, k) => text === list.options[k].text)) return;
  const before = list.selectedOptions[0]?.text;
  list.replaceChildren(...options.map((text, k) => new Option(text, k)));
  if (options.includes(before)) list.value = options.indexOf(before);
}

const chosen = list => list.selectedOptions[0]?.text;

// Looks -------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const DASHES = {solid: "", dash: "7 4", dot: "2 3", dashdot: "8 3 2 3", longdash: "13 4"};
const SHAPES = {
  circle: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", square: "M-3.5-3.5h7v7h-7z",
  "triangle-up": "M0-4.5L4.3 3.5H-4.3z", "triangle-down": "M0 4.5L4.3-3.5H-4.3z",
  diamond: "M0-5L4.6 0L0 5L-4.6 0z", cross: "M-1.4-4.4h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z",
  x: "M-4-2.2L-2.2-4L0-1.8L2.2-4L4-2.2L1.8 0L4 2.2L2.2 4L0 1.8L-2.2 4L-4 2.2L-1.8 0z",
  star: "M0-5.5L1.6-1.8L5.4-1.6L2.5 1L3.4 4.8L0 2.7L-3.4 4.8L-2.5 1L-5.4-1.6L-1.6-1.8z",
};

// A dark colour of a curve, lightened where the page is dark.
function ink(color) {
  const parts = [1, 3, 5].map(k => parseInt(color.slice(k, k + 2), 16));
  const light = (0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2]) / 255;
  if (!dark.matches || light > 0.5) return color;
  const mix = 0.55 - 0.5 * light;
  return `rgb(${parts.map(part => Math.round(part + mix * (255 - part))).join(" ")})`;
}

function draw(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  parent?.append(made);
  return made;
}

function swatch(look) {
  const made = draw("svg", {viewBox: "0 0 30 12", class: "swatch", "aria-hidden": "true"});
  draw("path", {d: "M1 6H29", stroke: ink(look.color), "stroke-width": 2, fill: "none",
                "stroke-dasharray": DASHES[look.dash]}, made);
  draw("path", {d: SHAPES[look.symbol], fill: ink(look.color), transform: "translate(15 6)"}, made);
  return made;
}

// Axes --------------------------------------------------------------------------------

const RAISED = {"-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074",
                5: "\u2075", 6: "\u2076", 7: "\u2077", 8: "\u2078", 9: "\u2079"};
const power = k => "10" + [...String(k)].map(c => RAISED[c]).join("");

// A scale from values to pixels, with the ticks that fit.
function axis(values, log, from, to, room) {
  let low = Math.min(...values), high = Math.max(...values);
  const f = log ? Math.log10 : v => v, ticks = [];
  if (!values.length) [low, high] = log ? [0.1, 1] : [0, 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  let a = f(low), b = f(high);
  const pad = 0.03 * (b - a);
  a -= pad; b += pad;
  const count = Math.max(2, Math.floor(Math.abs(to - from) / room));
  if (log) {
    const step = Math.max(1, Math.ceil((b - a) / count));
    for (let k = Math.ceil(a); k <= b; k++) {
      if (k % step === 0) ticks.push([10 ** k, k >= -2 && k <= 3 ? String(10 ** k) : power(k)]);
    }
    if (ticks.length < 3) for (let k = Math.floor(a); k <= b; k++) for (const part of [2, 5]) {
      const at = part * 10 ** k;
      if (f(at) >= a && f(at) <= b) ticks.push([at, shown(at, 1 + (at >= 1))]);
    }
  } else {
    const raw = (b - a) / count, base = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find(k => k * base >= raw) * base;
    for (let at = Math.ceil(a / step) * step; at <= b; at += step) {
      const value = Math.abs(at) < step / 1e6 ? 0 : at;
      ticks.push([value, String(Number(value.toPrecision(6)))]);
    }
  }
  return {place: v => from + (f(v) - a) / (b - a) * (to - from), ticks};
}

// Charts ------------------------------------------------------------------------------

// `series`: name, look, x, y, and if any low and high (a band), step (true), top (places on x of
// marks at the upper edge), large (indices of larger marks), bare (no marks), thin (a thin line).
// `x` and `y`: label, log, and if any ticks ([[value, text]]) and say (how to show a value).
function chart(id, series, x, y, about, height = 430) {
  const box = document.getElementById(id);
  const paint = () => {
    const width = Math.max(260, box.clientWidth), narrow = width < 520;
    const tall = narrow ? Math.min(height, 320) : height;
    const svg = draw("svg", {viewBox: `0 0 ${width} ${tall}`, height: tall, role: "img",
                             "aria-label": about});
    const edge = {left: narrow ? 46 : 58, right: 12, top: 12, bottom: x.ticks ? 74 : 44};
    const kept = series.map(one => one.x.map((_, k) => k).filter(k =>
      one.y[k] !== null && (!x.log || one.x[k] > 0) && (!y.log || one.y[k] > 0)));
    const every = (key, other) => series.flatMap((one, s) => kept[s].flatMap(k =>
      other ? [one[key][k]] : [one[key][k], ...(one.low ? [one.low[k], one.high[k]] : [])]
    )).filter(v => v !== null && (!(key === "x" ? x : y).log || v > 0));
    const across = axis(every("x", true).concat(series.flatMap(one => one.top ?? [])), x.log,
                        edge.left, width - edge.right, narrow ? 60 : 80);
    const up = axis(every("y"), y.log, tall - edge.bottom, edge.top, 36);
    for (const [at, text] of x.ticks ?? across.ticks) {
      const place = across.place(at);
      draw("line", {x1: place, x2: place, y1: edge.top, y2: tall - edge.bottom, class: "grid"}, svg);
      const turned = x.ticks ? {"text-anchor": "end", transform:
        `rotate(-28 ${place} ${tall - edge.bottom + 14})`} : {"text-anchor": "middle"};
      draw("text", {x: place, y: tall - edge.bottom + 16, ...turned}, svg).textContent = text;
    }
    for (const [at, text] of up.ticks) {
      const place = up.place(at);
      draw("line", {x1: edge.left, x2: width - edge.right, y1: place, y2: place, class: "grid"}, svg);
      draw("text", {x: edge.left - 6, y: place + 4, "text-anchor": "end"}, svg).textContent = text;
    }
    draw("path", {d: `M${edge.left} ${edge.top}V${tall - edge.bottom}H${width - edge.right}`,
                  class: "axis", fill: "none"}, svg);
    draw("text", {x: (edge.left + width) / 2, y: tall - 6, "text-anchor": "middle", class: "title"},
         svg).textContent = x.label;
    draw("text", {x: 13, y: tall / 2 - 16, "text-anchor": "middle", class: "title",
                  transform: `rotate(-90 13 ${tall / 2 - 16})`}, svg).textContent = y.label;
    const groups = [], points = [];
    series.forEach((one, s) => {
      const group = draw("g", {"data-name": one.name}, svg), color = ink(one.look.color);
      const at = kept[s].map(k => [across.place(one.x[k]), up.place(one.y[k]), k]);
      groups.push(group);
      if (one.low && at.length > 1) {
        const side = (values, list) => list.map(([h, , k]) =>
          `${h.toFixed(1)} ${up.place(values[k] ?? one.y[k]).toFixed(1)}`);
        draw("path", {d: "M" + side(one.high, at).concat(side(one.low, at.slice().reverse()))
          .join("L") + "z", fill: color, opacity: 0.15}, group);
      }
      let line = "";
      at.forEach(([h, v, k], n) => {
        // A value that is missing leaves a hole.
        const first = n === 0 || (one.holes && one.x.some((_, j) => j > at[n - 1][2] && j < k));
        line += first ? `M${h.toFixed(1)} ${v.toFixed(1)}`
          : (one.step ? `H${h.toFixed(1)}V${v.toFixed(1)}` : `L${h.toFixed(1)} ${v.toFixed(1)}`);
      });
      draw("path", {d: line, stroke: color, "stroke-width": one.thin ? 1.3 : 2, fill: "none",
                    "stroke-dasharray": DASHES[one.look.dash], "stroke-linejoin": "round"}, group);
      const apart = Math.max(1, Math.ceil(at.length / 10));
      if (!one.bare) at.forEach(([h, v, k], n) => {
        const large = one.large?.includes(k);
        if (large || one.every || n % apart === 0 || n === at.length - 1) {
          draw("path", {d: SHAPES[one.look.symbol], fill: color,
            transform: `translate(${h.toFixed(1)} ${v.toFixed(1)}) scale(${large ? 2 : 1})`}, group);
        }
      });
      for (const [h, v, k] of at) points.push([h, v, s, k]);
      (one.top ?? []).forEach(k => {
        const h = across.place(k);
        draw("path", {d: SHAPES.x, fill: color, transform: `translate(${h} ${edge.top})`}, group);
        points.push([h, edge.top, s, null, k]);
      });
    });
    if (!points.length) draw("text", {x: width / 2, y: tall / 2, "text-anchor": "middle"}, svg)
      .textContent = "nothing to show for this choice";
    const tip = element("div", undefined, "tip");
    tip.hidden = true;
    const dim = name => groups.forEach((group, s) =>
      group.classList.toggle("dim", name !== null && series[s].name !== name));
    svg.addEventListener("pointermove", event => {
      const place = svg.getBoundingClientRect();
      const [h, v] = [event.clientX - place.left, event.clientY - place.top];
      let best = null, least = 40 ** 2;
      for (const point of points) {
        const far = (point[0] - h) ** 2 + (point[1] - v) ** 2;
        if (far < least) [best, least] = [point, far];
      }
      tip.hidden = best === null;
      dim(best && series[best[2]].name);
      if (!best) return;
      const [ph, pv, s, k, missed] = best, one = series[s];
      tip.replaceChildren(element("strong", one.title ?? one.name), element("br"),
        k === null ? `${x.say ? x.say(missed) : missed}: not reached`
          : `${x.say ? x.say(one.x[k]) : `${shown(one.x[k])} ${x.unit ?? x.label}`}: ` +
            `${shown(one.y[k])} ${y.unit ?? ""}`);
      tip.style.left = Math.max(0, Math.min(ph + 12, width - 240)) + "px";
      tip.style.top = (pv + 12) + "px";
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; dim(null); });
    const button = element("button", "save picture", "save");
    button.type = "button";
    button.addEventListener("click", () => save(svg, about));
    box.classList.add("chart");
    box.replaceChildren(svg, tip, button);
    box.emphasise = dim;
  };
  box.paint = paint;
  paint();
  drawn[id] = series.length;
  if (!box.watched) {
    // Only where the width has changed; what is painted changes the height.
    let width = box.clientWidth;
    box.watched = new ResizeObserver(() => {
      if (box.clientWidth !== width) { width = box.clientWidth; box.paint(); }
    });
    box.watched.observe(box);
  }
}

// The picture as a file of its own: what the page's style says is written into its elements.
function save(svg, about) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((made, k) => {
    const style = getComputedStyle(from[k]);
    for (const name of ["fill", "stroke", "font-size", "font-family"]) {
      if (made.tagName !== "svg") made.style.setProperty(name, style.getPropertyValue(name));
    }
  });
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", svg.clientWidth);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  const link = element("a");
  link.download = about.replace(/[^A-Za-z0-9]+/g, "_").slice(0, 80) + ".svg";
  link.href = URL.createObjectURL(new Blob([copy.outerHTML], {type: "image/svg+xml"}));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Other children in the place of those of before; a keyboard goes on from where it was.
function renewed(box, made) {
  const place = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(...made);
  made[place]?.focus();
}

// Names with their looks under a chart: each hides its curve, and shows it while it has the focus.
function legend(id, names, looks, hidden, change, text = name => name) {
  const box = document.getElementById(id);
  const made = names.map(name => {
    const button = element("button");
    button.type = "button";
    button.append(swatch(looks[name]), text(name));
    button.setAttribute("aria-pressed", String(!hidden.has(name)));
    button.title = "show or hide";
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      change(id, name);
    });
    const mark = on => () => box.previousElementSibling?.emphasise?.(on ? name : null);
    button.addEventListener("pointerenter", mark(true));
    button.addEventListener("focus", mark(true));
    button.addEventListener("pointerleave", mark(false));
    button.addEventListener("blur", mark(false));
    return button;
  });
  box.classList.add("legend");
  renewed(box, made);
}

dark.addEventListener("change", () => window.redraw?.());
