// How an experiment went, put together from what each poll brings (`Progress` in the service's OpenAPI description).

export class Course {
  constructor() {
    this.clear();
  }

  clear() {
    this.instance = null;
    this.told = 0;
    this.rounds = [];
    this.samples = [];
    this.batches = new Map(); // generator → cumulative batches, by checkpoint
    this.curves = new Map(); // generator → estimates as they were made, by column
  }

  // Take what came after `after` batches. False where it does not follow from what is known: ask from 0 on.
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
    // Nothing new: the newest checkpoint is no multiple of the stride, and stays.
    const thin = progress.rounds.length ? kept : (column) => column;
    this.rounds = thin(this.rounds);
    const earlier = this.rounds.length;
    this.rounds = this.rounds.concat(progress.rounds);
    this.samples = thin(this.samples).concat(progress.samples);
    for (const { generator, batches, curve } of progress.generators) {
      const before = this.batches.has(generator) ? thin(this.batches.get(generator)) : Array(earlier).fill(0);
      this.batches.set(generator, before.concat(batches));
      this.extend(generator, curve);
    }
    return true;
  }

  // Whether this is the same course, gone on. What was known at the cursor comes again: otherwise the store has gone back
  // to an earlier state, and what is known here may be of batches that it has lost.
  leadsTo({ instance, told, rounds, samples, generators }) {
    if (instance !== this.instance || told < this.told) return false;
    const places = rounds.map((round) => this.rounds.indexOf(round));
    const same = (known, came) => places.every((place, i) => place < 0 || (known?.[place] ?? 0) === came[i]);
    return same(this.samples, samples) && generators.every(({ generator, batches, curve }) => {
      const known = this.curves.get(generator);
      const last = known?.samples.length ? curve.samples.indexOf(known.samples.at(-1)) : null;
      const found = last === null || curve.scores[last] === known.scores.at(-1);
      return found && same(this.batches.get(generator), batches);
    });
  }

  // Estimates made at the cursor come again: those of no more samples than are known are passed over.
  extend(generator, curve) {
    const known = this.curves.get(generator) ?? { samples: [], scores: [], lower: [], upper: [] };
    const last = known.samples.at(-1) ?? 0;
    const start = curve.samples.findIndex((samples) => samples > last);
    if (start >= 0) {
      for (const column of Object.keys(known)) known[column].push(...curve[column].slice(start));
    }
    this.curves.set(generator, known);
  }

  // Regret by checkpoint, with the scores of now (equations.md §5); null where a contender has none.
  regret(standings, best) {
    const leader = standings.find((standing) => standing.generator === best);
    if (!leader || standings.some((standing) => standing.score === null)) return null;
    const gaps = standings.map((standing) => [standing.generator, Math.abs(standing.score - leader.score)]);
    return this.rounds.map((_, i) => gaps.reduce((sum, [g, gap]) => sum + gap * (this.batches.get(g)?.[i] ?? 0), 0));
  }

  // Which part of all batches went to a generator, by checkpoint.
  ratio(generator) {
    const batches = this.batches.get(generator) ?? [];
    return this.rounds.map((round, i) => (batches[i] ?? 0) / round);
  }

  // Which part of the batches from one checkpoint to the next went to each generator, over `width` checkpoints.
  shares(generator, width) {
    const batches = this.batches.get(generator) ?? [];
    return this.rounds.map((round, i) => {
      const from = i - width;
      const [before, start] = from < 0 ? [0, 0] : [batches[from], this.rounds[from]];
      return (batches[i] - before) / (round - start);
    });
  }
}
