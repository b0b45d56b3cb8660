// Charts as SVG: lines, steps, areas, markers and error bars on linear or logarithmic axes, and what is said of a point.
import { styleValue } from "./colours.js";
import { h } from "./dom.js";
import { score, tick } from "./format.js";

const LETTER = 7.5; // pixels that a letter takes on average
const ROW = 16; // pixels of a line of text
const APART = { x: 84, y: 40 }; // pixels between ticks at least
const DASHES = { dash: "7 4", dot: "2 3" };
let clips = 0; // areas that have a name of their own

function s(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children.filter(Boolean));
  return element;
}

// A chart of traces { name, mode, x, y, line, marker, … } as an SVG element of that size. layout: { title, xaxis, yaxis },
// of which an axis has { title, type, range, fromZero, percent, ticks: [[value, text], …], zero }.
// legend: whether the names stand below, as in files; background: of the whole.
export function svgOf(traces, layout, width, height, { legend = false, background = null } = {}) {
  const colours = { ink: styleValue("--ink"), quiet: styleValue("--quiet"), rule: styleValue("--line") };
  const shapes = traces.reduce((known, trace) => [...known, stacked(trace, known)], []);
  const names = legend ? rowsOf(traces.filter(({ showlegend, name }) => showlegend !== false && name), width) : [];
  const top = layout.title ? 34 : 8;
  const bottom = height - (layout.xaxis.title ? 40 : 22) - names.length * ROW;
  const y = scale(layout.yaxis, shapes.flatMap(extentY), bottom, top, "y");
  const left = Math.max(14, ...y.ticks.map(([, text]) => LETTER * text.length)) + (layout.yaxis.title ? 26 : 12);
  const right = width - 20;
  const x = scale(layout.xaxis, shapes.flatMap(extentX), left, right, "x");
  const isInside = (at, height) => at > left - 1 && at < right + 1 && height > top - 1 && height < bottom + 1;
  const clip = `area-${(clips += 1)}`;
  const labels = []; // where the names of points stand: one that would touch another is left out
  const text = (words, attributes) => s("text", { fill: colours.quiet, "font-size": 12, ...attributes }, words);
  const svg = s("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": styleValue("--font") }, ...[
    background && s("rect", { width, height, fill: background }),
    s("clipPath", { id: clip }, s("rect", { x: left - 1, y: top - 1, width: right - left + 2, height: bottom - top + 2 })),
    layout.title && text(layout.title, { x: width / 2, y: 22, fill: colours.ink, "font-size": 15, "text-anchor": "middle" }),
    ...y.ticks.flatMap(([at, words]) => [
      s("line", { x1: left, x2: right, y1: at, y2: at, stroke: colours.rule }), text(words, { x: left - 6, y: at + 4, "text-anchor": "end" })]),
    ...x.ticks.flatMap(([at, words]) => [
      s("line", { x1: at, x2: at, y1: top, y2: bottom, stroke: colours.rule }), text(words, { x: at, y: bottom + 16, "text-anchor": "middle" })]),
    layout.yaxis.zero && s("line", { x1: left, x2: right, y1: y.at(0), y2: y.at(0), stroke: colours.quiet }),
    layout.xaxis.title && text(layout.xaxis.title, { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }),
    layout.yaxis.title && text(layout.yaxis.title, { transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }),
    s("g", { "clip-path": `url(#${clip})` }, ...shapes.flatMap((shape) => [...areaAndLine(shape, x, y), ...errorBars(shape, x, y)])),
    ...shapes.flatMap((shape) => marks(shape, x, y, colours, isInside, labels)),
    ...names.flatMap((row, i) => row.map(([at, trace]) => s("g", { transform: `translate(${at} ${height - (names.length - i) * ROW + 8})` },
      s("line", { x2: 18, stroke: colourOf(trace), "stroke-width": 3, "stroke-dasharray": DASHES[trace.line?.dash] }), text(trace.name, { x: 24, y: 4, fill: colours.ink })))),
  ].filter(Boolean));
  return Object.assign(svg, { points: shapes.flatMap((shape) => pointsOf(shape, x, y, isInside)) });
}

