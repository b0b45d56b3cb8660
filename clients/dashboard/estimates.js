// Charts of estimates: scores with their intervals by the number of samples.
import { Choice, Toggle } from "./choice.js";
import { h } from "./dom.js";
import { count, score, withSpread } from "./format.js";
import { better, FAR } from "./intervals.js";
import { inOrder, metricsOf } from "./metrics.js";
import { chart, Drawing, line, rangeOf } from "./plot.js";
import { contenders, ranked } from "./ranking.js";
import { rounded } from "./svg.js";
import { keep, seen } from "./view.js";

const LABEL = 55; // pixels that a label of the axis of samples takes
const FIRST = 20; // samples from which on estimates are drawn: those of fewer jump about
const MAIN = 2; // intervals that are shown unless others are chosen: more of them would cover each other
const SAME = 1e-4; // of the range of scores: lines that differ by less are the same
const FADED = 0.35;
const KEYS = "Arrow keys read the values, plus and minus zoom, Escape shows all.";

// A chart of curves with controls for its axis, its part and its intervals, which the address keeps. A subclass has
// `curves(...shown)`, the best first: { name, color, dash, isNear: whether the axis has to hold it, samples, scores, lower, upper },
// and may name in `main` those whose intervals are shown; `text` says what is drawn.
export class CurveChart extends Drawing {
  constructor(id, title, axisTitle) {
    super(chart(id, title, ""));
    [this.chart] = this.charts;
    this.axisTitle = axisTitle;
    this.chosen = new Set(); // names whose intervals somebody has chosen
    this.lit = null; // the name of the line that the pointer is on
    const kept = (name, off, toggle) => () => {
      keep(name, toggle().isOn ? "" : off);
      this.redraw();
    };
    this.bands = new Toggle(`${id}-bands`, "Intervals", seen("bands") !== "off", kept("bands", "off", () => this.bands));
    this.isLog = new Toggle(`${id}-log`, "Logarithmic axis of samples", seen("axis") !== "linear", kept("axis", "linear", () => this.isLog));
    this.whole = { element: h("button", { class: "small", hidden: true, onclick: () => this.zoom() }, "Show all") };
    this.chart.byKeys();
    this.offer();
  }

  offer(...more) {
    this.chart.choose(...more, this.isLog, this.bands, this.whole);
  }

  lacks(...shown) {
    this.known = this.curves(...shown).filter(({ samples }) => samples.length > 0);
    const isEarly = this.known.every(({ samples }) => samples.at(-1) < FIRST);
    this.drawn = isEarly ? this.known : this.known.map(settled).filter(({ samples }) => samples.length > 0);
    return [this.drawn.length === 0];
  }

  // from, to: samples; without them all is shown. Fewer than two places are no part.
  zoom(from, to) {
    const all = this.drawn.flatMap(({ samples }) => samples);
    const isPart = from !== undefined && (Math.min(...all) < from || Math.max(...all) > to);
    if (isPart && new Set(all.filter((n) => n >= from && n <= to)).size < 2) return;
    keep("zoom", isPart ? [from, to].map((end) => Number(end.toPrecision(4))).join("~") : "");
    this.redraw();
  }

  light(name) {
    if (name === this.lit) return;
    this.lit = name;
    this.redraw();
  }

