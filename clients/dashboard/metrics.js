// Experiments with several metrics: a table of generators and metrics, and a chart of two of the metrics.
import { asBlocks } from "./blocks.js";
import { fill, h, say } from "./dom.js";
import { count, withSpread } from "./format.js";
import { asInterval, axis, bar, fromTo, values } from "./intervals.js";
import { ranked } from "./ranking.js";
import { Scatter } from "./scatter.js";
import { labelled } from "./shares.js";

// All metrics of a report in one form, the one that decides first; its label is "".
export function metricsOf(report) {
  const { decision, standings, lower_is_better, offers } = report;
  // With limits the generator that is named need not have the best score.
  const { best, confidence, confidence_text } = decision.limits
    ? { best: report.contrasts?.[0]?.against ?? null, confidence: null, confidence_text: "" }
    : decision;
  const primary = {
    label: "", title: report.title, lower_is_better, standings, offers, scored: report.scored,
    best, confidence, confidence_text, decides: true, sure: decision.rank === "best",
  };
  return [primary, ...Object.values(report.watched ?? {})].map((metric) => ({
    ...metric,
    offers: metric.offers ?? [],
    direction: metric.lower_is_better ? "↓" : "↑",
    better: metric.lower_is_better ? "lower is better" : "higher is better",
    of: new Map(metric.standings.map((standing) => [standing.generator, standing])),
  }));
}

// What samples cost, as a metric of the chart; null where less than two costs are known.
function costs({ standings, view }) {
  const of = new Map(standings.filter(({ cost_per_sample: one }) => one > 0)
    .map(({ generator, cost_per_sample: score }) => [generator, { score, lower: score, upper: score }]));
  if (of.size < 2 || view === "routes") return null;
  return { label: "cost of a sample", title: "Cost of a sample", lower_is_better: true, direction: "↓", better: "lower is better", isCost: true, of };
}

// The scores at which the limits on each metric lie, by its label: of those relative to others by the present scores.
function limitsOf({ decision }, metrics) {
  const found = new Map(metrics.map(({ label }) => [label, new Map()]));
  for (const { label, limit, allowed, scale, against } of decision.limits ?? []) {
    const metric = metrics.find((one) => one.label === label);
    if (allowed === undefined || !metric) continue;
    const sign = metric.lower_is_better ? 1 : -1;
    const scores = [...metric.of].filter(([, { score }]) => score !== null);
    const [, base] = limit.endsWith(" of best")
      ? scores.sort(([, a], [, b]) => sign * (a.score - b.score))[0] ?? []
      : scores.find(([name]) => name === against) ?? [];
    const relative = base && (scale === "log" ? base.score * Math.exp(sign * allowed) : base.score + sign * allowed);
    const at = "<>".includes(limit[0]) ? allowed : relative;
    if (at !== undefined && !found.get(label).has(limit)) found.get(label).set(limit, at);
  }
  return found;
}

const TALL = 12; // with more rows the table scrolls by itself

export class Metrics {
  constructor(palette) {
    this.palette = palette;
    this.scatter = new Scatter(palette);
    this.figure = this.scatter.chart.card;
    this.apart = h("p", { class: "disagreement" });
    this.head = h("tr", { role: "row" });
    this.body = h("tbody", { role: "rowgroup" });
    const table = h("table", { class: "matrix", role: "table" }, [h("thead", { role: "rowgroup" }, this.head), this.body]);
    this.warned = h("summary", {});
    this.warnings = h("ul", { class: "warnings" });
    this.warning = h("details", { class: "quiet" }, this.warned, this.warnings);
    this.section = h("section", { class: "card", "aria-labelledby": "metrics", hidden: true }, [
      h("h2", { id: "metrics" }, "Metrics"),
      this.apart,
      (this.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Metrics table" }, [
        table,
      ])),
      this.warning,
    ]);
    asBlocks(this.scroll, table);
  }

  stop() {
    this.scatter.stop();
  }

  draw(report) {
    const metrics = metricsOf(report);
    this.section.hidden = metrics.length < 2;
    const drawn = (report.decision.limits ? [costs(report), ...metrics] : [...metrics, costs(report)]).filter(Boolean);
    this.figure.hidden = drawn.length < 2;
    if (!this.figure.hidden) this.scatter.draw(drawn, ranked(report).map(({ generator }) => generator), limitsOf(report, metrics), report.decision);
    if (metrics.length < 2) return;
    say(this.apart, report.disagreement ?? "");
    const rows = ranked(report);
    const columns = metrics.map((metric) => ({ metric, scale: axis(inOrder(metric).map(asInterval)) }));
    fill(this.head, h("th", { scope: "col", role: "columnheader" }, "Generator"), ...columns.map(head));
    fill(this.body, rows.map(({ generator }) => h("tr", { role: "row" }, [
      h("th", { scope: "row", role: "rowheader" }, labelled(generator, this.palette.colour(generator))),
      ...columns.map((column) => cell(column, generator, this.palette.colour(generator))),
    ])));
    this.scroll.classList.toggle("tall", rows.length > TALL);
    const warnings = metrics.slice(1).flatMap(({ title, standings }) => standings.flatMap((standing) =>
      standing.warnings.map((warning) => `${standing.generator}, ${title}: ${warning}`)));
    this.warning.hidden = warnings.length === 0;
    say(this.warned, `${count(warnings.length)} ${warnings.length === 1 ? "warning" : "warnings"} about the other metrics`);
    fill(this.warnings, warnings.map((warning) => h("li", {}, warning)));
  }
}

// The standings with a score, best first.
export function inOrder({ standings, lower_is_better }) {
  const sign = lower_is_better ? 1 : -1;
  return standings.filter(({ score }) => score !== null).sort((a, b) => sign * (a.score - b.score));
}

function head({ metric, scale }) {
  const notes = [metric.decides && "decides", !metric.scored && "scoring …"].filter(Boolean).join(", ");
  return h("th", { scope: "col", role: "columnheader", title: metric.better }, [
    h("span", { class: "metric" }, [
      `${metric.title} `,
      h("span", { "aria-hidden": "true" }, metric.direction),
      h("span", { class: "unseen" }, `, ${metric.better}`),
      notes && h("span", { class: "note" }, ` ${notes}`),
    ]),
    h("span", { class: "axis wide", "aria-hidden": "true" }, values(scale)),
  ]);
}

function cell({ metric, scale }, generator, color) {
  const standing = metric.of.get(generator);
  const incomplete = standing?.incomplete && h("span", { class: "badge incomplete" }, "incomplete");
  if (!standing || standing.score === null) return h("td", { role: "cell", "data-head": metric.title }, "–", " ", incomplete);
  const label = `From ${fromTo(standing)}`;
  const sure = metric.confidence_text ? ` ${metric.confidence_text}` : "";
  const [value, spread] = withSpread(standing);
  const called = metric.sure ? "best" : "leads";
  const confidence = sure ? `with${sure} confidence` : "not sure";
  return h("td", { title: label, role: "cell", "data-head": metric.title }, [
    h("span", { class: "value-line" }, [
      h("strong", {}, value), " ",
      h("span", { class: "quiet spread" }, spread),
      metric.best === generator && h("span", { class: `badge ${called}`, title: confidence }, called),
      incomplete,
    ]),
    h("span", { class: "wide" }, bar(asInterval(standing), scale, color, label)),
  ]);
}
