// The best blend over time, combined from the increments of all polls (`MixtureCurve` in the OpenAPI document).

const COLUMNS = ["told", "samples", "scores", "lower", "upper", "best", "best_scores", "gains", "gain_errors"];

export class MixtureCurve {
  constructor() {
    for (const column of COLUMNS) this[column] = [];
    this.weights = new Map(); // generator → weights
  }

  // Whether an increment, which may be missing, repeats the newest known point as it is known.
  precedes(increment) {
    const place = increment?.told.indexOf(this.told.at(-1)) ?? -1;
    return place < 0 || increment.scores[place] === this.scores.at(-1);
  }

  // Append the points that are new. A generator that joins had no weight before.
  extend(increment) {
    const last = this.told.at(-1) ?? -1;
    const start = increment?.told.findIndex((told) => told > last) ?? -1;
    if (start < 0) return;
    const earlier = this.told.length;
    for (const column of COLUMNS) this[column].push(...increment[column].slice(start));
    const names = new Set([...this.weights.keys(), ...Object.keys(increment.weights)]);
    const none = Array(increment.told.length).fill(0);
    for (const name of names) {
      const before = this.weights.get(name) ?? Array(earlier).fill(0);
      this.weights.set(name, [...before, ...(increment.weights[name] ?? none).slice(start)]);
    }
  }
}
