// Two charts side by side of what is made again and again: waiting, drawing, and drawing anew in other colours.
import { h } from "./dom.js";
import { line, plotly } from "./plot.js";
import { onTheme } from "./theme.js";

// A subclass has `lacks(curve)`, whether each of the two charts has nothing to show yet, and `drawPair(Plotly, curve,
// title)`, which is called once there is a point.
export class ChartPair {
  // first, second: as `chart` makes them.
  constructor(first, second) {
    this.pair = [first, second];
    this.element = h("div", { class: "charts" }, first.card, second.card);
    this.redraw = () => this.latest && this.draw(...this.latest);
    this.unwatch = onTheme(this.redraw);
  }

  stop() {
    this.unwatch();
    if (window.Plotly) for (const { plot } of this.pair) window.Plotly.purge(plot);
    this.latest = null;
  }

  // curve: a `MixtureCurve` or `RouteCurve`; title: of the metric.
  async draw(curve, title) {
    this.latest = [curve, title];
    this.lacks(curve).forEach((lacking, place) => this.pair[place].waiting(lacking));
    if (curve.told.length === 0) return;
    let Plotly;
    try {
      Plotly = await plotly();
    } catch {
      return; // the other charts say so
    }
    if (this.latest?.[0] === curve) this.drawPair(Plotly, curve, title);
  }
}

// A line with a mark at each point, and a text for each.
export const marked = (name, samples, y, color, text) => ({
  ...line(name, samples, y, color), mode: "lines+markers", marker: { color, size: 7 }, hoverinfo: "text", hovertext: text,
});
