// What is still expected until the answer is sure: samples, and the time that they take at the present rate.
import { serviceTime } from "./api.js";
import { about, ago, count } from "./format.js";

const SEEN = 10; // seconds over which a rate is measured at least
const WINDOW = 120; // and at most

// Samples per second, as this page saw them come.
export class Rate {
  constructor() {
    this.points = [];
  }

  take(samples, now = serviceTime()) {
    if (samples < this.points.at(-1)?.samples) this.points = [];
    this.points.push({ now, samples });
    while (this.points.length > 2 && this.points[1].now < now - WINDOW) this.points.shift();
  }

  // null while it is not known: nothing came, or the page has not looked for long enough.
  get perSecond() {
    const [first, last] = [this.points[0], this.points.at(-1)];
    if (!last || last.now - first.now < SEEN || last.samples <= first.samples) return null;
    return (last.samples - first.samples) / (last.now - first.now);
  }
}

// Its words: how many samples, and what there is to add; null where nothing can be said.
export function expected({ ended, decision, budget, samples }, perSecond) {
  const more = decision.hardest?.more_samples;
  if (ended || !more) return null;
  const [from, to] = more;
  const notes = [];
  if (perSecond) notes.push(`${between(ago(from / perSecond), ago(to / perSecond))} at the present rate`);
  const left = budget === null ? Infinity : budget - samples;
  if (from > left) notes.push(`the budget has only ${count(left)} left`);
  else if (to > left) notes.push(`the budget has ${count(left)} left, which may not be enough`);
  return { samples: `About ${between(about(from), about(to))} more samples`, notes: notes.join("; ") };
}

// "3 to 5 min": a unit that both have is said once.
function between(from, to) {
  const unit = from.match(/ .*$/)?.[0] ?? "";
  return from === to ? to : `${to.endsWith(unit) ? from.slice(0, from.length - unit.length) : from} to ${to}`;
}
