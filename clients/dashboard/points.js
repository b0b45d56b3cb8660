// What is made again and again over time, such as the best mixture, combined from the increments of all polls.

// Columns of equal length; "told", which grows, and "scores" are among them.
export class Points {
  constructor(columns) {
    this.columns = columns;
    for (const column of columns) this[column] = [];
  }

  // Whether an increment, which may be missing, repeats the newest known point as it is known.
  precedes(increment) {
    const place = increment?.told.indexOf(this.told.at(-1)) ?? -1;
    return place < 0 || increment.scores[place] === this.scores.at(-1);
  }

  // Append the points that are new. Returns the place of the first of them in the increment, or -1.
  extend(increment) {
    const last = this.told.at(-1) ?? -1;
    const start = increment?.told.findIndex((told) => told > last) ?? -1;
    if (start >= 0) for (const column of this.columns) this[column].push(...increment[column].slice(start));
    return start;
  }
}
