// The charts of the best mixture over time: its weights, and its score against that of the best single generator.
import { otherColour, styleValue } from "./colours.js";
import { h } from "./dom.js";
import { count, score, share } from "./format.js";
import { chart, Drawing, errors, line, marked, rangeOf, within } from "./plot.js";

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

  show(curve, title) {
    this.drawWeights(curve);
    this.drawMixture(curve, title);
  }

  drawWeights({ samples, weights }) {
    const drawn = [...weights.keys()].filter((name) => this.palette.has(name));
    const shown = drawn.map((name) => [name, weights.get(name), this.palette.colour(name)]);
    if (weights.size > drawn.length) {
      const rest = samples.map((_, i) => Math.max(0, 1 - shown.reduce((sum, [, y]) => sum + y[i], 0)));
      const others = weights.size - drawn.length;
      shown.push([`${others} ${others === 1 ? "other" : "others"}`, rest, otherColour()]);
    }
    this.weights.label(`Now: ${shown.map(([name, y]) => `${name} ${share(y.at(-1))}`).join(", ")}`);
    this.weights.draw(shown.map(([name, y, color]) => area(name, samples, y, color)), {
      xaxis: { fromZero: true, ...within(samples) },
      yaxis: { range: [0, 1], percent: true },
    }, true);
  }

  drawMixture(curve, title) {
    const { samples, scores, lower, upper, best, best_scores: alone } = curve;
    this.mixture.label(`Now: mixture ${score(scores.at(-1))}, ${best.at(-1)} alone ${score(alone.at(-1))}`);
    const color = styleValue("--accent");
    const quiet = styleValue("--quiet");
    const said = samples.map((told, i) =>
      `${count(told)} samples: mixture ${score(scores[i])} (${score(lower[i])} to ${score(upper[i])})`);
    const named = best.map((name, i) => `${name} alone ${score(alone[i])}`);
    const ends = samples.map((_, i) => [scores[i], alone[i], lower[i], upper[i]]);
    this.mixture.draw([
      { ...marked("Best single generator", samples, alone, quiet, named), line: { color: quiet, width: 1.5, dash: "dot" } },
      { ...marked("Best mixture", samples, scores, color, said), error_y: errors(scores, lower, upper, `${color}90`) },
    ], {
      xaxis: { fromZero: true, ...within(samples) },
      yaxis: { range: rangeOf(ends), title },
    }, true);
  }
}

function area(name, samples, y, color) {
  const single = samples.length === 1; // an area of one point has no width
  const [x, heights] = single ? [[0, samples[0]], [y[0], y[0]]] : [samples, y];
  return {
    ...line(name, x, heights, color), mode: "lines", stackgroup: true, fillcolor: color,
    line: { width: 0.5, color, shape: "hv" }, hovertext: heights.map((part) => `${name} ${share(part)}`),
  };
}
