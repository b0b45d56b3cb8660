// The column "Worse than the best by" of the standings: the difference of each generator from the best one, with the
// interval of the stopping rule. It can be sure although the intervals of the two scores overlap, because both scores
// share some chance.
import { fill, h, say } from "./dom.js";
import { count, score } from "./format.js";
import { axis, bar } from "./intervals.js";

// The differences by generator, and the axis on which the best one is at 0: in the metric's unit, or in per cent where
// scores are compared by ratios. null while there are none.
export function differences({ contrasts, scale }, standings) {
  if (!contrasts?.length) return null;
  const shown = (number) => (scale === "log" ? 100 * Math.expm1(number) : number);
  const known = new Map([[contrasts[0].against, { middle: 0, lower: 0, upper: 0 }]]);
  for (const { generator, difference, lower, upper, ...rest } of contrasts) {
    const ends = [lower, upper].map((end) => (end === null ? null : shown(end)));
    known.set(generator, { ...rest, middle: shown(difference), lower: ends[0], upper: ends[1] });
  }
  const unit = scale === "log" ? "%" : "";
  const inOrder = standings.map(({ generator }) => known.get(generator)).filter(Boolean);
  return { known, unit, axis: axis(inOrder, unit) };
}

export function worseCell() {
  const apart = h("span", { class: "apart" });
  const drawn = h("div", { class: "wide" });
  const cell = h("td", { class: "worse", role: "cell", "data-head": "Worse than the best by" }, apart, drawn);
  cell.draw = (generator, called, worse, color) => {
    const one = worse?.known.get(generator);
    say(apart, called || (one ? one.text ?? "leads" : "–"));
    apart.classList.toggle("quiet", !one?.text);
    cell.title = one?.text ? basis(one) : "";
    fill(drawn, one ? bar(one, worse.axis, color, one.text ? label(one, worse.unit) : "The best", true) : null);
  };
  return cell;
}

function label(one, unit) {
  const [from, to] = [one.lower, one.upper].map((end) => (end === null ? "unbounded" : `${score(end)}${unit}`));
  return `Worse by ${from} to ${to}; ${basis(one)}`;
}

// What a difference rests on.
const basis = ({ common, correlation }) =>
  common ? `correlation ${correlation.toFixed(2)} over ${count(common)} common samples` : "no samples in common";