// The colour that stands for a trace.
export const colourOf = ({ fillcolor, marker, line }) => fillcolor ?? marker?.line?.color ?? line?.color ?? marker.color;

// The chart in an element of the page of that size, with what is said of the point nearest to the pointer; `unified`: of all that have
// the same place on the horizontal axis.
export function show(plot, traces, layout, width, height, unified) {
  const svg = svgOf(traces, layout, width, height);
  const tip = h("div", { class: "tip", hidden: true });
  svg.addEventListener("pointermove", ({ clientX, clientY }) => {
    const box = plot.getBoundingClientRect();
    const [px, py] = [clientX - box.left, clientY - box.top];
    const near = nearest(svg.points, ({ x, y }) => (unified ? Math.abs(x - px) : Math.hypot(x - px, y - py)));
    tip.hidden = !near;
    if (!near) return;
    const all = unified ? svg.points.filter(({ x }) => x === near.x) : [near];
    tip.replaceChildren(...[unified && h("div", { class: "quiet" }, score(near.at)), ...all.map(({ said, color }) =>
      h("div", {}, h("span", { class: "swatch" }), ` ${said}`))].filter(Boolean));
    tip.querySelectorAll(".swatch").forEach((swatch, i) => (swatch.style.color = all[i].color));
    const isRight = near.x > width / 2;
    Object.assign(tip.style, { top: `${Math.max(0, Math.min(py, height - tip.offsetHeight))}px`,
      left: isRight ? "" : `${near.x + 12}px`, right: isRight ? `${width - near.x + 12}px` : "" });
  });
  svg.addEventListener("pointerleave", () => (tip.hidden = true));
  plot.replaceChildren(svg, tip);
}

const nearest = (points, distance) =>
  points.reduce(([best, least], point) => (distance(point) < least ? [point, distance(point)] : [best, least]), [null, Infinity])[0];

const isKnown = (number) => number !== null && number !== undefined;

// A trace with the heights that its area begins at: those of the trace below it in a stack, or of the one before.
function stacked(trace, known) {
  const before = known.at(-1);
  if (trace.stackgroup) {
    const base = before?.stackgroup ? before.tops : trace.y.map(() => 0);
    return { ...trace, base, tops: trace.y.map((one, i) => one + base[i]) };
  }
  return { ...trace, base: trace.fill ? before.y : null, tops: trace.y };
}

const ends = (values, errors) => values.flatMap((one, i) =>
  (isKnown(one) ? [one, one + (errors?.array[i] ?? 0), one - ((errors?.arrayminus ?? errors?.array)?.[i] ?? 0)] : []));
const extentY = ({ tops, error_y: errors }) => ends(tops, errors);
const extentX = ({ x, error_x: errors }) => ends(x, errors);

// Where values stand between two pixels, and the ticks as [pixel, text].
function scale({ type, range, fromZero, percent, ticks }, values, from, to, axis) {
  const f = type === "log" ? Math.log10 : (value) => value;
  let [least, most] = range ?? [Math.min(...values), Math.max(...values)];
  if (!range && fromZero) least = Math.min(0, least);
  if (!range && axis === "y") most += 0.05 * (most - least);
  if (!(most > least)) [least, most] = type === "log" ? [least / 2, least * 2] : [least - 0.5, least + 0.5];
  const at = (value) => from + ((to - from) * (f(value) - f(least))) / (f(most) - f(least));
  const shown = ticks ?? rounded(least, most, Math.max(2, Math.floor(Math.abs(to - from) / APART[axis]))).map((value) => [value, percent ? `${Math.round(100 * value)}%` : tick(value)]);
  return { at, ticks: shown.filter(([value]) => value >= least && value <= most).map(([value, words]) => [at(value), words]) };
}

