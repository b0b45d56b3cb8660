// Intervals drawn as bars on a common axis, in a column of a table.
import { h } from "./dom.js";
import { score, tick } from "./format.js";

export const FAR = 3; // what is at most this many times the axis beyond the end of a few makes it longer
const LETTER = 5.5; // percent of the axis that a letter takes where the axis is short

// How many of the best an axis holds.
export const better = (number) => Math.max(4, Math.ceil(number / 2));

// A standing as an interval.
export const asInterval = ({ score: middle, lower, upper }) => ({ middle, lower, upper });

// What an interval says.
export const fromTo = ({ lower, upper }, unit = "") =>
  [lower, upper].map((end) => (end === null ? "unbounded" : `${score(end)}${unit}`)).join(" to ");

// The common axis of intervals { middle, lower, upper }, the best first; an end that is null is unbounded. It holds the
// intervals `near`, or else the better half, and what is not far from them.
// `at` maps a number to its position in percent, which lies outside of 0 to 100 beyond the axis.
export function axis(intervals, unit = "", near = null) {
  if (!intervals.length) return { at: () => 50, ticks: [] };
  const endsOf = ({ middle, lower, upper }) => [middle, lower ?? middle, upper ?? middle];
  const ends = (near ?? intervals.slice(0, better(intervals.length))).flatMap(endsOf);
  const far = near ? FAR : 1;
  const [first, last] = [Math.min(...ends), Math.max(...ends)];
  const isClose = (end) => end >= first - far * (last - first) && end <= last + far * (last - first);
  const shown = [...ends, ...intervals.filter(({ middle }) => isClose(middle)).flatMap(endsOf).filter(isClose)];
  const margin = 0.05 * (Math.max(...shown) - Math.min(...shown));
  const [least, most] = [Math.min(...shown) - margin, Math.max(...shown) + margin];
  if (margin === 0) return { least: least - 1, most: most + 1, at: () => 50, ticks: [[50, `${score(shown[0])}${unit}`]] };
  const at = (number) => (100 * (number - least)) / (most - least);
  const step = round((most - least) / 2);
  const begin = Math.ceil(least / step);
  const ticks = Array.from({ length: Math.floor(most / step) - begin + 1 }, (_, i) => {
    const value = (begin + i) * step;
    return [at(value), `${tick(value)}${unit}`];
  });
  return { least, most, at, ticks: apart(ticks) };
}

// Those ticks whose labels do not touch the one before.
function apart(ticks) {
  let free = -Infinity;
  return ticks.filter(([at, text]) => {
    const half = (LETTER * text.length) / 2;
    if (at - half < free) return false;
    free = at + half + LETTER / 2;
    return true;
  });
}

// The next smaller number of 1, 2, 5, 10, 20, …
function round(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return power * (number >= 5 * power ? 5 : number >= 2 * power ? 2 : 1);
}

function place(element, style) {
  element.style.cssText = style;
  return element;
}

// The values of the axis, each above its line.
export function values({ ticks }) {
  const shift = (at) => (at < 3 ? 0 : at > 97 ? 100 : 50); // labels at the ends stay within the axis
  return ticks.map(([at, text]) =>
    place(h("span", { class: "value" }, text), `left:${at}%;transform:translateX(-${shift(at)}%)`));
}

// An interval. An end that lies beyond the axis, or is unbounded, is an arrow; one that lies beyond it as a whole is said to.
// `zero`: whether 0 is marked.
export function bar({ middle, lower, upper }, { at, ticks }, color, label, zero = false) {
  const [from, to] = [lower === null ? -Infinity : at(lower), upper === null ? Infinity : at(upper)];
  const [left, right] = [from, to].map((end) => Math.min(100, Math.max(0, end)));
  const said = `${label}${from < 0 || to > 100 ? "; the axis ends before" : ""}`;
  const beyond = from >= 100 ? "right" : to <= 0 ? "left" : null;
  return h("span", { class: "interval", role: "img", "aria-label": said, title: said }, [
    ...ticks.map(([tick]) => place(h("span", { class: "tick" }), `left:${tick}%`)),
    zero && place(h("span", { class: "tick zero" }), `left:${at(0)}%`),
    !beyond && place(h("span", { class: "range" }), `left:${left}%;width:${Math.max(0.5, right - left)}%;background:${color}`),
    beyond && h("span", { class: `beyond ${beyond}` }, `${from > 200 || to < -100 ? "far " : ""}${beyond === "left" ? "below" : "above"}`),
    from < 0 && place(h("span", { class: "arrow left" }), `border-right-color:${color}`),
    to > 100 && place(h("span", { class: "arrow right" }), `border-left-color:${color}`),
    at(middle) >= 0 && at(middle) <= 100 && place(
      h("span", { class: "point" }), `left:${at(middle)}%;background:${color}`),
  ]);
}
