// How an experiment was sampled: shares of the latest batches, the current leader's share of all, and the regret.
import { otherColour, styleValue } from "./colours.js";
import { h } from "./dom.js";
import { count, score, share } from "./format.js";
import { chart, Drawing, line } from "./plot.js";
import { ranked } from "./ranking.js";

export class Sampling extends Drawing {
  // hasBest: whether one best generator is asked for; elsewhere regret and its share say nothing.
  constructor(palette, hasBest) {
    const shares = chart("shares", "Shares of the latest batches", "How the latest batches were divided among the generators.", "h3");
    const best = hasBest ? [
      chart("ratio", "Share of batches made by the leader", "Of all batches so far, those of the generator that has the best score now.", "h3"),
      chart("regret", "Estimated regret",
        "The sum over all batches of the gap between the picked and the best generator, by current scores.", "h3", "regret"),
    ] : [];
    super(shares, ...best);
    this.palette = palette;
    this.element = h("div", { class: "charts three" }, this.charts.map(({ card }) => card));
  }

  lacks(report, progressCurve) {
    const { best } = report.decision;
    const none = progressCurve.rounds.length === 0;
    this.regret = none || best === null ? null : progressCurve.regret(report.standings, best);
    return this.charts.map((_, i) => none || [false, best === null, this.regret === null][i]);
  }

  show(report, progressCurve) {
    const { best } = report.decision;
    const [shares, ratio, regret] = this.charts;
    const accent = styleValue("--accent");
    this.shares(shares, report, progressCurve);
    if (ratio && best !== null) {
      const given = progressCurve.ratio(best);
      ratio.label(`${share(given.at(-1))} of ${count(progressCurve.told)} batches went to ${best}`);
      ratio.draw([line(best, progressCurve.samples, given, accent)], { yaxis: { range: [0, 1.02], percent: true } });
    }
    if (regret && this.regret) {
      regret.label(`Total regret ${score(this.regret.at(-1))} after ${count(progressCurve.told)} batches`);
      regret.draw([line("regret", progressCurve.samples, this.regret, accent)], {
        yaxis: { fromZero: true, title: `Σ gap in ${report.title}` },
      });
    }
  }

  shares(card, report, progressCurve) {
    const width = Math.max(1, Math.round(progressCurve.rounds.length / 8));
    const area = (name, y, fill) => ({
      ...line(name, progressCurve.samples, y, fill),
      // Steps: each share is that of the batches up to its checkpoint.
      stackgroup: true, line: { width: 0.5, color: fill, shape: "vh" }, fillcolor: fill, hovertext: y.map((part) => `${name} ${share(part)}`),
    });
    const drawn = ranked(report).filter(({ generator }) => this.palette.has(generator));
    const known = drawn.map((one) => [one, progressCurve.shares(one.generator, width)]);
    const traces = known.map(([one, y]) => area(one.generator, y, this.palette.colour(one.generator)));
    const others = progressCurve.batches.size - drawn.length;
    if (others > 0) {
      const rest = progressCurve.rounds.map((_, i) => Math.max(0, 1 - known.reduce((sum, [, y]) => sum + y[i], 0)));
      traces.push(area(`${others} ${others === 1 ? "other" : "others"}`, rest, otherColour()));
    }
    card.label(`Latest shares: ${known.map(([one, y]) => `${one.generator} ${share(y.at(-1))}`).join(", ")}`);
    card.draw(traces, { yaxis: { range: [0, 1], percent: true } }, true);
  }
}
