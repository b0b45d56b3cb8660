// The standings as a table for a file, and as a picture: each generator's score with its interval.
import { styleValue } from "./colours.js";
import { errors } from "./plot.js";
import { ranked } from "./ranking.js";

const COLUMNS = ["generator", "state", "score", "standard_error", "lower", "upper", "samples", "batches", "pick_ratio", "cost",
  "cost_per_sample"];
const WATCHED = ["score", "standard_error", "lower", "upper"];

// Best first; the watched metrics follow as columns such as "kid:score".
export function asRows(report) {
  const columns = report.cost === undefined ? COLUMNS.filter((column) => !column.startsWith("cost")) : COLUMNS;
  const watched = Object.entries(report.watched ?? {}).map(([label, { standings }]) =>
    [label, new Map(standings.map((one) => [one.generator, one]))]);
  const head = [...columns, ...watched.flatMap(([label]) => WATCHED.map((column) => `${label}:${column}`))];
  return [head, ...ranked(report).map((one) => [
    ...columns.map((column) => one[column]),
    ...watched.flatMap(([, of]) => WATCHED.map((column) => of.get(one.generator)?.[column])),
  ])];
}

// null while nothing has a score.
export function asFigure(report, palette) {
  const found = ranked(report).filter(({ score }) => score !== null).reverse(); // the best at the top
  if (!found.length) return null;
  const [scores, lower, upper] = ["score", "lower", "upper"].map((column) => found.map((one) => one[column]));
  const points = {
    mode: "markers", name: "", x: scores, y: found.map((_, i) => i),
    marker: { color: found.map(({ generator }) => palette.colour(generator)), size: 10 },
    error_x: errors(scores, lower, upper, styleValue("--quiet"), 2),
  };
  const better = report.lower_is_better ? "lower is better" : "higher is better";
  return {
    data: [points],
    layout: {
      title: report.experiment,
      xaxis: { title: `${report.title}, ${better}` },
      yaxis: { ticks: found.map(({ generator }, i) => [i, generator]), range: [-0.6, found.length - 0.4] },
    },
  };
}
