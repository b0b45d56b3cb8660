// The ranks of generators, as intervals that hold for all of them together: a chart and a table.
import { fill, h } from "./dom.js";
import { chart, Drawing } from "./plot.js";
import { labelled } from "./shares.js";

const ROW = 26; // pixels of a generator in the chart
const LONGEST = 24; // letters of a name in the chart

export class Ranks extends Drawing {
  constructor(palette) {
    super(chart("ranks", "Ranks", "From the best to the worst rank that each generator may have. All hold at once, which takes more evidence than the best alone."));
    this.palette = palette;
    [this.chart] = this.charts;
    this.body = h("tbody", {});
    this.chart.card.classList.add("ranks");
    this.chart.card.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Ranks table" },
      h("table", {}, [
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Generator"), h("th", { scope: "col" }, "Rank"))), this.body])));
  }

  // Of two generators the standings say it.
  lacks({ ranks }) {
    this.chart.card.hidden = !(ranks?.ranks.length > 2);
    return [this.chart.card.hidden];
  }

  show({ ranks: { ranks, text } }) {
    const size = ranks.length;
    this.chart.label(text);
    this.chart.rows(() => [["generator", "first rank", "last rank"], ...ranks.map(({ generator, first, last }) => [generator, first, last])]);
    this.chart.plot.style.minHeight = `${ROW * size + 60}px`;
    const traces = ranks.map(({ generator, first, last, text: rank }, place) => {
      const color = this.palette.colour(generator);
      const at = size - place; // the best at the top
      return {
        mode: "lines+markers", name: generator, x: first === last ? [first] : [first, last], y: first === last ? [at] : [at, at],
        line: { color, width: 6 }, marker: { color, size: 12 }, hovertext: Array(2).fill(`${generator}: ${rank}`),
      };
    });
    this.chart.draw(traces, {
      unified: false,
      xaxis: { title: "Rank", range: [0.5, size + 0.5], ticks: ranks.map((_, place) => [place + 1, `${place + 1}`]) },
      yaxis: { range: [0.4, size + 0.6], ticks: ranks.map(({ generator }, place) => [size - place, short(generator)]) },
    });
    fill(this.body, ranks.map(({ generator, text: rank }) =>
      h("tr", {}, h("th", { scope: "row" }, labelled(generator, this.palette.colour(generator))), h("td", {}, rank))));
  }
}

const short = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
