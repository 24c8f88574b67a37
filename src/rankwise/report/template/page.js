"use strict";
// Fills the page from the contents. Names of rows and columns only ever become text, never markup.

const contents = JSON.parse(document.getElementById("contents").textContent);
const model = new Model(contents.model);
const SHOWN = 10, SUGGESTED = 50, LONGEST_NAME = 80;
const byId = (id) => document.getElementById(id);
const show = (id, wanted) => { byId(id).hidden = !wanted; };

function number(x, digits = 3) {
  if (x === null || x === undefined) return "—";
  const size = Math.abs(x);
  if (size >= 1e7 || (x !== 0 && size < 10 ** -digits)) return x.toExponential(2).replaceAll("-", "−");
  return (Number.isInteger(x) ? x.toLocaleString("en") : x.toFixed(digits)).replace("-", "−");
}

// A predicted value on the targets' scale; probabilities in percent.
const predicted = (x) => (contents.link === "logit" ? percent(x) : number(x));

function percent(x) {
  if (x < 0.0005) return "< 0.1 %";
  return x > 0.9995 ? "> 99.9 %" : `${(100 * x).toFixed(1)} %`;
}

function cell(tag, text, kind) {
  const found = document.createElement(tag), long = kind === "name" && text.length > LONGEST_NAME;
  found.textContent = long ? text.slice(0, LONGEST_NAME) + "…" : text;
  if (long) found.title = text;
  if (kind) found.className = kind;
  return found;
}

// `columns` are [heading, "name" | "number"]; `rows` are lists of text.
function fillTable(id, columns, rows) {
  const head = document.createElement("tr");
  columns.forEach(([words, kind]) => head.append(cell("th", words, kind)));
  const body = rows.map((row) => {
    const line = document.createElement("tr");
    row.forEach((text, k) => line.append(cell("td", text, columns[k][1])));
    return line;
  });
  const table = byId(id);
  table.replaceChildren(document.createElement("thead"), document.createElement("tbody"));
  table.tHead.append(head);
  table.tBodies[0].append(...body);
}

function fillAbout() {
  document.title = contents.title;
  byId("title").textContent = contents.title;
  byId("about").replaceChildren(...contents.about.map(([name, words]) => {
    const line = document.createElement("tr");
    line.append(cell("th", name), cell("td", words));
    return line;
  }));
  show("commands-section", contents.commands.length);
  byId("commands").textContent = contents.commands.join("\n");
  byId("holds").textContent = `This file holds ${held().join(", ")}. It needs no network.`;
}

// What somebody who gets the file can read in it.
function held() {
  const { targets } = contents.ranks.examples;
  return [
    contents.labelled ? "the names of rows and columns" : "no names, only the numbers of rows and columns",
    "the model’s factors",
    ...(model.seen ? ["which entries were seen"] : []),
    ...(targets ? [`the values of ${targets.length} held-out entries`] : []),
  ];
}

// The slider, the scores, their chart and the examples all follow one number, the rank.
class Ranks {
  constructor(found) {
    Object.assign(this, found);
    this.pressed = 0;
    this.rank = this.chosen;
    show("no-scores", !this.scores.length);
    show("no-path", this.only_by);
    byId("no-path").textContent = `${this.only_by} keeps no path of ranks, so there is one rank to show.`;
    this.setSlider();
    this.makeTiles();
    const several = this.scores.length && this.ranks.length > 1;
    show("path-figure", several);
    if (several) this.chart = new Chart("path-chart", [this.ranks, this.scores[0].values],
      { x: "rank", y: this.scores[0].title, names: [this.scores[0].title], whole: true, mark: this.rank });
    byId("examples-title").textContent = this.examples.targets
      ? "Held-out entries, drawn at random" : "Entries drawn at random from the whole matrix";
    this.update();
  }

  setSlider() {
    const slider = byId("rank");
    slider.min = this.ranks[0];
    slider.max = this.ranks[this.ranks.length - 1];
    slider.value = this.rank;
    slider.hidden = this.ranks.length < 2;
    slider.addEventListener("input", () => { this.rank = Number(slider.value); this.update(); });
  }

  makeTiles() {
    this.tiles = this.scores.map((score, k) => {
      const tile = cell("button", "", "tile");
      tile.type = "button";
      tile.append(cell("span", score.title, "title"), cell("b", ""), cell("span", score.unit), cell("span", ""));
      tile.addEventListener("click", () => this.press(k));
      return tile;
    });
    byId("scores").replaceChildren(...this.tiles);
  }

