// What all charts share: a card with a legend and downloads, and when it is drawn.
import { fill, h, say } from "./dom.js";
import { downloads, rowsOf } from "./download.js";
import { Pointing } from "./pointing.js";
import { labelled } from "./shares.js";
import { colourOf } from "./svg.js";
import { term } from "./term.js";
import { onTheme } from "./theme.js";
import { keep, seen } from "./view.js";

export function line(name, x, y, color, dash = "solid") {
  return { mode: x.length > 1 ? "lines" : "markers", name, x, y, line: { color, dash, width: 2 }, marker: { color } };
}

// A line with a mark at each point, and a text for each.
export const marked = (name, samples, y, color, text) => ({
  ...line(name, samples, y, color), mode: "lines+markers", marker: { color, size: 7 }, hovertext: text,
});

// The errors of values with these ends, where both are known.
export const errors = (values, lower, upper, color, thickness = 1.5) => ({
  color, thickness,
  array: values.map((value, i) => (upper[i] === null || value === null ? 0 : upper[i] - value)),
  arrayminus: values.map((value, i) => (lower[i] === null || value === null ? 0 : value - lower[i])),
});

// Charts that are drawn together, and anew in other colours. A subclass has `lacks(...shown)`, whether each chart has
// nothing to show yet, and `show(...shown)`.
export class Drawing {
  constructor(...charts) {
    this.charts = charts;
    this.stop = onTheme(() => this.redraw());
  }

  redraw() {
    if (this.latest) this.draw(...this.latest);
  }

  draw(...shown) {
    this.latest = shown;
    const lacking = this.lacks(...shown);
    lacking.forEach((lacks, i) => this.charts[i].waiting(lacks));
    if (!lacking.every(Boolean)) this.show(...shown);
  }
}

// Parts of a page that are folded, unless the address says otherwise.
export function folded(id, title, ...content) {
  const details = h("details", { class: "card folded", id, open: seen(id) === "open" }, h("summary", {}, h("h2", {}, title)), ...content);
  details.addEventListener("toggle", () => keep(id, details.open ? "open" : ""));
  return details;
}

// A card for a chart; `text` says what it shows. heading: the element of its title; word: of it that is explained.
export function chart(id, title, text, heading = "h2", word = null) {
  const plot = h("div", { class: "plot", id: `plot-${id}`, role: "img", "aria-label": title });
  const pointing = new Pointing(plot);
  const empty = h("p", { class: "quiet plot-empty" }, "No data yet.");
  const said = h("p", { class: "quiet" }, text);
  const choices = h("div", { class: "choices" });
  const legend = h("ul", { class: "legend", "aria-hidden": "true" });
  let named = "";
  // Of the table that the chart was made of, or else what it shows.
  let table = null;
  const figure = () => (plot.data ? { data: plot.data, layout: { ...plot.layout, title } } : null);
  const saves = downloads(id, title, { rows: () => table?.() ?? (plot.data ? rowsOf(figure()) : []), figure });
  const card = h("figure", { class: heading === "h2" ? "card chart" : "chart" }, [
    h("figcaption", {}, h("div", { class: "headed" }, h(heading, {}, title), word && term(word), saves), said), choices, plot, legend, empty,
  ]);
  // The browser says what size it has, first and later: to ask for it would make the browser lay out the page each time. It
  // has none where it is folded.
  let [width, height] = [0, 0];
  const fit = () => {
    if (!plot.data || width < LEAST) return;
    plot.layout.unified = isUnified ?? width >= NARROW;
    pointing.draw(width, height);
  };
  let isUnified;
  new ResizeObserver(([{ contentRect }]) => {
    ({ width, height } = contentRect);
    fit();
  }).observe(plot);
  return {
    card,
    plot,
    get width() {
      return width || NARROW;
    },
    say: (words) => say(said, words),
    choose: (...made) => fill(choices, made.map(({ element }) => element)),
    // Save these rows as CSV instead of the points of the chart; the header is the first of them.
    rows: (given) => (table = given),
    label: (words) => plot.setAttribute("aria-label", `${title}. ${words}`),
    waiting(isEmpty) {
      plot.hidden = legend.hidden = isEmpty;
      empty.hidden = !isEmpty;
      saves.hidden = isEmpty;
    },
    // Let the arrow keys go from place to place; what the keys do stands in the label.
    byKeys() {
      plot.tabIndex = 0;
      plot.setAttribute("role", "application");
      plot.setAttribute("aria-roledescription", "chart");
    },
    // traces, layout: as `svgOf` and `Pointing` take them; hasLegend: whether their names stand below, where they cover no points;
    // choosing: { chosen, choose(name), light(name) } for names that are buttons, of which those in `chosen` are pressed.
    draw(traces, layout, hasLegend = false, choosing = null) {
      const shown = hasLegend ? traces.filter((trace) => trace.showlegend !== false && trace.name) : [];
      const parts = shown.map((trace) => [trace.name, colourOf(trace), trace.line?.dash]);
      if (JSON.stringify(parts) !== named) {
        named = JSON.stringify(parts); // drawing it again would take the focus
        fill(legend, parts.map((part) => h("li", {}, choosing ? chooser(part, choosing) : labelled(...part))));
      }
      if (choosing) {
        legend.removeAttribute("aria-hidden");
        parts.forEach(([name], i) => legend.children[i].firstChild.setAttribute("aria-pressed", String(choosing.chosen.has(name))));
      }
      isUnified = layout.unified;
      const xaxis = { title: "Samples", counts: true, ...layout.xaxis };
      Object.assign(plot, { data: traces, layout: { ...layout, xaxis, yaxis: { ...layout.yaxis } } });
      fit();
    },
  };
}

// A name of the legend as a button.
function chooser([name, ...look], { choose, light }) {
  return h("button", { class: "chooser", title: "Show its interval", onclick: () => choose(name), onpointerenter: () => light(name),
    onpointerleave: () => light(null), onfocus: () => light(name), onblur: () => light(null) }, labelled(name, ...look));
}

const NARROW = 480; // pixels from which on a chart says what all lines are at a place
const LEAST = 100; // pixels of a chart: it has fewer for a moment while it unfolds

// The axis of samples where a single point would otherwise be at its left end.
export const within = (samples) => (samples.length === 1 ? { range: [0, 1.1 * samples[0]] } : {});

const FLAT = 8; // all values are shown unless the axis gets this many times as long as for the second half

// The range of an axis for lists of the values at each point, null where unknown: all of them, or those of the second half
// of each list if the first ones would make it flat.
export function rangeOf(...lists) {
  const ends = (from) => {
    const all = lists.flatMap((points) => points.slice(from(points)).flat()).filter((end) => end !== null);
    return [Math.min(...all), Math.max(...all)];
  };
  const [whole, settled] = [ends(() => 0), ends((points) => Math.floor(points.length / 2))];
  const [least, most] = whole[1] - whole[0] <= FLAT * (settled[1] - settled[0]) ? whole : settled;
  const margin = 0.08 * (most - least) || Math.abs(most) * 0.1 || 1;
  return [least - margin, most + margin];
}
