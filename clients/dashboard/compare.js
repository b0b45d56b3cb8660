// Two experiments side by side: their answers, and the standings of both with intervals, on one axis where the metric is
// the same.
import { experimentPath, forget, get } from "./api.js";
import { fill, h, say } from "./dom.js";
import { cost, count, plusMinus, score } from "./format.js";
import { axis, bar, values } from "./intervals.js";
import { chips } from "./labels.js";
import { badges } from "./overview-row.js";
import { poll } from "./poll.js";
import { ranked } from "./ranking.js";
import { why } from "./standings.js";

export const comparisonPath = (names) => `#/c/${names.map(encodeURIComponent).join("/")}`;

export function showComparison(main, names, connection, failed) {
  const told = names.map(() => 0);
  const cards = names.map(card);
  const table = h("table", { class: "versus", role: "table" });
  const note = h("p", { class: "quiet" });
  let shown = [];
  fill(
    main,
    h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: "#/" }, "← Experiments")),
    h("h1", {}, "Two experiments"),
    h("div", { class: "charts" }, cards.map(({ section }) => section)),
    h("section", { class: "card", "aria-labelledby": "standings" }, [
      h("h2", { id: "standings" }, "Standings of both"),
      note,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Standings of both, table" }, table),
    ]),
  );
  const polling = poll(
    async () => {
      const reports = await Promise.all(names.map((name, i) =>
        get(`${experimentPath(name)}/report?after=${told[i]}`, `compared ${i}`)));
      if (reports.every((report, i) => report === shown[i])) return;
      shown = reports;
      reports.forEach((report, i) => {
        told[i] = report.progress.told;
        cards[i].draw(report);
      });
      const [one, other] = reports.map(({ title }) => title);
      say(note, one === other ? "" : `The scores cannot be compared: one is by ${one}, the other by ${other}.`);
      fill(table, standings(names, reports, one === other));
    },
    connection,
    failed,
  );
  return {
    now: polling.now,
    stop() {
      names.forEach((_, i) => forget(`compared ${i}`));
      polling.stop();
    },
  };
}

// The answer of one of them and what it took.
function card(name) {
  const state = h("span", {});
  const sentence = h("p", { class: "claim" });
  const reason = h("p", { class: "quiet" });
  const facts = h("dl", { class: "facts below" });
  const tags = h("div", {});
  return {
    section: h("section", { class: "card said", "aria-label": name }, [
      h("div", { class: "title" }, h("h2", {}, h("a", { href: `#/e/${encodeURIComponent(name)}` }, name)), state),
      tags, sentence, reason, facts,
    ]),
    draw(report) {
      const { samples, budget, cost: spent, tags: tagged = [] } = report;
      fill(state, badges(report.state, report.standings.some(({ incomplete }) => incomplete)));
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

// A row for each generator of either, in the order of the first one's standings.
function standings(names, reports, isCommon) {
  const lists = reports.map(ranked);
  const known = lists.map((list) => new Map(list.map((one) => [one.generator, one])));
  const found = lists.map((list) => list.filter(({ score: of }) => of !== null).map(asInterval));
  // Its better half decides what the axis shows, so the lists are mixed.
  const mixed = [...found[0], ...found[1]].sort((a, b) => (reports[0].lower_is_better ? 1 : -1) * (a.middle - b.middle));
  const scales = found.map((list) => axis(isCommon ? mixed : list));
  const generators = [...new Set(lists.flat().map(({ generator }) => generator))];
  return [
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, [
      h("th", { scope: "col", role: "columnheader" }, "Generator"),
      ...names.map((name, i) => h("th", { scope: "col", role: "columnheader" }, h("div", { class: "name" }, name),
        h("span", { class: "axis", "aria-hidden": "true" }, values(scales[i])))),
    ])),
    h("tbody", { role: "rowgroup" }, generators.map((generator) => h("tr", { role: "row" }, [
      h("th", { scope: "row", role: "rowheader" }, h("span", { class: "name" }, generator)),
      ...names.map((name, i) => h("td", { role: "cell", "data-head": name, class: known[i].has(generator) ? "" : "absent" },
        known[i].has(generator) ? scored(known[i].get(generator), scales[i], reports[i]) : h("span", { class: "quiet" }, "not in it"))),
    ]))),
  ];
}

const asInterval = ({ score: middle, lower, upper }) => ({ middle, lower, upper });

function scored(standing, scale, { decision, goal }) {
  const told = h("span", { class: "quiet" }, `${count(standing.samples)} samples`);
  if (standing.score === null) return h("div", { class: "scores" }, h("span", { class: "quiet" }, "no score yet"), told);
  const called = goal !== "route" && standing.generator === decision.best && (decision.rank ?? "leads");
  const ends = [standing.lower, standing.upper].map((end) => (end === null ? "unbounded" : score(end)));
  return [
    h("div", { class: "scores" }, [
      h("span", {}, h("strong", {}, score(standing.score)), " ", h("span", { class: "quiet" }, plusMinus(standing))),
      called && h("span", { class: `badge ${called}` }, called),
      told,
    ]),
    bar(asInterval(standing), scale, called ? "var(--accent)" : "var(--quiet)", `From ${ends[0]} to ${ends[1]}`),
  ];
}