  press(k) {
    this.pressed = k;
    if (this.chart) this.chart.change([this.ranks, this.scores[k].values], this.scores[k].title);
    this.update();
  }

  update() {
    const at = this.ranks.indexOf(this.rank);
    byId("rank-shown").textContent = this.rank;
    byId("rank-words").textContent = this.words();
    this.scores.forEach((score, k) => this.fillTile(score, k, at));
    if (this.chart) {
      this.chart.moveMark(this.rank);
      const { title, unit } = this.scores[this.pressed];
      byId("path-words").textContent = `Held-out ${title} against the rank: ${unit}.`;
    }
    this.fillExamples(at);
    if (recommender) recommender.update();
  }

  words() {
    const own = this.rank === this.chosen ? "The model’s own rank." : `The model’s own rank is ${this.chosen}.`;
    return this.rank === 0 ? `Rank 0: the offsets alone, if any. ${own}` : own;
  }

  fillTile(score, k, at) {
    const shown = (x) => (x === 0 ? "0" : number(x, 4));
    const best = (score.higher ? Math.max : Math.min)(...score.values.filter((x) => x !== null));
    const [, value, , note] = this.tiles[k].children;
    value.textContent = shown(score.values[at]);
    const there = this.ranks[score.values.indexOf(best)];
    note.textContent = this.ranks.length > 1 ? `best ${shown(best)} at rank ${there}` : "";
    this.tiles[k].setAttribute("aria-pressed", k === this.pressed && this.ranks.length > 1);
  }

  fillExamples(at) {
    const { rows, cols, targets } = this.examples;
    const values = this.examples.predicted[at];
    const columns = [["row", "name"], ["column", "name"]];
    if (targets) columns.push(["observed", "number"]);
    columns.push([contents.predicted, "number"]);
    fillTable("examples", columns, rows.map((row, k) =>
      [row, cols[k], ...(targets ? [this.observed(targets[k])] : []), predicted(values[k])]));
  }

  observed(x) {
    return contents.kind === "signs" ? contents.classes[x > 0 ? 1 : 0] : number(x);
  }
}

class Recommender {
  constructor() {
    byId("recommend-words").textContent = this.words();
    byId("row").placeholder = `such as ${model.rows[0]}`;
    byId("row").addEventListener("input", () => { this.suggest(); this.update(); });
    this.suggest();
  }

  words() {
    const { rows, cols, n_rows, n_cols, seen, risk, best } = model;
    const part = (held, all, things) => (held === all ? `all ${number(all)} ${things}`
      : `the ${number(held)} ${seen ? "most active" : "first"} of ${number(all)} ${things}`);
    const parts = `${part(rows.length, n_rows, "rows")} and ${part(cols.length, n_cols, "columns")}`;
    const cut = rows.length < n_rows || cols.length < n_cols ? ` To stay small, the page holds ${parts}.` : "";
    const known = seen ? "Columns in which the row has an observed entry are left out."
      : "The model does not store which entries were observed, so observed ones may be among them.";
    const scored = risk ? `less ${risk} standard deviations of the column` : "with the part of the columns’ neighbours";
    const order = best ? `by the prediction ${scored}, as “rankwise recommend” ranks them, ${contents.clicks ? "with all its parts" : "at the model’s own rank, and by the "
      + "low-rank prediction alone at other ranks of the slider above"}` : "by the prediction at the rank of the slider above";
    return `The ${SHOWN} best columns ${order}. ${known}${cut}`;
  }

  suggest() {
    const typed = byId("row").value.toLowerCase(), found = [];
    for (const name of model.rows) {
      if (name.toLowerCase().includes(typed)) found.push(name);
      if (found.length === SUGGESTED) break;
    }
    byId("rows").replaceChildren(...found.map((name) => new Option("", name)));
  }

  update() {
    const typed = byId("row").value.trim(), row = typed ? model.find(byId("row").value) : null;
    const note = byId("recommend-note"), table = byId("recommendations");
    if (row === null) {
      note.textContent = typed ? `There is no row “${typed}” on this page.` : "";
      table.replaceChildren();
      return;
    }
    note.textContent = `Row “${model.rows[row]}”${contents.clicks ? "" : ` at rank ${ranks.rank}`}:`;
    const found = model.recommend(row, ranks.rank, SHOWN);
    fillTable("recommendations", [["", "place"], ["column", "name"], [contents.predicted, "number"]],
      found.map(({ col, linked }, k) => [k + 1, model.cols[col], predicted(onResponse(contents.link, linked))]));
  }
}

