// The charts of the best mixture over time: its weights, and its score against that of the best single generator.
import { DRAWN, otherColour, styleValue } from "./colours.js";
import { h } from "./dom.js";
import { count, score, share } from "./format.js";
import { chart, Drawing, line, marked, plain, rangeOf, react, within } from "./plot.js";

export class MixtureCharts extends Drawing {
  constructor(palette) {
    const weights = chart("weights", "Weights over time", "The share of each generator in the best mixture, as far as it was known.", "h3");
    const mixture = chart("mixture", "The mixture against one generator alone",
      "The score of the best mixture with its interval, and that of the generator that was the best one alone.", "h3");
    super(weights, mixture);
    this.element = h("div", { class: "charts" }, weights.card, mixture.card);
    Object.assign(this, { palette, weights, mixture });
  }

  lacks({ told }) {
    return [told.length === 0, told.length === 0];
  }

  show(Plotly, curve, title) {
    this.drawWeights(Plotly, curve);
    this.drawMixture(Plotly, curve, title);
  }

  drawWeights(Plotly, { samples, weights }) {
    const drawn = [...weights.keys()].filter((name) => this.palette.has(name));
    const shown = drawn.map((name) => [name, weights.get(name), this.palette.colour(name)]);
    if (weights.size > drawn.length) {
      const rest = samples.map((_, i) => Math.max(0, 1 - shown.reduce((sum, [, y]) => sum + y[i], 0)));
      const others = weights.size - drawn.length;
      shown.push([`${others} ${others === 1 ? "other" : "others"}`, rest, otherColour()]);
    }
    this.weights.label(`Now: ${shown.map(([name, y]) => `${name} ${share(y.at(-1))}`).join(", ")}`);
    react(Plotly, this.weights, shown.map(([name, y, color]) => area(name, samples, y, color)), {
      xaxis: { rangemode: "tozero", ...within(samples) },
      yaxis: { range: [0, 1], tickformat: ".0%" },
      showlegend: shown.length <= DRAWN + 1,
    });
  }

  drawMixture(Plotly, curve, title) {
    const { samples, scores, lower, upper, best, best_scores: alone } = curve;
    this.mixture.label(`Now: mixture ${score(scores.at(-1))}, ${best.at(-1)} alone ${score(alone.at(-1))}`);
    const color = styleValue("--accent");
    const quiet = styleValue("--quiet");
    const said = samples.map((told, i) =>
      `${count(told)} samples<br>Mixture ${score(scores[i])} (${score(lower[i])} to ${score(upper[i])})`);
    const named = best.map((name, i) => `${plain(name)} alone ${score(alone[i])}`);
    const errors = {
      type: "data", symmetric: false, color: `${color}90`, thickness: 1.5, width: 3,
      array: upper.map((end, i) => (end === null ? 0 : end - scores[i])),
      arrayminus: lower.map((end, i) => (end === null ? 0 : scores[i] - end)),
    };
    const ends = samples.map((_, i) => [scores[i], alone[i], lower[i], upper[i]]);
    react(Plotly, this.mixture, [
      { ...marked("Best single generator", samples, alone, quiet, named), line: { color: quiet, width: 1.5, dash: "dot" } },
      { ...marked("Best mixture", samples, scores, color, said), error_y: errors },
    ], {
      xaxis: { rangemode: "tozero", ...within(samples) },
      yaxis: { range: rangeOf(ends), title: { text: plain(title) } },
      showlegend: true,
    });
  }
}

function area(name, samples, y, color) {
  const single = samples.length === 1; // an area of one point has no width
  const [x, heights] = single ? [[0, samples[0]], [y[0], y[0]]] : [samples, y];
  return {
    ...line(name, x, heights, color), mode: "lines", stackgroup: "all", fillcolor: color,
    line: { width: 0.5, color, shape: "hv" }, hovertemplate: `${plain(name)} %{y:.2%}<extra></extra>`,
  };
}