// Round numbers between two, at most so many.
function rounded(least, most, number) {
  const rough = (most - least) / number;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const first = Math.ceil(least / step);
  return Array.from({ length: Math.floor(most / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}


// The path through points, in steps or straight; points that are not known interrupt it.
function path(xs, ys, shape, begins = "M") {
  let begun = false;
  return xs.map((x, i) => {
    if (!isKnown(ys[i])) return (begun = false), "";
    const step = { hv: `H${x}V${ys[i]}`, vh: `V${ys[i]}H${x}` }[shape] ?? `L${x} ${ys[i]}`;
    const part = begun ? step : `${begins}${x} ${ys[i]}`;
    begun = true;
    return part;
  }).join("");
}

const BACK = { hv: "vh", vh: "hv" }; // the same steps the other way round

function areaAndLine({ x: values, tops, base, mode, line = {}, fillcolor }, x, y) {
  const [xs, ys] = [values.map(x.at), tops.map((top) => (isKnown(top) ? y.at(top) : null))];
  const forth = path(xs, ys, line.shape);
  const back = base && fillcolor && path([...xs].reverse(), base.map(y.at).reverse(), BACK[line.shape], "L");
  return [
    back && s("path", { d: `${forth}${back}Z`, fill: fillcolor }),
    mode.includes("lines") && line.width > 0 && s("path", { d: forth, fill: "none", stroke: line.color, "stroke-width": line.width,
      "stroke-dasharray": DASHES[line.dash], "stroke-linejoin": "round" }),
  ].filter(Boolean);
}

function errorBars({ x: values, tops, error_x: across, error_y: up }, x, y) {
  return values.flatMap((value, i) => {
    if (!isKnown(tops[i])) return [];
    const bar = (errors, from, to) => s("path", { d: `M${from}L${to}`, stroke: errors.color, "stroke-width": errors.thickness });
    const [cx, cy] = [x.at(value), y.at(tops[i])];
    return [
      across && bar(across, `${x.at(value - across.arrayminus[i])} ${cy}`, `${x.at(value + across.array[i])} ${cy}`),
      up && bar(up, `${cx} ${y.at(tops[i] - up.arrayminus[i])}`, `${cx} ${y.at(tops[i] + up.array[i])}`),
    ].filter(Boolean);
  });
}

function marks({ x: values, tops, mode, marker, text }, x, y, colours, isInside, labels) {
  return values.flatMap((value, i) => {
    const [cx, cy] = [x.at(value), isKnown(tops[i]) ? y.at(tops[i]) : NaN];
    if (!isInside(cx, cy)) return [];
    const color = Array.isArray(marker?.color) ? marker.color[i] : marker?.color;
    return [
      mode.includes("markers") && s("circle", { cx, cy, r: (marker.size ?? 6) / 2, fill: color, stroke: marker.line?.color, "stroke-width": marker.line?.width }),
      text && mode.includes("text") && hasRoom(labels, cx, cy, text[i]) && s("text", { x: cx, y: cy - 9, fill: colours.ink, "font-size": 11, "text-anchor": "middle" }, text[i]),
    ].filter(Boolean);
  });
}

// Notes the place of a name, and answers whether it touches no other one.
function hasRoom(labels, x, y, { length }) {
  const isApart = labels.every((one) => Math.abs(one.y - y) > ROW || Math.abs(one.x - x) > (LETTER * (one.length + length)) / 2);
  if (isApart) labels.push({ x, y, length });
  return isApart;
}

// What is said of the points of a trace that are to be seen.
function pointsOf(trace, x, y, isInside) {
  if (trace.hoverinfo === "skip") return [];
  return trace.x.flatMap((value, i) => {
    if (!isKnown(trace.tops[i])) return [];
    const point = { x: x.at(value), y: y.at(trace.tops[i]), at: value, color: colourOf(trace), said: trace.hovertext?.[i] ?? `${trace.name} ${score(trace.y[i])}` };
    return isInside(point.x, point.y) ? [point] : [];
  });
}

// Names in rows that fit into the width, each with its place.
function rowsOf(traces, width) {
  const rows = [];
  let free = Infinity;
  for (const trace of traces) {
    const wide = 24 + LETTER * trace.name.length + 18;
    if (free + wide > width) [free] = [14, rows.push([])];
    rows.at(-1).push([free, trace]);
    free += wide;
  }
  return rows;
}
