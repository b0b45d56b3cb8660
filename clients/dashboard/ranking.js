// The order of the standings, and who matters in them.

// The standings sorted by score, equal ones by their difference from the leader, with generators without a score at the end. The
// leader comes first even if its score ties with others: negative distances are shown as 0.
export function ranked(report) {
  const sign = report.lower_is_better ? 1 : -1;
  const leads = ({ generator }) => generator === report.decision.best;
  const worse = new Map((report.contrasts ?? []).map(({ generator, difference }) => [generator, difference]));
  const apart = ({ generator }) => worse.get(generator) ?? Infinity;
  return report.standings
    .map((standing, place) => ({ ...standing, place }))
    .sort((a, b) => {
      if (a.score === null || b.score === null) return (a.score === null) - (b.score === null) || a.place - b.place;
      return leads(b) - leads(a) || sign * (a.score - b.score) || (apart(a) < apart(b) ? -1 : apart(a) > apart(b) ? 1 : a.place - b.place);
    });
}

// The generators that axes have to hold: the best one, the next, and all that are not shown to be worse.
export function contenders(report) {
  const worse = new Set((report.decision.verdicts ?? []).filter(({ verdict }) => verdict === "worse").map(({ generator }) => generator));
  const found = ranked(report).filter(({ score }) => score !== null).map(({ generator }) => generator);
  return new Set(found.filter((name, place) => place < 2 || !worse.has(name)));
}