// Models of clicks: how well they rank, and the settings that were tried.
function fillClicks() {
  const found = contents.clicks;
  show("clicks-section", found);
  show("rank-section", !found);
  if (!found) return;
  show("no-rankings", !found.scores);
  if (found.scores) fillTable("rankings", [["score", "name"], ["model", "number"], ["most popular", "number"], ["unit", "name"]],
    found.scores.map(([title, value, popular, unit]) => [title, number(value, 4), number(popular, 4), unit]));
  byId("parts-words").textContent = found.parts.length
    ? `Recall and NDCG at 20 of the best settings with each part, on ${found.on} that were held out to choose them.`
    : "The settings were given, so nothing was compared.";
  const columns = (first) => [[first, "name"], ["recall@20", "number"], ["NDCG@20", "number"]];
  const lines = (rows) => rows.map(([words, recall, ndcg]) => [words, number(recall, 4), number(ndcg, 4)]);
  fillTable("parts", columns("part"), lines(found.parts));
  fillTable("tried", columns("settings"), lines(found.tried));
}

function drawValidation() {
  const found = contents.validation;
  show("validation-figure", found);
  if (!found) return;
  byId("validation-words").textContent = `Mean validation loss against the ${found.name}, within one standard error `
    + `(dashed); ${found.name} ${number(found.best)} was chosen.`;
  const order = found.settings.map((_, k) => k).sort((one, other) => found.settings[one] - found.settings[other]);
  const column = (at) => order.map(at);
  new Chart("validation-chart", [
    column((k) => found.settings[k]), column((k) => found.scores[k]),
    column((k) => found.scores[k] - found.deviations[k]), column((k) => found.scores[k] + found.deviations[k]),
  ], { x: found.name, y: "validation loss", names: ["loss", "less an error", "plus an error"], mark: found.best,
    whole: found.name === "rank", logarithmic: found.name === "ridge" });
}

function drawErrors() {
  const { residuals, reliability, offsets, kind } = contents;
  show("residuals-figure", residuals);
  show("reliability-figure", reliability);
  show("row-offsets-figure", offsets[0]);
  show("col-offsets-figure", offsets[1]);
  show("errors-section", residuals || offsets.length);
  if (residuals) {
    byId("residuals-words").textContent = kind === "signs"
      ? "Margins of the held-out entries; left of the line the sign is wrong." : "Residuals of the held-out entries";
    histogram("residuals-chart", residuals, "entries");
  }
  if (reliability) {
    const { predicted, observed, counts } = reliability;
    new Chart("reliability-chart", [predicted, observed, predicted, counts],
      { x: `predicted ${contents.predicted}`, xShort: "predicted", y: `share of ${contents.classes[1]}`, names: ["observed", "perfect", "entries"],
        told: "entries", span: [0, 1], fromZero: true });
  }
  if (offsets[0]) histogram("row-offsets-chart", offsets[0], "rows");
  if (offsets[1]) histogram("col-offsets-chart", offsets[1], "columns");
}

function fillComponents() {
  const { components, sizes } = contents, select = byId("component");
  show("components-section", components.length);
  if (!components.length) return;
  new Chart("sizes-chart", [sizes.map((_, k) => k + 1), sizes],
    { x: "component", y: "|theta|", names: ["|theta|"], whole: true, fromZero: true });
  components.forEach((_, k) => select.append(new Option(k + 1, k)));
  const side = (id, name, found) => fillTable(id,
    [[name, "name"], ["strength", "number"], ["entries", "number"]],
    found.names.map((label, k) => [label, number(found.numbers[k]), number(found.counts && found.counts[k])]));
  const update = () => {
    side("component-rows", "row", components[select.value].rows);
    side("component-cols", "column", components[select.value].cols);
  };
  select.addEventListener("change", update);
  update();
}

function drawHistory() {
  const found = contents.history;
  show("history-section", found);
  if (!found) return;
  new Chart("history-chart", [found.wall_seconds, found.value], { x: "seconds", y: "value", names: ["value"] });
  show("history-score-figure", found.score);
  if (found.score) new Chart("history-score-chart", [found.wall_seconds, found.score],
    { x: "seconds", y: "held-out loss", names: ["held-out loss"] });
}

fillAbout();
fillClicks();
let recommender = null;
const ranks = new Ranks(contents.ranks);
recommender = new Recommender();
drawValidation();
drawErrors();
fillComponents();
drawHistory();
