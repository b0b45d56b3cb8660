// The column "Worse than the best by" of the standings: the difference of each generator from the best one, with the
// interval of the stopping rule. It can be sure although the intervals of the two scores overlap, because both scores
// share some chance.
import { fill, h, say } from "./dom.js";
import { count } from "./format.js";
import { axis, bar, fromTo } from "./intervals.js";

// The differences by generator, and the axis on which the best one is at 0: in the metric's unit, or in per cent where
// scores are compared by ratios. null while there are none.
// near: the names of those that the axis has to hold.
export function differences({ contrasts, scale }, standings, near) {
  if (!contrasts?.length) return null;
  const shown = (number) => (scale === "log" ? 100 * Math.expm1(number) : number);
  const known = new Map([[contrasts[0].against, { middle: 0, lower: 0, upper: 0 }]]);
  for (const { generator, difference, lower, upper, ...rest } of contrasts) {
    const ends = [lower, upper].map((end) => (end === null ? null : shown(end)));
    known.set(generator, { ...rest, middle: shown(difference), lower: ends[0], upper: ends[1] });
  }
  const unit = scale === "log" ? "%" : "";
  const inOrder = standings.filter(({ generator }) => known.has(generator));
  const of = (those) => those.map(({ generator }) => known.get(generator));
  return { known, unit, axis: axis(of(inOrder), unit, of(inOrder.filter(({ generator }) => near.has(generator)))) };
}

export function worseCell() {
  const apart = h("span", {});
  const verdict = h("span", { class: "quiet verdict" });
  const drawn = h("div", { class: "wide" });
  const cell = h("td", { class: "worse", role: "cell", "data-head": "Worse than the best by" },
    h("div", { class: "pair" }, h("span", { class: "apart" }, apart, verdict), drawn));
  cell.draw = (generator, called, worse, color, words) => {
    const one = worse?.known.get(generator);
    say(apart, called || (one ? one.text ?? "leads" : "–"));
    apart.classList.toggle("quiet", !one?.text);
    say(verdict, words);
    cell.title = one?.text ? basis(one) : "";
    fill(drawn, one ? bar(one, worse.axis, color, one.text ? label(one, worse.unit) : "The best", true) : null);
  };
  return cell;
}

const label = (one, unit) => `Worse by ${fromTo(one, unit)}; ${basis(one)}`;

// What a difference rests on.
const basis = ({ common, correlation }) =>
  common ? `correlation ${correlation.toFixed(2)} over ${count(common)} common samples` : "no samples in common";
