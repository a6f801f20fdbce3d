"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
// Without the button that sends a chart to Plotly's servers, which it has by default.
const settings = {responsive: true, displaylogo: false, showSendToCloud: false,
                  plotlyServerURL: ""};
const drawn = window.drawn = {};

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function table(heads, rows, numbers) {
  const made = element("table"), head = made.insertRow();
  heads.forEach((text, k) => {
    head.append(element("th", text, numbers.includes(k) ? "number" : ""));
  });
  for (const row of rows) {
    const line = made.insertRow();
    row.forEach((cell, k) => {
      const known = cell !== null && typeof cell === "object";
      const box = element("td", known ? cell.text : cell, numbers.includes(k) ? "number" : "");
      if (known && cell.className) box.classList.add(cell.className);
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

function shown(seconds) {
  if (seconds === null) return "-";
  return seconds >= 100 ? seconds.toFixed(0) : seconds.toPrecision(3);
}

function choice(section, name, options, draw) {
  const box = element("label", name + " "), list = element("select");
  list.id = section + "-" + name.replaceAll(" ", "-");
  options.forEach((text, k) => list.append(new Option(text, k)));
  list.addEventListener("change", draw);
  box.append(list);
  document.getElementById(section + "-controls").append(box);
  return list;
}

function renew(list, options) {
  if (options.length === list.options.length
      && options.every((text, k) => text === list.options[k].text)) return;
  const before = list.selectedOptions[0]?.text;
  list.replaceChildren(...options.map((text, k) => new Option(text, k)));
  if (options.includes(before)) list.value = options.indexOf(before);
}

function plot(section, traces, layout) {
  const base = {
    margin: {t: 30, r: 20, l: 80, b: 60}, hovermode: "closest", font: {size: 13},
    legend: {font: {size: 11}}, plot_bgcolor: "#fff",
  };
  const merged = Object.assign(base, layout);
  if (!traces.length) {
    merged.annotations = [{text: "nothing to show for this choice", showarrow: false,
                           xref: "paper", yref: "paper", x: 0.5, y: 0.5}];
  }
  Plotly.react(section + "-plot", traces, merged, settings);
  drawn[section] = traces.length;
}

function style(solver) { return data.styles[solver]; }

// A few marks on a curve, so that it is not told by its colour alone.
function marks(solver, kind = "") {
  const {color, symbol} = style(solver);
  return {color, symbol: symbol + kind, size: 7, maxdisplayed: 12};
}

// Plotly reads a few tags in labels.
function plain(text) { return text.replaceAll("<", "\u2039").replaceAll(">", "\u203a"); }
