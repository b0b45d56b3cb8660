// Charts as SVG: lines, steps, areas, markers and error bars on linear or logarithmic axes.
import { styleValue } from "./colours.js";
import { score, tick } from "./format.js";

const LETTER = 7.5; // pixels that a letter takes on average
const SMALL = { letter: 6.8, height: 11 }; // pixels of a letter of a point's name
const ROW = 16; // pixels of a line of text
const APART = { x: 84, y: 40 }; // pixels between ticks at least
const DASHES = { dash: "7 4", dot: "2 3" };
const STRIPE = 9; // pixels for which each of several lines that are the same is to be seen in turn
const EXIT = 5; // pixels of half of the mark where a line leaves the frame
let clips = 0; // areas that have a name of their own

export function s(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children.filter(Boolean));
  return element;
}

// A chart of traces { name, mode, x, y, line, marker, … } as an SVG element of that size. A line { color, width, dash, stripe,
// exits } that has a stripe [number, place] is one of so many that are the same; exits: whether marks show where it leaves the
// frame. layout: { title, xaxis, yaxis },
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
  const placed = place(shapes, x, y, { left, right, top, bottom }, isInside);
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
    ...shapes.flatMap((shape) => [...exits(shape, x, y, { left, right, top, bottom }), ...marks(shape, x, y, isInside)]),
    ...placed.map(({ words, ...at }) => s("text", { fill: colours.ink, "font-size": 11, class: "named", ...at }, words)),
    ...names.flatMap((row, i) => row.map(([at, trace]) => s("g", { transform: `translate(${at} ${height - (names.length - i) * ROW + 8})` },
      s("line", { x2: 18, stroke: colourOf(trace), "stroke-width": 3, "stroke-dasharray": DASHES[trace.line?.dash] }), text(trace.name, { x: 24, y: 4, fill: colours.ink })))),
  ].filter(Boolean));
  const lines = shapes.filter(({ hoverinfo }) => hoverinfo !== "skip").map((shape) => pointsOf(shape, x, y, isInside));
  return Object.assign(svg, { lines, frame: { left, right, top, bottom }, valueAt: x.of });
}

// The colour that stands for a trace.
export const colourOf = ({ fillcolor, marker, line }) => fillcolor ?? marker?.line?.color ?? line?.color ?? marker.color;

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
  const [f, inverse] = type === "log" ? [Math.log10, (power) => 10 ** power] : [(value) => value, (value) => value];
  let [least, most] = range ?? [Math.min(...values), Math.max(...values)];
  if (!range && fromZero) least = Math.min(0, least);
  if (!range && axis === "y") most += 0.05 * (most - least);
  if (!(most > least)) [least, most] = type === "log" ? [least / 2, least * 2] : [least - 0.5, least + 0.5];
  const at = (value) => from + ((to - from) * (f(value) - f(least))) / (f(most) - f(least));
  const shown = ticks ?? rounded(least, most, Math.max(2, Math.floor(Math.abs(to - from) / APART[axis]))).map((value) => [value, percent ? `${Math.round(100 * value)}%` : tick(value)]);
  const of = (pixel) => inverse(f(least) + ((f(most) - f(least)) * (pixel - from)) / (to - from));
  return { at, of, ticks: shown.filter(([value]) => value >= least && value <= most).map(([value, words]) => [at(value), words]) };
}

// Round numbers between two, at most so many.
export function rounded(least, most, number) {
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
      ...dashed(line), "stroke-linejoin": "round", opacity: line.opacity }),
  ].filter(Boolean);
}

function dashed({ dash, stripe }) {
  if (!stripe) return { "stroke-dasharray": DASHES[dash] };
  const [number, place] = stripe;
  return { "stroke-dasharray": `${STRIPE} ${STRIPE * (number - 1)}`, "stroke-dashoffset": -STRIPE * place };
}

