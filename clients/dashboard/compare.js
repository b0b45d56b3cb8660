// Several experiments side by side: their answers, the standings of all with intervals, on one axis where the metric is the
// same, and how the score of each one's leader came about.
import { experimentPath, forget, get } from "./api.js";
import { Palette } from "./colours.js";
import { fill, h, say } from "./dom.js";
import { CurveChart, withNewest } from "./estimates.js";
import { cost, count, withSpread } from "./format.js";
import { asInterval, axis, bar, fromTo, values } from "./intervals.js";
import { chips } from "./labels.js";
import { badges } from "./overview-row.js";
import { poll } from "./poll.js";
import { ProgressCurve } from "./progress-curve.js";
import { ranked } from "./ranking.js";
import { session } from "./session.js";
import { labelled } from "./shares.js";
import { why } from "./standings.js";

export const comparisonPath = (names) => `#/c/${names.map(encodeURIComponent).join("/")}`;

export function showComparison(main, names, connection, failed) {
  const palette = new Palette();
  palette.give(names.slice(0, 10));
  const curves = names.map(() => new ProgressCurve());
  const cards = names.map((name) => card(name, palette));
  const table = h("table", { class: "versus", role: "table" });
  const note = h("p", { class: "quiet" });
  const leaders = new Leaders(names, palette);
  let shown = [];
  fill(
    main,
    h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: "#/" }, "← Experiments")),
    h("h1", {}, `${count(names.length)} experiments`),
    h("div", { class: "cards" }, cards.map(({ section }) => section)),
    h("section", { class: "card", "aria-labelledby": "standings" }, [
      h("h2", { id: "standings" }, "Standings of all"),
      note,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Standings of all, table" }, table),
    ]),
    leaders.chart.card,
  );
  const ask = (name, i, after) => get(`${experimentPath(name)}/report?after=${after}`, `compared ${i}`);
  const polling = poll(
    async () => {
      await session();
      const reports = await Promise.all(names.map(async (name, i) => {
        const after = curves[i].told;
        const report = await ask(name, i, after);
        if (report === shown[i] || curves[i].take(report.progress, after)) return report;
        forget(`compared ${i}`);
        const whole = await ask(name, i, 0);
        curves[i].take(whole.progress, 0);
        return whole;
      }));
      if (reports.every((report, i) => report === shown[i])) return;
      shown = reports;
      reports.forEach((report, i) => cards[i].draw(report));
      const titles = new Set(reports.map(({ title }) => title));
      say(note, titles.size === 1 ? "" : `Scores by different metrics cannot be compared: these are by ${[...titles].join(", ")}.`);
      fill(table, standings(names, reports, palette));
      leaders.draw(reports, curves);
    },
    connection,
    failed,
  );
  return {
    now: polling.now,
    stop() {
      names.forEach((_, i) => forget(`compared ${i}`));
      leaders.stop();
      polling.stop();
    },
  };
}

// The score of each one's leader by its samples, of those that have the metric of the first one.
class Leaders extends CurveChart {
  constructor(names, palette) {
    super("leaders", "The leader of each", "Samples of the leader");
    Object.assign(this, { names, palette });
  }

  curves(reports, curves) {
    const [{ title }] = reports;
    this.metric = title;
    this.text = `${title} of the generator that leads each experiment, by its number of samples.`;
    return reports.flatMap((report, i) => {
      const leader = report.standings.find(({ generator }) => generator === report.decision.best);
      if (report.title !== title || !leader) return [];
      const name = this.names[i];
      return [{
        name, color: this.palette.colour(name), dash: this.palette.dash(name), isNear: true,
        ...withNewest(curves[i].curvesBy("").get(leader.generator), leader),
      }];
    });
  }
}

// The answer of one of them and what it took.
function card(name, palette) {
  const state = h("span", {});
  const sentence = h("p", { class: "claim" });
  const reason = h("p", { class: "quiet" });
  const facts = h("dl", { class: "facts below" });
  const tags = h("div", {});
  return {
    section: h("section", { class: "card said", "aria-label": name }, [
      h("div", { class: "title" }, h("h2", {}, h("a", { href: `#/e/${encodeURIComponent(name)}` }, labelled(name, palette.colour(name), palette.dash(name)))), state),
      tags, sentence, reason, facts,
    ]),
    draw(report) {
      const { samples, budget, cost: spent, tags: tagged = [] } = report;
      fill(state, badges(report, report.standings.some(({ incomplete }) => incomplete)));
      fill(tags, tagged.length ? chips(tagged) : null);
      say(sentence, report.answer);
      say(reason, why(report));
      const known = [
        ["Samples", budget === null ? count(samples) : `${count(samples)} of ${count(budget)}`],
        spent !== undefined && ["Cost", cost(spent)],
        ["Metric", `${report.title}, ${report.lower_is_better ? "lower" : "higher"} is better`],
        ["Generators", count(report.standings.length)],
      ].filter(Boolean);
      fill(facts, known.map(([head, value]) => h("div", {}, h("dt", {}, head), h("dd", {}, value))));
    },
  };
}

// A row for each generator of any, in the order of the first one's standings.
function standings(names, reports, palette) {
  const lists = reports.map(ranked);
  const known = lists.map((list) => new Map(list.map((one) => [one.generator, one])));
  // One axis for all that have the same metric. The better half decides what it shows, so the lists are mixed.
  const scales = reports.map(({ title, lower_is_better: isLower }) => axis(lists
    .flatMap((list, i) => (reports[i].title === title ? list : []))
    .filter(({ score: of }) => of !== null).map(asInterval)
    .sort((a, b) => (isLower ? 1 : -1) * (a.middle - b.middle))));
  const generators = [...new Set(lists.flat().map(({ generator }) => generator))];
  return [
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, [
      h("th", { scope: "col", role: "columnheader" }, "Generator"),
      ...names.map((name, i) => h("th", { scope: "col", role: "columnheader" }, labelled(name, palette.colour(name), palette.dash(name)),
        h("span", { class: "axis", "aria-hidden": "true" }, values(scales[i])))),
    ])),
    h("tbody", { role: "rowgroup" }, generators.map((generator) => h("tr", { role: "row" }, [
      h("th", { scope: "row", role: "rowheader" }, h("span", { class: "name" }, generator)),
      ...names.map((name, i) => h("td", { role: "cell", "data-head": name, class: known[i].has(generator) ? "" : "absent" },
        known[i].has(generator) ? scored(known[i].get(generator), scales[i], reports[i]) : h("span", { class: "quiet" }, "–"))),
    ]))),
  ];
}

function scored(standing, scale, { decision, view }) {
  const told = h("span", { class: "quiet" }, `${count(standing.samples)} samples`);
  if (standing.score === null) return h("div", { class: "scores" }, h("span", { class: "quiet" }, "no score yet"), told);
  const called = view !== "routes" && standing.generator === decision.best && (decision.rank ?? "leads");
  const [value, spread] = withSpread(standing);
  return [
    h("div", { class: "scores" }, [
      h("span", {}, h("strong", {}, value), " ", h("span", { class: "quiet" }, spread)),
      called && h("span", { class: `badge ${called}` }, called),
      told,
    ]),
    bar(asInterval(standing), scale, called ? "var(--accent)" : "var(--quiet)", `From ${fromTo(standing)}`),
  ];
}
