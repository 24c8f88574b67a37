"use strict";
// Thin wrappers around uPlot: colours from the page's style, drawn again when the theme or the width changes.

const charts = [];
const HEIGHT = 240;
const WHOLE = Array.from({ length: 30 }, (_, k) => [1, 2, 5][k % 3] * 10 ** Math.floor(k / 3)); // 1, 2, 5, 10, ...

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function axis(words) {
  return {
    label: words, labelSize: 22, labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif",
    values: tickLabels, stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 },
  };
}

// As many digits as tell neighbours apart, where uPlot's three decimals would give small ticks equal labels.
function tickLabels(plot, ticks, axis, space, step) {
  const most = Math.max(...ticks.map((tick) => Math.abs(tick ?? 0)));
  const digits = step > 0 && most > 0 ? Math.ceil(Math.log10(most / step)) + 2 : 6;
  const plain = most === 0 || (most >= 1e-4 && most < 1e9);
  const places = step > 0 ? Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(step)))) : 6;
  const label = (tick) => plain ? tick.toLocaleString("en", { maximumFractionDigits: places })
    : tick === 0 ? "0" : Number(tick.toPrecision(Math.min(digits, 17))).toExponential();
  return ticks.map((tick) => tick === null ? null : label(tick));
}

// Wide enough for the longest number on the axis, and a gap to the axis label.
const tickSpace = (plot, ticks) => 24 + 7 * Math.max(1, ...(ticks || []).map((tick) => String(tick).length));

// Lines (or bars) over x. `mark` names a place on x with a vertical line, and may be changed later.
class Chart {
  constructor(id, data, options) {
    Object.assign(this, { place: document.getElementById(id), data, options, mark: options.mark ?? null });
    this.place.setAttribute("role", "img");
    this.place.setAttribute("aria-label", `${options.y} against ${options.x}`);
    charts.push(this);
    this.draw();
    new ResizeObserver(() => this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT })).observe(this.place);
  }

  draw() {
    if (this.plot) this.plot.destroy();
    const { x, y, names, bars, whole } = this.options;
    const series = names.map((name, k) => this.line(name, k));
    this.plot = new uPlot({
      width: this.place.clientWidth, height: HEIGHT, scales: this.scales(),
      axes: [
        { ...axis(x), size: 34, incrs: whole ? WHOLE : undefined },
        { ...axis(y), size: tickSpace, incrs: bars ? WHOLE : undefined },
      ],
      series: [{ label: this.options.xShort || x, value: (_, at) => number(at) }, ...series],
      cursor: { y: false, points: { size: 6 } }, hooks: { draw: [(plot) => this.drawMark(plot)] },
    }, this.data, this.place);
  }

  // Bars and sizes stand on zero; `span` is the range of x, if it is more than the data's.
  scales() {
    const { span, fromZero, logarithmic } = this.options;
    const x = { time: false, distr: logarithmic ? 3 : 1 }, y = {};
    if (span) x.range = () => span;
    if (fromZero) y.range = (plot, least, most) => [0, 1.05 * most || 1];
    return { x, y };
  }

  // The first line is what the chart is about, those beside it are dashed; what is only told stands in the legend.
  line(name, k) {
    const ink = colour(k ? "quiet" : "blue"), { bars, told } = this.options;
    const found = { label: name, value: (_, x) => number(x, 4), stroke: ink, width: 2, points: { size: 5, fill: ink } };
    if (name === told) return { ...found, scale: "told", stroke: "transparent", points: { show: false } };
    if (bars) return { ...found, fill: ink, width: 0, paths: uPlot.paths.bars({ size: [1] }), points: { show: false } };
    return k ? { ...found, width: 1, dash: [4, 4], points: { show: false } } : found;
  }

  drawMark(plot) {
    if (this.mark === null) return;
    const at = Math.round(plot.valToPos(this.mark, "x", true));
    const { ctx, bbox } = plot;
    if (at < bbox.left || at > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = colour("red");
    ctx.lineWidth = 2;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  moveMark(place) {
    this.mark = place;
    this.plot.redraw(false);
  }

  change(data, y) {
    this.data = data;
    this.options.y = y;
    this.options.names = [y];
    this.draw();
  }
}

function histogram(id, found, things) {
  const middles = found.counts.map((_, k) => found.edges[k] / 2 + found.edges[k + 1] / 2);
  const span = [found.edges[0], found.edges[found.edges.length - 1]];
  return new Chart(id, [middles, found.counts],
    { x: found.words, xShort: "around", y: things, names: [things], bars: true, fromZero: true, span, mark: 0 });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.draw()));
