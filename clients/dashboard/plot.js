// What all charts share: a card with downloads, and the layout.
import { styleValue } from "./colours.js";
import { fill, h, say } from "./dom.js";
import { downloads, rowsOf } from "./download.js";
import { plotly } from "./plotly.js";
import { labelled } from "./shares.js";
import { onTheme } from "./theme.js";
import { keep, seen } from "./view.js";

export function line(name, x, y, color, dash = "solid") {
  const mode = x.length > 1 ? "lines" : "markers";
  return { type: "scatter", mode, name, x, y, line: { color, dash, width: 2 }, marker: { color } };
}

// A line with a mark at each point, and a text for each.
export const marked = (name, samples, y, color, text) => ({
  ...line(name, samples, y, color), mode: "lines+markers", marker: { color, size: 7 }, hoverinfo: "text", hovertext: text,
});

// Charts that are drawn together: once plotly has come, while they can be seen, and anew in other colours. A subclass has
// `lacks(...shown)`, whether each chart has nothing to show yet, and `show(Plotly, ...shown)`.
export class Drawing {
  constructor(...charts) {
    this.charts = charts;
    this.unwatch = onTheme(() => this.redraw());
  }

  stop() {
    this.unwatch();
    if (window.Plotly) for (const { plot } of this.charts) window.Plotly.purge(plot);
    this.latest = null;
  }

  redraw() {
    if (this.latest) this.draw(...this.latest);
  }

  async draw(...shown) {
    this.latest = shown;
    const lacking = this.lacks(...shown);
    lacking.forEach((lacks, i) => this.charts[i].waiting(lacks));
    if (lacking.every(Boolean) || !this.charts.some(({ card }) => card.checkVisibility())) return;
    let Plotly;
    try {
      Plotly = await plotly();
    } catch (error) {
      this.charts[0].note(error.message);
      return;
    }
    if (this.latest === shown) this.show(Plotly, ...shown);
  }
}

// Parts of a page that are folded; the charts in them are drawn when they are opened.
export function folded(id, title, drawings, ...content) {
  const details = h("details", { class: "card folded", id, open: seen(id) === "open" }, h("summary", {}, h("h2", {}, title)), ...content);
  details.addEventListener("toggle", () => {
    keep(id, details.open ? "open" : "");
    for (const drawing of drawings) drawing.redraw();
  });
  return details;
}

// A card for a chart; `text` says what it shows. heading: the element of its title.
export function chart(id, title, text, heading = "h2") {
  const plot = h("div", { class: "plot", id: `plot-${id}`, role: "img", "aria-label": title });
  const empty = h("p", { class: "quiet plot-empty" }, "No data yet.");
  const noted = h("p", { class: "quiet" });
  const said = h("p", { class: "quiet" }, text);
  const choices = h("div", { class: "choices" });
  const legend = h("ul", { class: "legend", "aria-hidden": "true" });
  // Of the table that the chart was made of, or else what it shows.
  let table = null;
  const figure = () => (plot.data ? { data: plot.data, layout: { ...plot.layout, showlegend: legend.children.length > 0, title: { text: plain(title), font: { size: 15 } } } } : null);
  const saves = downloads(id, title, { rows: () => table?.() ?? (plot.data ? rowsOf(figure()) : []), figure });
  const card = h("figure", { class: heading === "h2" ? "card chart" : "chart" }, [
    h("figcaption", {}, h("div", { class: "headed" }, h(heading, {}, title), saves), said, noted), choices, plot, legend, empty,
  ]);
  return {
    card,
    plot,
    legend,
    say: (words) => say(said, words),
    note: (words) => say(noted, words),
    choose: (...made) => fill(choices, made.map(({ element }) => element)),
    // Save these rows as CSV instead of the points of the chart; the header is the first of them.
    rows: (given) => (table = given),
    label: (words) => plot.setAttribute("aria-label", `${title}. ${words}`),
    waiting(isEmpty) {
      plot.hidden = legend.hidden = isEmpty;
      empty.hidden = !isEmpty;
      saves.hidden = isEmpty;
    },
  };
}

export function react(Plotly, { plot, legend }, traces, { showlegend, ...layout }) {
  // The legend stands below the chart, so that it covers no points.
  const named = showlegend ? traces.filter((trace) => trace.showlegend !== false && trace.name) : [];
  fill(legend, named.map((trace) => h("li", {}, labelled(trace.name, trace.fillcolor ?? trace.marker?.line?.color ?? trace.line?.color ?? trace.marker.color, trace.line?.dash))));
  // Escape names, because plotly interprets some HTML tags and links in text.
  const shown = traces.map((trace) => ({ ...trace, name: plain(trace.name ?? "") }));
  const options = { displayModeBar: false, responsive: true, scrollZoom: false };
  return Plotly.react(plot, shown, layoutOf(layout, plot.clientWidth < 480), options);
}

// The layout of a chart in the page's colours, with what is given besides.
export function layoutOf(layout, isNarrow) {
  const ink = styleValue("--quiet");
  const rule = styleValue("--line");
  const axis = { gridcolor: rule, linecolor: rule, zeroline: false, automargin: true, tickfont: { color: ink } };
  const title = (given, text) => ({ text, standoff: 8, font: { size: 12, color: ink }, ...given?.title });
  const xaxis = { ...axis, ...layout.xaxis, title: title(layout.xaxis, "Samples told") };
  const yaxis = { ...axis, ...layout.yaxis, title: title(layout.yaxis, "") };
  return {
    showlegend: false,
    legend: { orientation: "h", traceorder: "normal", y: -0.16, x: 0, font: { size: 11, color: styleValue("--ink") } }, // in downloads
    hovermode: isNarrow ? "closest" : "x unified",
    hoverlabel: { bgcolor: styleValue("--card"), font: { color: styleValue("--ink") }, bordercolor: rule },
    font: { family: styleValue("--font"), size: 12, color: styleValue("--ink") },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    margin: { l: 8, r: 12, t: 8, b: 8 },
    ...layout,
    xaxis,
    yaxis,
  };
}

// The axis of samples where a single point would otherwise be at its left end.
export const within = (samples) => (samples.length === 1 ? { range: [0, 1.1 * samples[0]] } : {});

const FLAT = 4; // all values are shown unless the axis gets this many times as long as for the second half

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

export const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
