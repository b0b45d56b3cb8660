// The charts of routing over time: what it gains, and the scores that this compares.
import { styleValue } from "./colours.js";
import { h } from "./dom.js";
import { count, score } from "./format.js";
import { chart, Drawing, errors, marked, rangeOf, within } from "./plot.js";

export class RouteCharts extends Drawing {
  constructor() {
    const gain = chart("gain", "Gain over time",
      "By how much routing is better than the best single generator, with its 95 % interval where there is one.", "h3");
    const routed = chart("routed", "Routing against one generator alone",
      "The expected score of routed prompts, and that of the generator that was the best one alone.", "h3");
    super(gain, routed);
    this.element = h("div", { class: "charts" }, gain.card, routed.card);
    Object.assign(this, { gain, routed });
  }

  lacks({ gains, told }) {
    return [gains.every((gain) => gain === null), told.length === 0];
  }

  show(curve, title) {
    if (curve.gains.some((gain) => gain !== null)) this.drawGain(curve, title);
    this.drawScores(curve, title);
  }

  drawGain({ samples, gains, lower, upper, best }, title) {
    const color = styleValue("--accent");
    const known = gains.map((_, i) => lower[i] !== null && upper[i] !== null);
    const said = gains.map((gain, i) =>
      `${count(samples[i])} samples: gain ${score(gain)} over ${best[i]}` +
      (known[i] ? `, ${score(lower[i])} to ${score(upper[i])} over the best one` : ""));
    this.gain.label(`Now: ${score(gains.at(-1))} over ${best.at(-1)} alone`);
    const ends = gains.map((gain, i) => (gain === null ? [] : [gain, ...(known[i] ? [lower[i], upper[i]] : []), 0]));
    const [from, to] = [lower, upper].map((end) => end.map((one, i) => (known[i] ? one : null)));
    this.gain.draw([{ ...marked("Gain", samples, gains, color, said), error_y: errors(gains, from, to, `${color}90`) }], {
      xaxis: { fromZero: true, ...within(samples) },
      yaxis: { range: rangeOf(ends), zero: true, title },
    });
  }

  drawScores({ samples, scores, best, best_scores: alone }, title) {
    const [color, quiet] = [styleValue("--accent"), styleValue("--quiet")];
    this.routed.label(`Now: routed ${score(scores.at(-1))}, ${best.at(-1)} alone ${score(alone.at(-1))}`);
    const said = samples.map((told, i) => `${count(told)} samples: routed ${score(scores[i])}`);
    const named = best.map((name, i) => `${name} alone ${score(alone[i])}`);
    const dotted = { line: { color: quiet, width: 1.5, dash: "dot" } };
    const ends = scores.map((one, i) => [one, alone[i]].filter((end) => end !== null));
    this.routed.draw([
      { ...marked("Best single generator", samples, alone, quiet, named), ...dotted },
      marked("Routed", samples, scores, color, said),
    ], {
      xaxis: { fromZero: true, ...within(samples) },
      yaxis: { range: rangeOf(ends), title },
    }, true);
  }
}
