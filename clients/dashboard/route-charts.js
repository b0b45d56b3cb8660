// The charts of routing over time: what it gains, and the scores that this compares.
import { styleValue } from "./colours.js";
import { h } from "./dom.js";
import { count, score } from "./format.js";
import { chart, Drawing, marked, plain, rangeOf, react, within } from "./plot.js";

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

  show(Plotly, curve, title) {
    if (curve.gains.some((gain) => gain !== null)) this.drawGain(Plotly, curve, title);
    this.drawScores(Plotly, curve, title);
  }

  drawGain(Plotly, { samples, gains, lower, upper, best }, title) {
    const color = styleValue("--accent");
    const known = gains.map((_, i) => lower[i] !== null && upper[i] !== null);
    const said = gains.map((gain, i) =>
      `${count(samples[i])} samples<br>Gain ${score(gain)} over ${plain(best[i])}` +
      (known[i] ? `<br>${score(lower[i])} to ${score(upper[i])} over the best one` : ""));
    this.gain.label(`Now: ${score(gains.at(-1))} over ${best.at(-1)} alone`);
    const ends = gains.map((gain, i) => (gain === null ? [] : [gain, ...(known[i] ? [lower[i], upper[i]] : []), 0]));
    const zero = { zeroline: true, zerolinecolor: styleValue("--quiet") };
    react(Plotly, this.gain, [{
      ...marked("Gain", samples, gains, color, said),
      error_y: {
        type: "data", symmetric: false, color: `${color}90`, thickness: 1.5, width: 3,
        array: gains.map((gain, i) => (known[i] ? upper[i] - gain : 0)),
        arrayminus: gains.map((gain, i) => (known[i] ? gain - lower[i] : 0)),
      },
    }], {
      xaxis: { rangemode: "tozero", ...within(samples) },
      yaxis: { range: rangeOf(ends), ...zero, title: { text: plain(title) } },
    });
  }

  drawScores(Plotly, { samples, scores, best, best_scores: alone }, title) {
    const [color, quiet] = [styleValue("--accent"), styleValue("--quiet")];
    this.routed.label(`Now: routed ${score(scores.at(-1))}, ${best.at(-1)} alone ${score(alone.at(-1))}`);
    const said = samples.map((told, i) => `${count(told)} samples<br>Routed ${score(scores[i])}`);
    const named = best.map((name, i) => `${plain(name)} alone ${score(alone[i])}`);
    const dotted = { line: { color: quiet, width: 1.5, dash: "dot" } };
    const ends = scores.map((one, i) => [one, alone[i]].filter((end) => end !== null));
    react(Plotly, this.routed, [
      { ...marked("Best single generator", samples, alone, quiet, named), ...dotted },
      marked("Routed", samples, scores, color, said),
    ], {
      xaxis: { rangemode: "tozero", ...within(samples) },
      yaxis: { range: rangeOf(ends), title: { text: plain(title) } },
      showlegend: true,
    });
  }
}
