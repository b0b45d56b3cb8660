// The progress curve of an experiment, combined from the increments of all polls (`Progress` in the OpenAPI document).
import { MixtureCurve } from "./mixture-curve.js";
import { RouteCurve } from "./route-curve.js";

export class ProgressCurve {
  constructor() {
    this.clear();
  }

  clear() {
    this.instance = null;
    this.told = 0;
    this.rounds = [];
    this.samples = [];
    this.batches = new Map(); // generator → cumulative number of batches at each checkpoint
    this.curves = new Map(); // label of the metric, "" for the one that decides → generator → estimates, as columns
    this.mixture = new MixtureCurve();
    this.routes = new RouteCurve();
  }

  // Add the increment after `after` batches. Returns false if it does not continue the known data: request it from 0.
  take(progress, after) {
    if (!this.leadsTo(progress)) {
      this.clear();
      if (after > 0 && progress.told >= after) return false;
    }
    this.instance = progress.instance;
    this.told = progress.told;
    const first = progress.rounds[0] ?? Infinity;
    const keep = this.rounds.map((round) => round < first && round % progress.stride === 0);
    const kept = (column) => column.filter((_, i) => keep[i]);
    // Without new checkpoints keep the newest one, although it need not be a multiple of the stride.
    const thin = progress.rounds.length ? kept : (column) => column;
    this.rounds = thin(this.rounds);
    const earlier = this.rounds.length;
    this.rounds = this.rounds.concat(progress.rounds);
    this.samples = thin(this.samples).concat(progress.samples);
    for (const { generator, batches, curve, watched } of progress.generators) {
      const before = this.batches.has(generator) ? thin(this.batches.get(generator)) : Array(earlier).fill(0);
      this.batches.set(generator, before.concat(batches));
      for (const [label, points] of Object.entries({ "": curve, ...watched })) this.extend(label, generator, points);
    }
    this.mixture.extend(progress.mixture);
    this.routes.extend(progress.routes);
    return true;
  }

  // Whether an increment continues the known data. It repeats the values at the cursor. If they differ, the store was
  // restored to an earlier state, and the known data may include batches that the store has lost.
  leadsTo({ instance, told, rounds, samples, generators, mixture, routes }) {
    if (instance !== this.instance || told < this.told) return false;
    if (!this.mixture.precedes(mixture) || !this.routes.precedes(routes)) return false;
    const places = rounds.map((round) => this.rounds.indexOf(round));
    const same = (known, came) => places.every((place, i) => place < 0 || (known?.[place] ?? 0) === came[i]);
    return same(this.samples, samples) && generators.every(({ generator, batches, curve, watched }) =>
      same(this.batches.get(generator), batches) &&
      Object.entries({ "": curve, ...watched }).every(([label, points]) => {
        const known = this.curvesBy(label).get(generator);
        const last = known?.samples.length ? points.samples.indexOf(known.samples.at(-1)) : null;
        return last === null || points.scores[last] === known.scores.at(-1);
      }));
  }

  // The estimates over time of each generator by a metric.
  curvesBy(label) {
    return this.curves.get(label) ?? new Map();
  }

  // Append new estimates of a generator. Increments repeat the estimates at the cursor, which are skipped.
  extend(label, generator, curve) {
    const curves = this.curvesBy(label);
    const known = curves.get(generator) ?? { samples: [], scores: [], lower: [], upper: [] };
    const last = known.samples.at(-1) ?? 0;
    const start = curve.samples.findIndex((samples) => samples > last);
    if (start >= 0) {
      for (const column of Object.keys(known)) known[column].push(...curve[column].slice(start));
    }
    this.curves.set(label, curves.set(generator, known));
  }

  // Regret at each checkpoint, with the current scores (equations.md §5); null if a generator has no score.
  regret(standings, best) {
    const leader = standings.find((standing) => standing.generator === best);
    if (!leader || standings.some((standing) => standing.score === null)) return null;
    const gaps = standings.map((standing) => [standing.generator, Math.abs(standing.score - leader.score)]);
    return this.rounds.map((_, i) => gaps.reduce((sum, [g, gap]) => sum + gap * (this.batches.get(g)?.[i] ?? 0), 0));
  }

  // The fraction of all batches so far that a generator received, at each checkpoint.
  ratio(generator) {
    const batches = this.batches.get(generator) ?? [];
    return this.rounds.map((round, i) => (batches[i] ?? 0) / round);
  }

  // The fraction of the batches of the last `width` checkpoints that a generator received, at each checkpoint.
  shares(generator, width) {
    const batches = this.batches.get(generator) ?? [];
    return this.rounds.map((round, i) => {
      const from = i - width;
      const [before, start] = from < 0 ? [0, 0] : [batches[from], this.rounds[from]];
      return (batches[i] - before) / (round - start);
    });
  }
}
