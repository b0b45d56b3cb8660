// The order of the standings.

// The standings sorted by score, with generators without a score at the end. The leader comes first even if its score
// ties with others: negative distances are shown as 0.
export function ranked(report) {
  const sign = report.lower_is_better ? 1 : -1;
  const leads = ({ generator }) => generator === report.decision.best;
  return report.standings
    .map((standing, place) => ({ ...standing, place }))
    .sort((a, b) => {
      if (a.score === null || b.score === null) return (a.score === null) - (b.score === null) || a.place - b.place;
      return leads(b) - leads(a) || sign * (a.score - b.score) || a.place - b.place;
    });
}
