// A chart of two metrics: each generator with its intervals, and the Pareto front.
import { DRAWN, styleValue } from "./colours.js";
import { Choice } from "./choice.js";
import { cost, score } from "./format.js";
import { asInterval, axis } from "./intervals.js";
import { chart, Drawing, errors } from "./plot.js";

const APART = 10; // times the lowest cost: from there on an axis of costs is logarithmic
const LABEL = 60; // pixels that a label of such an axis takes

export class Scatter extends Drawing {
  constructor(palette) {
    super(chart("scatter", "Two metrics", "Filled: no other generator is better by both. The lines are intervals."));
    this.palette = palette;
    [this.chart] = this.charts;
    this.across = new Choice("metric-across", "Horizontal", () => this.redraw());
    this.up = new Choice("metric-up", "Vertical", () => this.redraw());
    this.chart.choose(this.across, this.up);
  }

  // metrics: as `metricsOf` gives them; names: of the generators, best first; limits: scores at limits, by label of metric;
  // decision: that of the report.
  lacks(metrics, names, limits, { best, limits: verdicts }) {
    const options = metrics.map(({ label, title }) => [label, title]);
    this.limits = limits;
    const first = metrics[0].decides ? [metrics[1], metrics[0]] : metrics;
    this.across.offer(options, first[0].label);
    this.up.offer(options, first[1].label);
    this.metrics = [this.across, this.up].map((choice) => metrics.find(({ label }) => label === choice.value));
    const [across, up] = this.metrics;
    this.named = (verdicts || across.isCost || up.isCost) && best;
    this.points = names
      .map((generator) => ({ generator, x: across.of.get(generator), y: up.of.get(generator) }))
      .filter(({ x, y }) => x && y && x.score !== null && y.score !== null);
    return [this.points.length === 0];
  }

  show() {
    const { points, metrics: [across, up] } = this;
    const front = paretoFront(points, across, up);
    const best = front.map(({ generator }) => generator);
    this.chart.label(`On the Pareto front of ${across.title} and ${up.title}: ${best.join(", ")}`);
    const traces = points.map((point) => marker(point, front.includes(point), across, up, this.palette, this.named));
    const limits = [...(this.limits.get(up.label) ?? [])];
    const xaxis = axisOf(across, points.map(({ x }) => x), this.chart.width);
    const lines = limits.map(([limit, y]) => ({
      mode: "lines", name: `limit: ${limit}`, hoverinfo: "skip", x: xaxis.range, y: [y, y],
      line: { color: styleValue("--accent"), width: 1.5 },
    }));
    this.chart.draw([boundary(front, across), ...lines, ...traces], {
      unified: false,
      xaxis,
      yaxis: axisOf(up, points.map(({ y }) => y), this.chart.width, limits.map(([, y]) => y)),
    }, points.length <= DRAWN);
  }
}

// An axis that holds all costs, or the better half of the scores with their intervals, those that are not far from them,
// and the limits.
function axisOf(metric, standings, width, limits = []) {
  const title = `${metric.title} ${metric.direction} ${metric.better}`;
  if (metric.isCost) return { title, ...ofCosts(standings.map(({ score: each }) => each), width) };
  const sign = metric.lower_is_better ? 1 : -1;
  const { least, most } = axis(standings.map(asInterval).sort((a, b) => sign * (a.middle - b.middle)));
  return { title, range: [Math.min(least, ...limits), Math.max(most, ...limits)] };
}

function ofCosts(costs, width) {
  const [least, most] = [Math.min(...costs), Math.max(...costs)];
  if (most <= APART * least) return { range: [0, 1.15 * most] };
  const [first, last] = [least / 1.6, 1.6 * most];
  const powers = Array.from({ length: Math.ceil(Math.log10(last / first)) + 1 }, (_, i) => 10 ** (Math.floor(Math.log10(first)) + i));
  const all = powers.flatMap((one) => [one, 2 * one, 5 * one]).filter((value) => value >= first && value <= last);
  const ticks = all.length * LABEL <= width ? all : powers;
  return { range: [first, last], type: "log", ticks: ticks.map((value) => [value, cost(Number(value.toPrecision(3)))]) };
}

// The points that no other one beats by one metric without being worse by the other, from left to right.
export function paretoFront(points, across, up) {
  const loss = ({ x, y }) => [
    across.lower_is_better ? x.score : -x.score, up.lower_is_better ? y.score : -y.score,
  ];
  const beats = ([a, b], [c, d]) => a <= c && b <= d && (a < c || b < d);
  const losses = points.map(loss);
  return points
    .filter((_, i) => !losses.some((other) => beats(other, losses[i])))
    .sort((a, b) => a.x.score - b.x.score || a.y.score - b.y.score);
}

// The steps that separate what the front beats from what would beat it.
function boundary(front, across) {
  return {
    mode: "lines", name: "Pareto front", hoverinfo: "skip",
    x: front.map(({ x }) => x.score), y: front.map(({ y }) => y.score),
    line: { color: styleValue("--quiet"), width: 1.5, dash: "dot", shape: across.lower_is_better ? "hv" : "vh" },
  };
}

function marker({ generator, x, y }, onFront, across, up, palette, named) {
  const color = palette.colour(generator);
  const said = [across, up].map((metric, i) => `${metric.title} ${interval([x, y][i])}`).join("; ");
  return {
    mode: onFront ? "markers+text" : "markers", name: generator, isFirst: generator === named, x: [x.score], y: [y.score],
    error_x: bars(x, color), error_y: bars(y, color), text: [generator === named ? `${generator} ✓` : generator],
    marker: { color: onFront ? color : styleValue("--card"), size: 10, line: { color, width: 2 } },
    hovertext: [`${generator}: ${said}`],
  };
}

const bars = ({ score, lower, upper }, color) => errors([score], [lower], [upper], `${color}80`);

function interval({ score: middle, lower, upper }) {
  const [from, to] = [lower, upper].map((end) => (end === null ? "unbounded" : score(end)));
  return `${score(middle)} (${from} to ${to})`;
}
