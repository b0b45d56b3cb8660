// Formats numbers, times and the answer as text.

// Numbers are grouped here: to make the first of the browser's own formats takes as long as to draw a chart.
function grouped(number) {
  const [whole, ...rest] = String(number).replace(/^-(?=[0.]+$)/, "").split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
}

// A format of the browser, which is made when it is needed.
function once(make) {
  let made = null;
  return (value) => (made ??= make()).format(value);
}

const UNITS = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
const day = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
const [ofThisYear, ofAnyYear] = [undefined, "numeric"].map((year) => once(() => new Intl.DateTimeFormat("en-GB", { ...day, year })));

export const count = (number) => grouped(number);

// A value at an axis: short from 100,000 on, such as "2M".
export function tick(number) {
  const [size, unit] = (Math.abs(number) >= 1e5 && UNITS.find(([least]) => Math.abs(number) >= least)) || [1, ""];
  return `${grouped(Number((number / size).toPrecision(unit ? 3 : 6)))}${unit}`;
}

// An estimate, rounded to two digits.
export const about = (number) => count(Number(number.toPrecision(2)));

export const samples = (number) => `${count(number)} ${number === 1 ? "sample" : "samples"}`;

// Four significant digits, without an exponent for numbers of ordinary size; from a million on with a unit, such as "3.706M".
export function score(number) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number);
  if (size >= 1e15 || (size > 0 && size < 1e-3)) return number.toExponential(2);
  if (size >= 1e6) return inUnit(number, size, 3);
  return size >= 1000 ? grouped(Number(number.toPrecision(4))) : grouped(number.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

// A number in the largest unit that `size` has.
function inUnit(number, size, decimals) {
  const [least, unit] = UNITS.find(([one]) => size >= one);
  return `${grouped((number / least).toFixed(decimals))}${unit}`;
}

// A score and half of its interval in the same unit and with the same decimals, such as ["370,000", "± 210,000"], or both ends
// where the score is not in the middle; the second is "" without an interval.
export function withSpread({ score: found, lower, upper }) {
  if (found === null || [lower, upper].some((end) => end === null || end === undefined)) return [score(found), ""];
  const half = (upper - lower) / 2;
  const size = Math.max(Math.abs(found), half);
  const isMiddle = Math.abs((lower + upper) / 2 - found) <= 0.1 * half;
  const spread = isMiddle ? half : upper - lower;
  const shown = formatOf(size, spread > 0 ? 1 - Math.floor(Math.log10(spread)) : 3); // the spread has two digits
  return [shown(found), isMiddle ? `± ${shown(half)}` : `(${shown(lower)} to ${shown(upper)})`];
}

// The format of numbers up to a size that need so many decimals, fewer than none for round ones.
function formatOf(size, digits) {
  if (size >= 1e15 || (size > 0 && size < 1e-3)) return (number) => number.toExponential(1);
  if (size >= 1e6) {
    const [least] = UNITS.find(([one]) => size >= one);
    return (number) => inUnit(number, size, Math.min(3, Math.max(0, digits + Math.log10(least))));
  }
  if (digits < 0) return (number) => grouped(Math.round(number / 10 ** -digits) * 10 ** -digits);
  const usual = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return (number) => grouped(number.toFixed(Math.min(6, Math.max(usual, digits))));
}

// A cost in the user's unit.
export const cost = (number) =>
  number === null || number === undefined ? "–"
    : number >= 1e12 ? number.toExponential(2)
    : grouped(Number(number.toFixed(number >= 1000 ? 0 : number >= 1 ? 2 : 4)));

// A score with three decimals or fewer, or with as many as its error of two digits needs.
export function precise(number, spread) {
  if (!(spread > 0 && spread < 0.1)) return score(number);
  return number.toFixed(Math.min(12, Math.max(3, 1 - Math.floor(Math.log10(spread)))));
}

export const share = (ratio) => (ratio === null ? "–" : `${(100 * ratio).toFixed(1)}\u00a0%`);

export function ago(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// "21 Nov, 10:52", with the year if it is not the current one.
export function date(unix) {
  const then = new Date(1000 * unix);
  return (then.getFullYear() === new Date().getFullYear() ? ofThisYear : ofAnyYear)(then);
}
