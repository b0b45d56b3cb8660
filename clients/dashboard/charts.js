// The charts: estimates with intervals; regret, the current leader's share of batches, shares of the latest batches.
import { Choice, Toggle } from "./choice.js";
import { otherColour, styleValue } from "./colours.js";
import { h, say } from "./dom.js";
import { count, score, share } from "./format.js";
import { metricsOf } from "./metrics.js";
import { chart, line, plain, plotly, react } from "./plot.js";
import { ranked } from "./ranking.js";
import { onTheme } from "./theme.js";
import { keep, seen } from "./view.js";

const FLAT = 5; // the axis of the estimates shows the first values unless it gets this many times as long

export class Charts {
  // hasBest: whether one best generator is asked for; elsewhere regret and its share say nothing.
  constructor(metric, palette, hasBest = true) {
    this.hasBest = hasBest;
    this.palette = palette;
    this.metric = metric;
    this.charts = {
      regret: chart("regret", "Estimated regret",
        "The sum over all batches of the gap between the picked and the best generator, by current scores."),
      ratio: chart("ratio", "Share of batches given to the current leader",
        "Of all batches so far, those that the generator with the best score now received (optimal pick ratio)."),
      shares: chart("shares", "Shares of the latest batches", "How the latest batches were divided among the generators."),
      estimates: chart("estimates", "Estimates and intervals",
        `${this.metric} of each generator by its number of samples.`),
    };
    this.metrics = new Choice("estimates-of", "Metric", () => (keep("metric", this.metrics.value), this.redraw()));
    this.bands = new Toggle("estimates-bands", "Intervals", seen("bands") !== "off", () => {
      keep("bands", this.bands.isOn ? "" : "off");
      this.redraw();
    });
    this.isLog = new Toggle("estimates-log", "Logarithmic axis", seen("axis") !== "linear", () => {
      keep("axis", this.isLog.isOn ? "" : "linear");
      this.redraw();
    });
    this.charts.estimates.choose(this.isLog, this.bands);
    this.problem = h("p", { class: "problem", role: "alert" });
    if (!hasBest) for (const name of ["regret", "ratio"]) delete this.charts[name];
    const { estimates, ...picks } = this.charts;
    estimates.card.classList.add("large");
    this.section = h("section", { class: "first-charts", "aria-label": "Estimates" }, estimates.card, this.problem);
    this.picks = h("section", { class: "charts three", "aria-label": "Picks and regret" },
      ["shares", "ratio", "regret"].map((name) => picks[name]?.card));
    this.redraw = () => this.latest && this.draw(...this.latest);
    this.unwatch = onTheme(this.redraw);
  }

  stop() {
    this.unwatch();
    if (window.Plotly) for (const { plot } of Object.values(this.charts)) window.Plotly.purge(plot);
    this.latest = null;
  }

  async draw(report, progressCurve) {
    this.latest = [report, progressCurve];
    for (const one of Object.values(this.charts)) one.waiting(progressCurve.rounds.length === 0);
    if (progressCurve.rounds.length === 0) return;
    let Plotly;
    try {
      Plotly = await plotly();
      say(this.problem, "");
    } catch (error) {
      say(this.problem, error.message);
      return;
    }
    if (this.latest?.[0] !== report) return;
    const best = report.decision.best;
    const drawn = ranked(report).filter(({ generator }) => this.palette.has(generator));
    if (this.hasBest) {
      this.regret(Plotly, report, progressCurve, best);
      this.ratio(Plotly, progressCurve, best);
    }
    this.shares(Plotly, report, progressCurve, drawn);
    this.estimates(Plotly, report, progressCurve, drawn);
  }

  regret(Plotly, report, progressCurve, best) {
    const regret = progressCurve.regret(report.standings, best);
    this.charts.regret.waiting(regret === null);
    if (regret === null) return;
    const total = regret.at(-1);
    this.charts.regret.label(`Total regret ${score(total)} after ${count(progressCurve.told)} batches`);
    react(Plotly, this.charts.regret, [line("regret", progressCurve.samples, regret, styleValue("--accent"))], {
      yaxis: { rangemode: "tozero", title: { text: `Σ gap in ${this.metric}` } },
    });
  }

  ratio(Plotly, progressCurve, best) {
    this.charts.ratio.waiting(best === null);
    if (best === null) return;
    const ratio = progressCurve.ratio(best);
    this.charts.ratio.label(`${share(ratio.at(-1))} of ${count(progressCurve.told)} batches went to ${best}`);
    react(Plotly, this.charts.ratio, [line(best, progressCurve.samples, ratio, styleValue("--accent"))], {
      yaxis: { range: [0, 1.02], tickformat: ".0%" },
    });
  }

  shares(Plotly, report, progressCurve, drawn) {
    const width = Math.max(1, Math.round(progressCurve.rounds.length / 8));
    const area = (name, y, fill) => ({
      ...line(name, progressCurve.samples, y, fill),
      // Steps: each share is that of the batches up to its checkpoint.
      stackgroup: "all", line: { width: 0.5, color: fill, shape: "vh" }, fillcolor: fill,
    });
    const known = drawn.map((one) => [one, progressCurve.shares(one.generator, width)]);
    const traces = known.map(([one, y]) => area(one.generator, y, this.palette.colour(one.generator)));
    const others = progressCurve.batches.size - drawn.length;
    if (others > 0) {
      const rest = progressCurve.rounds.map((_, i) => Math.max(0, 1 - known.reduce((sum, [, y]) => sum + y[i], 0)));
      traces.push(area(`${others} ${others === 1 ? "other" : "others"}`, rest, otherColour()));
    }
    const newest = known.map(([one, y]) => `${one.generator} ${share(y.at(-1))}`);
    this.charts.shares.label(`Latest shares: ${newest.join(", ")}`);
    react(Plotly, this.charts.shares, traces, { yaxis: { range: [0, 1], tickformat: ".0%" }, showlegend: true });
  }