  show() {
    const curves = this.drawn;
    const [from, to] = seen("zoom").split("~").map(Number);
    const zoomed = to > from ? [from, to] : null;
    this.whole.element.hidden = !zoomed;
    const early = this.known.filter(({ name }) => curves.every((one) => one.name !== name)).map(({ name }) => name);
    this.chart.say([this.text, curves !== this.known && `From ${FIRST} samples on.`, early.length && `Fewer: ${early.join(", ")}.`].filter(Boolean).join(" "));
    this.chart.label(`${KEYS} Latest: ${curves.map(({ name, scores }) => `${name} ${score(scores.at(-1))}`).join(", ")}`);
    this.chart.rows(() => [["generator", "samples", "score", "lower", "upper"], ...this.known.flatMap((one) =>
      one.samples.map((n, i) => [one.name, n, one.scores[i], one.lower[i], one.upper[i]]))]);
    const near = curves.filter(({ isNear }) => isNear); // the best ones have scores, if any has
    const main = this.main ?? near.slice(0, MAIN).map(({ name }) => name);
    const lit = curves.some(({ name }) => name === this.lit) ? this.lit : null;
    const isBanded = ({ name }) => name === lit || (this.bands.isOn && (this.chosen.has(name) || (!this.chosen.size && main.includes(name))));
    const banded = curves.filter(isBanded);
    const stripes = same(curves);
    const lines = curves.map((one, i) => drawn(one, stripes[i], lit));
    const range = holding(curves.map(within(zoomed)), main, zoomed);
    const ends = zoomed ?? extent(curves);
    this.chart.draw([...banded.flatMap(band), ...lines], {
      unified: true,
      zoom: (...part) => this.zoom(...part),
      light: (name) => this.light(name),
      xaxis: { title: this.axisTitle, ...(zoomed && { range: zoomed }), ...(this.isLog.isOn ? { type: "log", ticks: ticks(...ends, this.chart.width) } : { type: "linear" }) },
      yaxis: { range, title: this.metric, zero: range[0] < 0 && range[1] > 0 },
    }, true, {
      chosen: new Set(this.bands.isOn ? (this.chosen.size ? this.chosen : main) : []),
      choose: (name) => {
        if (!this.chosen.delete(name)) this.chosen.add(name);
        this.redraw();
      },
      light: (name) => this.light(name),
    });
  }
}

// The estimates of the generators of an experiment.
export class Estimates extends CurveChart {
  constructor(palette) {
    super("estimates", "Estimates and intervals", "Samples of the generator");
    this.palette = palette;
    this.metrics = new Choice("estimates-of", "Metric", () => (keep("metric", this.metrics.value), this.redraw()));
  }

  curves(report, progressCurve) {
    const metrics = metricsOf(report);
    if (metrics.length > 1 && !this.metrics.element.isConnected) this.offer(this.metrics);
    const linked = metrics.find(({ label }) => label === seen("metric"));
    this.metrics.offer(metrics.map(({ label, title }) => [label, title]), linked?.label);
    const metric = metrics.find(({ label }) => label === this.metrics.value);
    this.metric = metric.title;
    this.text = `${metric.title} of each generator by its number of samples.`;
    const leader = metric.decides ? report.decision.best : metric.best;
    const rival = metric.decides && report.decision.hardest?.generator;
    this.main = rival ? [leader, rival] : null;
    const known = progressCurve.curvesBy(metric.label);
    const near = metric.decides ? contenders(report) : new Set(inOrder(metric).slice(0, better(0)).map(({ generator }) => generator));
    return ranked(report).filter(({ generator }) => this.palette.has(generator)).map(({ generator }) => ({
      name: generator, color: this.palette.colour(generator), dash: this.palette.dash(generator),
      isNear: near.has(generator), ...withNewest(known.get(generator), metric.of.get(generator)),
    }));
  }
}

// The curve including the estimate in the standings, which may be newer than the last point of the curve.
export function withNewest(curve, { score: now, lower, upper, unclipped, scored_samples: samples }) {
  const points = curve ?? { samples: [], scores: [], lower: [], upper: [] };
  if (now === null || points.samples.at(-1) >= samples) return points;
  const [last, from, to] = unclipped ?? [now, lower, upper];
  return {
    samples: [...points.samples, samples], scores: [...points.scores, last],
    lower: [...points.lower, from], upper: [...points.upper, to],
  };
}

// Those points of a curve that are wanted.
function part(curve, isWanted) {
  const places = curve.samples.map((n, i) => i).filter((i) => isWanted(curve.samples[i]));
  const columns = ["samples", "scores", "lower", "upper"].map((column) => [column, places.map((i) => curve[column][i])]);
  return { ...curve, ...Object.fromEntries(columns) };
}

const settled = (curve) => part(curve, (n) => n >= FIRST);

