// The best mixture over time (`MixtureCurve` in the OpenAPI document).
import { Points } from "./points.js";

export class MixtureCurve extends Points {
  constructor() {
    super(["told", "samples", "scores", "lower", "upper", "best", "best_scores", "gains", "gain_standard_errors"]);
    this.weights = new Map(); // generator → weights
  }

  // A generator that joins had no weight before.
  extend(increment) {
    const earlier = this.told.length;
    const start = super.extend(increment);
    if (start < 0) return start;
    const names = new Set([...this.weights.keys(), ...Object.keys(increment.weights)]);
    const none = Array(increment.told.length).fill(0);
    for (const name of names) {
      const before = this.weights.get(name) ?? Array(earlier).fill(0);
      this.weights.set(name, [...before, ...(increment.weights[name] ?? none).slice(start)]);
    }
    return start;
  }
}
