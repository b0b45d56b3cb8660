// A row of the list of experiments, and the keys that rows are sorted and found by.
import { h } from "./dom.js";
import { cost, count, date, plusMinus, recipe, score } from "./format.js";
import { axis, bar } from "./intervals.js";
import { chips } from "./labels.js";

// Each column: id, heading, class, the key that it is sorted by, and whether it begins with the largest.
export const COLUMNS = [
  ["name", "Experiment", "", ({ name }) => name.toLowerCase(), false],
  ["state", "State", "", ({ state }) => state, false],
  ["metric", "Metric", "", (one) => one.title.toLowerCase(), false],
  ["leader", "Leader", "", ({ decision }) => decision.confidence ?? -1, true],
  ["score", "Score", "", null, false], // by different metrics
  ["samples", "Samples", "number", ({ samples }) => samples, true],
  ["cost", "Cost", "number cost", (one) => one.cost ?? -1, true],
  ["created", "Created", "", ({ created }) => created, true],
];

// What a search looks in.
export const wordsOf = (one) =>
  [one.name, one.title, one.state, one.incomplete && "incomplete", leaderOf(one).text, ...(one.tags ?? []), one.note]
    .filter(Boolean).join(" ").toLowerCase();

function leaderOf({ goal, decision }) {
  if (goal === "mixture") return { text: recipe(Object.entries(decision.weights ?? {})).join(" + "), more: "best mixture" };
  if (goal === "route") return { text: decision.best ?? "", more: "best alone" };
  return { text: decision.best ?? "", more: decision.confidence_text && `${decision.confidence_text} sure` };
}

// does: what happens on a click: { remove(experiment), tag(tag), select(name, isSelected) }.
export function row(experiment, isSelected, does) {
  const { name, tags = [], note, budget, cost: spent, decision_cost: decided } = experiment;
  const { text, more } = leaderOf(experiment);
  const of = budget === null ? "" : ` of ${count(budget)}`;
  const before = decided !== undefined && decided !== spent ? ` (${cost(decided)} at the decision)` : "";
  return h("tr", { class: "line", role: "row" }, [
    h("th", { scope: "row", role: "rowheader", title: note }, [
      h("span", { class: "selectable" }, [
        h("input", { type: "checkbox", checked: isSelected, "aria-label": `Compare ${name}`, title: "Select two experiments to compare them",
          onchange: ({ target }) => does.select(name, target.checked) }),
        h("a", { href: `#/e/${encodeURIComponent(name)}` }, name),
      ]),
      note && h("span", { class: "quiet noted" }, note),
      tags.length > 0 && chips(tags, does.tag),
    ]),
    cell("State", "", badges(experiment.state, experiment.incomplete)),
    cell("Metric", "measured", experiment.title),
    cell("Leader", text ? "leader" : "leader none", text ? h("div", {}, h("div", {}, text), more && h("div", { class: "quiet" }, more))
      : h("span", { class: "quiet" }, "None yet")),
    cell("Score", experiment.score === null ? "none" : "", scored(experiment)),
    cell("Samples", "number", `${count(experiment.samples)}${of}`),
    cell("Cost", `number cost${spent === undefined ? " none" : ""}`, spent === undefined ? "–" : `${cost(spent)}${before}`),
    cell("Created", "when", date(experiment.created)),
    h("td", { class: "row-actions", role: "cell" },
      h("button", { class: "small", "aria-label": `Delete ${name}`, onclick: () => does.remove(experiment) }, "Delete")),
  ]);
}

// The leader's score with its interval, above that of the generator that is next.
function scored({ score: found, decision, lower, upper, rival }) {
  if (found === null) return "–";
  const said = h("div", {}, h("span", {}, score(found)), " ", h("span", { class: "quiet" }, plusMinus({ score: found, lower, upper })));
  if (!rival || lower === undefined) return said;
  const ours = { middle: found, lower, upper };
  const next = { middle: rival.score, lower: rival.lower ?? null, upper: rival.upper ?? null };
  const { at } = axis([ours, next]);
  const drawn = (one, who, color) => {
    const ends = [one.lower, one.upper].map((end) => (end === null ? "unbounded" : score(end)));
    return bar(one, { at, ticks: [] }, color, `${who}: ${score(one.middle)}, from ${ends[0]} to ${ends[1]}`);
  };
  return h("div", { class: "two" }, said, drawn(ours, decision.best, "var(--accent)"),
    drawn(next, `Next, ${rival.generator}`, "var(--quiet)"));
}

// what: the heading, shown beside the value where there is no row of headings.
const cell = (what, kind, ...children) =>
  h("td", { class: kind, role: "cell" }, h("span", { class: "heading", "aria-hidden": "true" }, what), ...children);

// The state as a badge, with a second badge if a generator cannot be scored or lacks batches.
export function badges(state, incomplete) {
  return h("span", { class: "badges" }, [
    h("span", { class: `badge ${state.replaceAll(" ", "-")}` }, state),
    incomplete && h("span", { class: "badge incomplete" }, "incomplete"),
  ]);
}