// A mark at the edge of the frame for each part of a line that is above or below it: where the line leaves, or else comes in, or
// at its end if it never is inside.
function exits({ x: values, tops, line }, x, y, { left, right, top, bottom }) {
  if (!line?.exits) return [];
  const points = values.map((value, i) => [x.at(value), isKnown(tops[i]) ? y.at(tops[i]) : null])
    .filter(([px, py]) => py !== null && px > left - 1 && px < right + 1);
  const side = ([, py]) => (py < top ? -1 : py > bottom ? 1 : 0);
  const edge = (of) => (of < 0 ? top : bottom);
  const crossing = ([ax, ay], [bx, by], of) => ax + ((bx - ax) * (edge(of) - ay)) / (by - ay);
  const found = [];
  points.forEach((point, i) => {
    const of = side(point);
    const before = points[i - 1];
    if (of === 0 || (before && side(before) === of)) return;
    const later = points.slice(i).findIndex((one) => side(one) !== of);
    const at = before ? crossing(before, point, of) : later < 0 ? points.at(-1)[0] : crossing(points[i + later - 1], points[i + later], of);
    found.push([at, of]);
  });
  return found.map(([at, of]) => s("path", { class: "exit", fill: line.color, opacity: line.opacity,
    d: `M${at - EXIT} ${edge(of) - of * EXIT}h${2 * EXIT}l${-EXIT} ${of * 1.6 * EXIT}Z` }));
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

function marks({ x: values, tops, mode, marker }, x, y, isInside) {
  if (!mode.includes("markers")) return [];
  return values.flatMap((value, i) => {
    const [cx, cy] = [x.at(value), isKnown(tops[i]) ? y.at(tops[i]) : NaN];
    if (!isInside(cx, cy)) return [];
    const color = Array.isArray(marker.color) ? marker.color[i] : marker.color;
    return [s("circle", { cx, cy, r: (marker.size ?? 6) / 2, fill: color, stroke: marker.line?.color, "stroke-width": marker.line?.width })];
  });
}

const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// Where the names of points stand: beside each, on no point and no other name, and on as few error bars as can be; a name
// without such a place is left out.
function place(shapes, x, y, frame, isInside) {
  const points = shapes.filter(({ mode }) => mode.includes("markers")).flatMap((shape) => shape.x.flatMap((value, i) => {
    const [cx, cy, r] = [x.at(value), isKnown(shape.tops[i]) ? y.at(shape.tops[i]) : NaN, (shape.marker.size ?? 6) / 2 + 1];
    const words = shape.mode.includes("text") ? shape.text[i] : null;
    return isInside(cx, cy) ? [{ cx, cy, words, isFirst: shape.isFirst, left: cx - r, right: cx + r, top: cy - r, bottom: cy + r }] : [];
  }));
  const bars = shapes.flatMap(({ x: values, tops, error_x: across, error_y: up, line }) => [
    ...(line?.shape ? values.slice(1).flatMap((value, i) => { // steps
      const [ax, bx, ay, by] = [x.at(values[i]), x.at(value), y.at(tops[i]), y.at(tops[i + 1])];
      const [flat, high] = line.shape === "hv" ? [ay, bx] : [by, ax];
      return [{ left: ax, right: bx, top: flat - 1, bottom: flat + 1 }, { left: high - 1, right: high + 1, top: Math.min(ay, by), bottom: Math.max(ay, by) }];
    }) : []),
    across && { left: x.at(values[0] - across.arrayminus[0]), right: x.at(values[0] + across.array[0]), top: y.at(tops[0]) - 1, bottom: y.at(tops[0]) + 1 },
    up && { left: x.at(values[0]) - 1, right: x.at(values[0]) + 1, top: y.at(tops[0] + up.array[0]), bottom: y.at(tops[0] - up.arrayminus[0]) },
  ].filter(Boolean));
  const names = [];
  for (const { cx, cy, words } of points.filter((one) => one.words).sort((a, b) => Boolean(b.isFirst) - Boolean(a.isFirst))) {
    const width = SMALL.letter * words.length;
    const spots = [[0, -10, "middle"], [0, 20, "middle"], [9, 4, "start"], [-9, 4, "end"], [8, -8, "start"], [-8, -8, "end"], [8, 16, "start"], [-8, 16, "end"]]
      .map(([dx, dy, anchor]) => {
        const left = cx + dx - { start: 0, middle: width / 2, end: width }[anchor];
        const box = { left, right: left + width, top: cy + dy - SMALL.height, bottom: cy + dy + 3 };
        return { box, at: { x: cx + dx, y: cy + dy, "text-anchor": anchor, words }, crossed: bars.filter((bar) => touch(bar, box)).length };
      })
      .filter(({ box }) => box.left > frame.left && box.right < frame.right + 18 && box.top > frame.top && box.bottom < frame.bottom &&
        !points.some((point) => touch(point, box)) && !names.some((name) => touch(name.box, box)));
    const best = spots.sort((a, b) => a.crossed - b.crossed)[0];
    if (best) names.push(best);
  }
  return names.map(({ at }) => at);
}

// The points of a trace, with what is said of each.
function pointsOf(trace, x, y, isInside) {
  return trace.x.flatMap((value, i) => {
    if (!isKnown(trace.tops[i])) return [];
    const point = { x: x.at(value), y: y.at(trace.tops[i]), at: value, color: colourOf(trace), name: trace.name, isLine: trace.mode.includes("lines") && !trace.stackgroup,
      said: trace.hovertext?.[i] ?? `${trace.name} ${score(trace.y[i])}` };
    return [{ ...point, isInside: isInside(point.x, point.y) }];
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