  estimates(Plotly, report, progressCurve, drawn) {
    const metrics = metricsOf(report);
    if (metrics.length > 1 && !this.metrics.element.isConnected) {
      this.charts.estimates.choose(this.metrics, this.isLog, this.bands);
    }
    const linked = metrics.find(({ label }) => label === seen("metric"));
    this.metrics.offer(metrics.map(({ label, title }) => [label, title]), linked?.label);
    const metric = metrics.find(({ label }) => label === this.metrics.value);
    const known = progressCurve.curvesBy(metric.label);
    const curves = drawn
      .map(({ generator }) => ({ generator, ...withNewest(known.get(generator), metric.of.get(generator)) }))
      .filter(({ samples }) => samples.length > 0);
    this.charts.estimates.waiting(curves.length === 0);
    this.charts.estimates.say(`${metric.title} of each generator by its number of samples.`);
    if (!curves.length) return;
    this.charts.estimates.label(`Latest: ${drawn.map(({ generator }) => `${generator} ${score(metric.of.get(generator).score)}`).join(", ")}`);
    this.charts.estimates.rows(() => [["generator", "samples", "score", "lower", "upper"], ...curves.flatMap((one) =>
      one.samples.map((n, i) => [one.generator, n, one.scores[i], one.lower[i], one.upper[i]]))]);
    const range = spread(curves);
    const traces = curves.flatMap((curve) => {
      const color = this.palette.colour(curve.generator);
      return [...(this.bands.isOn ? band(curve, color, range) : []), ...path(curve, color, range)];
    });
    react(Plotly, this.charts.estimates, traces, {
      showlegend: true,
      xaxis: { title: { text: "Samples of the generator" }, ...(this.isLog.isOn ? ticks(curves) : { type: "linear" }) },
      yaxis: { range, title: { text: plain(metric.title) } },
    });
  }
}

// The index from which on all elements fulfil a condition.
function lasting(length, holds) {
  let start = length;
  while (start > 0 && holds(start - 1)) start -= 1;
  return start;
}

// The scores as a line. Where the first ones are off the axis, it starts with a triangle that points to them.
function path({ generator, samples, scores }, color, [least, most]) {
  const start = Math.min(lasting(samples.length, (i) => scores[i] >= least && scores[i] <= most), samples.length - 1);
  const curve = line(generator, samples.slice(start), scores.slice(start), color);
  if (start === 0) return [curve];
  const before = scores[start - 1];
  const mark = {
    type: "scatter", mode: "markers", name: generator, showlegend: false, x: [samples[start]], y: [scores[start]],
    marker: { color, size: 10, symbol: before > most ? "triangle-up" : "triangle-down" },
    hoverinfo: "text", hovertext: [`${plain(generator)}: ${score(before)} before, off the axis`],
  };
  return [curve, mark];
}

// The intervals as an area, starting when they fit on the axis: the first ones would cover the whole chart.
function band({ generator, samples, lower, upper }, color, [least, most]) {
  const fits = (i) => lower[i] !== null && upper[i] !== null && lower[i] >= least && upper[i] <= most;
  const start = lasting(samples.length, fits);
  if (samples.length - start < 2) return [];
  const edge = {
    type: "scatter", mode: "lines", name: generator, showlegend: false, hoverinfo: "skip", line: { width: 0 },
  };
  const x = samples.slice(start);
  return [
    { ...edge, x, y: lower.slice(start) },
    { ...edge, x, y: upper.slice(start), fill: "tonexty", fillcolor: `${color}2e` },
  ];
}

// The curve including the estimate in the standings, which may be newer than the last point of the curve.
function withNewest(curve, { score: now, lower, upper, scored_samples: samples }) {
  const points = curve ?? { samples: [], scores: [], lower: [], upper: [] };
  if (now === null || points.samples.at(-1) >= samples) return points;
  return {
    samples: [...points.samples, samples], scores: [...points.scores, now],
    lower: [...points.lower, lower], upper: [...points.upper, upper],
  };
}

// The range of the axis: the latest intervals and all scores, or the second half of every curve if the first values are
// so far off that the rest would be flat.
function spread(curves) {
  const ends = (from) => {
    const all = curves.flatMap(({ scores, lower, upper }) =>
      [...scores.slice(from(scores.length)), lower.at(-1), upper.at(-1)].filter((end) => end !== null));
    return [Math.min(...all), Math.max(...all)];
  };
  const whole = ends(() => 0);
  const settled = ends((length) => Math.floor(length / 2));
  const [least, most] = whole[1] - whole[0] <= FLAT * (settled[1] - settled[0]) ? whole : settled;
  const margin = 0.08 * (most - least) || Math.abs(most) * 0.1 || 1;
  return [least - margin, most + margin];
}

// Round numbers on a logarithmic axis: 1, 2, 5, 10, … or, over many decades, 1, 10, 100, …
function ticks(curves) {
  const all = curves.flatMap(({ samples }) => [samples[0], samples.at(-1)]);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const steps = most / least > 2000 ? [1] : [1, 2, 5];
  const values = Array.from({ length: 12 }, (_, power) => steps.map((step) => step * 10 ** power)).flat();
  const tickvals = values.filter((value) => value >= least && value <= most);
  return { type: "log", tickvals, ticktext: tickvals.map(count) };
}