const within = (zoomed) => (curve) => (zoomed ? part(curve, (n) => n >= zoomed[0] && n <= zoomed[1]) : curve);

function extent(curves) {
  const all = curves.flatMap(({ samples }) => [samples[0], samples.at(-1)]);
  return [Math.min(...all), Math.max(...all)];
}

// For each curve which of how many that are the same it is, [number, place]; undefined where it is like no other.
function same(curves) {
  const all = curves.flatMap(({ scores }) => scores).filter((one) => one !== null);
  const least = SAME * (Math.max(...all) - Math.min(...all));
  const known = curves.map(({ samples, scores }) => new Map(samples.map((n, i) => [n, scores[i]])));
  const isSame = (a, b) => {
    const common = [...known[a]].filter(([n]) => known[b].has(n));
    return common.length > 1 && common.every(([n, one]) => Math.abs(one - known[b].get(n)) <= least);
  };
  const first = curves.map((_, i) => curves.findIndex((_, j) => j === i || isSame(i, j)));
  return first.map((of, i) => {
    const members = first.flatMap((one, j) => (one === of ? [j] : []));
    return members.length > 1 ? [members.length, members.indexOf(i)] : undefined;
  });
}

function drawn({ name, samples, scores, lower, upper, color, dash }, stripe, lit) {
  const made = line(name, samples, scores, color, dash);
  const said = samples.map((_, i) => [name, ...withSpread({ score: scores[i], lower: lower[i], upper: upper[i] })].join(" ").trim());
  const look = { exits: true, stripe, width: name === lit ? 3.5 : 2, opacity: lit && name !== lit ? FADED : 1 };
  return { ...made, hovertext: said, line: { ...made.line, ...look } };
}

// The range that holds the curves called `main` with their latest intervals, and the latest scores of those that are not far from
// them, or close if they are shown to be worse.
function holding(curves, main, zoomed) {
  const held = curves.filter(({ name, scores }) => main.includes(name) && scores.length);
  const points = (held.length ? held : curves).map(({ scores, lower, upper }) =>
    scores.map((one, i) => (i === scores.length - 1 ? [one, lower[i], upper[i]] : [one])));
  if (zoomed) return rangeOf(points.flat());
  const [least, most] = rangeOf(...points);
  const isClose = ({ isNear, scores }) => {
    const far = (isNear ? FAR : 1) * (most - least);
    return scores.at(-1) >= least - far && scores.at(-1) <= most + far;
  };
  return rangeOf(...points, curves.filter(isClose).map(({ scores }) => [scores.at(-1)]));
}

// The intervals as an area, from the first one that is known.
function band({ name, color, samples, lower, upper }) {
  const known = samples.map((_, i) => i).filter((i) => lower[i] !== null && upper[i] !== null);
  if (known.length < 2) return [];
  const edge = (ends) => ({
    mode: "lines", name, showlegend: false, hoverinfo: "skip", line: { width: 1, color: `${color}55` },
    x: known.map((i) => samples[i]), y: known.map((i) => ends[i]),
  });
  return [edge(lower), { ...edge(upper), fill: true, fillcolor: `${color}24` }];
}

// Round numbers on a logarithmic axis, as many as have room: 1, 2, 5, 10, … or 1, 10, 100, … or still fewer; on a short part of
// one, round numbers at equal distances.
function ticks(least, most, width) {
  const decades = Array.from({ length: 12 }, (_, power) => 10 ** power);
  const steps = [decades.flatMap((one) => [one, 2 * one, 5 * one]), decades, decades.filter((_, power) => power % 2 === 0)];
  const seenOf = (values) => values.filter((value) => value >= least && value <= most);
  const perLabel = (values) => (width * Math.log10(values[1] / values[0])) / Math.log10(most / least);
  const shown = most === least ? [least] : seenOf(steps.find((values) => perLabel(values) >= LABEL) ?? steps[2]);
  const chosen = shown.length > 2 || most === least ? shown : rounded(least, most, Math.max(2, Math.floor(width / (2 * LABEL)))).filter(Number.isInteger);
  return chosen.map((value) => [value, count(value)]);
}
