// Charts of estimates: scores with their intervals by the number of samples.
import { Choice, Toggle } from "./choice.js";
import { count, score } from "./format.js";
import { better, FAR } from "./intervals.js";
import { inOrder, metricsOf } from "./metrics.js";
import { chart, Drawing, line, rangeOf } from "./plot.js";
import { contenders, ranked } from "./ranking.js";
import { keep, seen } from "./view.js";

const LABEL = 55; // pixels that a label of the axis of samples takes
const BANDS = 3; // intervals of the best: more of them would cover each other

// A chart of curves with controls for its axis and intervals, which the address keeps. A subclass has `curves(...shown)`:
// { name, color, dash, isNear: whether the axis has to hold it, samples, scores, lower, upper }.
export class CurveChart extends Drawing {
  constructor(id, title, text, axisTitle) {
    super(chart(id, title, text));
    [this.chart] = this.charts;
    this.axisTitle = axisTitle;
    const kept = (name, off, toggle) => () => {
      keep(name, toggle().isOn ? "" : off);
      this.redraw();
    };
    this.bands = new Toggle(`${id}-bands`, "Intervals", seen("bands") !== "off", kept("bands", "off", () => this.bands));
    this.isLog = new Toggle(`${id}-log`, "Logarithmic axis of samples", seen("axis") !== "linear", kept("axis", "linear", () => this.isLog));
    this.chart.choose(this.isLog, this.bands);
  }

  lacks(...shown) {
    this.drawn = this.curves(...shown).filter(({ samples }) => samples.length > 0);
    return [this.drawn.length === 0];
  }

  show() {
    const curves = this.drawn;
    this.chart.label(`Latest: ${curves.map(({ name, scores }) => `${name} ${score(scores.at(-1))}`).join(", ")}`);
    this.chart.rows(() => [["generator", "samples", "score", "lower", "upper"], ...curves.flatMap((one) =>
      one.samples.map((n, i) => [one.name, n, one.scores[i], one.lower[i], one.upper[i]]))]);
    const near = curves.filter(({ isNear }) => isNear); // the best ones have scores, if any has
    const bands = this.bands.isOn ? near.slice(0, BANDS).flatMap(band) : [];
    this.chart.draw([...bands, ...curves.map((one) => line(one.name, one.samples, one.scores, one.color, one.dash))], {
      xaxis: { title: this.axisTitle, ...(this.isLog.isOn ? ticks(curves, this.chart.width) : { type: "linear" }) },
      yaxis: { range: holding(near, curves), title: this.metric },
    }, true);
  }
}

// The estimates of the generators of an experiment.
export class Estimates extends CurveChart {
  constructor(palette) {
    super("estimates", "Estimates and intervals", "", "Samples of the generator");
    this.palette = palette;
    this.metrics = new Choice("estimates-of", "Metric", () => (keep("metric", this.metrics.value), this.redraw()));
  }

  curves(report, progressCurve) {
    const metrics = metricsOf(report);
    if (metrics.length > 1 && !this.metrics.element.isConnected) this.chart.choose(this.metrics, this.isLog, this.bands);
    const linked = metrics.find(({ label }) => label === seen("metric"));
    this.metrics.offer(metrics.map(({ label, title }) => [label, title]), linked?.label);
    const metric = metrics.find(({ label }) => label === this.metrics.value);
    this.metric = metric.title;
    this.chart.say(`${metric.title} of each generator by its number of samples.`);
    const known = progressCurve.curvesBy(metric.label);
    const near = metric.decides ? contenders(report) : new Set(inOrder(metric).slice(0, better(0)).map(({ generator }) => generator));
    return ranked(report).filter(({ generator }) => this.palette.has(generator)).map(({ generator }) => ({
      name: generator, color: this.palette.colour(generator), dash: this.palette.dash(generator),
      isNear: near.has(generator), ...withNewest(known.get(generator), metric.of.get(generator)),
    }));
  }
}

// The curve including the estimate in the standings, which may be newer than the last point of the curve.
export function withNewest(curve, { score: now, lower, upper, scored_samples: samples }) {
  const points = curve ?? { samples: [], scores: [], lower: [], upper: [] };
  if (now === null || points.samples.at(-1) >= samples) return points;
  return {
    samples: [...points.samples, samples], scores: [...points.scores, now],
    lower: [...points.lower, lower], upper: [...points.upper, upper],
  };
}

// The range that holds the curves `near` with their latest intervals, and the latest scores of those that are not far from them.
function holding(near, curves) {
  const points = near.map(({ scores, lower, upper }) =>
    scores.map((one, i) => (i === scores.length - 1 ? [one, lower[i], upper[i]] : [one])));
  const [least, most] = rangeOf(...points);
  const far = FAR * (most - least);
  const others = curves.map(({ scores }) => scores.at(-1)).filter((one) => one >= least - far && one <= most + far);
  return rangeOf(...points, others.map((one) => [one]));
}

// The intervals as an area, from the first one that is known.
function band({ name, color, samples, lower, upper }) {
  const known = samples.map((_, i) => i).filter((i) => lower[i] !== null && upper[i] !== null);
  if (known.length < 2) return [];
  const edge = (ends) => ({
    mode: "lines", name, showlegend: false, hoverinfo: "skip", line: { width: 1, color: `${color}55` },
    x: known.map((i) => samples[i]), y: known.map((i) => ends[i]),
  });
  return [edge(lower), { ...edge(upper), fill: true, fillcolor: `${color}1c` }];
}

// Round numbers on a logarithmic axis, as many as have room: 1, 2, 5, 10, … or 1, 10, 100, … or still fewer.
function ticks(curves, width) {
  const all = curves.flatMap(({ samples }) => [samples[0], samples.at(-1)]);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const decades = Array.from({ length: 12 }, (_, power) => 10 ** power);
  const steps = [decades.flatMap((one) => [one, 2 * one, 5 * one]), decades, decades.filter((_, power) => power % 2 === 0)];
  const seenOf = (values) => values.filter((value) => value >= least && value <= most);
  const perLabel = (values) => (width * Math.log10(values[1] / values[0])) / Math.log10(most / least);
  const shown = seenOf(steps.find((values) => most === least || perLabel(values) >= LABEL) ?? steps[2]);
  return shown.length > 1 ? { type: "log", ticks: shown.map((value) => [value, count(value)]) } : { type: "log" };
}
