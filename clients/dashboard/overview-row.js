// A row of the list of experiments, and the keys that rows are sorted and found by.
import { h } from "./dom.js";
import { serviceTime } from "./api.js";
import { ago, cost, count, date, plusMinus, score } from "./format.js";
import { asInterval, axis, bar, fromTo } from "./intervals.js";
import { chips } from "./labels.js";

// Each column: id, heading, class, the key that it is sorted by, and whether it begins with the largest.
export const COLUMNS = [
  ["name", "Experiment", "", ({ name }) => name.toLowerCase(), false],
  ["state", "State", "", (one) => stateOf(one), false],
  ["metric", "Metric", "", (one) => one.title.toLowerCase(), false],
  ["leader", "Leader", "", ({ leader }) => leader.toLowerCase(), false],
  ["confidence", "Confidence", "number", ({ decision }) => decision.confidence ?? -1, true],
  ["score", "Score", "", null, false], // by different metrics
  ["samples", "Samples", "number", ({ samples }) => samples, true],
  ["cost", "Cost", "number cost", (one) => one.cost ?? -1, true],
  ["active", "Last activity", "number", (one) => one.active ?? one.created, true],
  ["created", "Created", "made", ({ created }) => created, true],
];

// What a search looks in.
export const wordsOf = (one) =>
  [one.name, one.title, stateOf(one), one.incomplete && "incomplete", one.leader, ...(one.tags ?? []), one.note]
    .filter(Boolean).join(" ").toLowerCase();

// What a row shows, as text: it is drawn again when this changes.
export const shownOf = (one) => JSON.stringify([one, stateOf(one), activity(one)]);

const activity = ({ active }) => (active ? `${ago(serviceTime() - active)} ago` : "–");

// does: what happens on a click: { tag(tag), select(name, isSelected) }.
export function row(experiment, isSelected, does) {
  const { name, tags = [], note, budget, cost: spent, decision_cost: decided, leader, leader_is: what, decision } = experiment;
  const of = budget === null ? "" : ` of ${count(budget)}`;
  const before = decided !== undefined && decided !== spent ? ` (${cost(decided)} at the decision)` : "";
  return h("tr", { class: "line", role: "row" }, [
    h("th", { scope: "row", role: "rowheader", title: note }, [
      h("span", { class: "selectable" }, [
        h("input", { type: "checkbox", checked: isSelected, "aria-label": `Select ${name}`,
          onchange: ({ target }) => does.select(name, target.checked) }),
        h("a", { href: `#/e/${encodeURIComponent(name)}` }, name),
      ]),
      note && h("span", { class: "quiet noted" }, note),
      tags.length > 0 && chips(tags, does.tag),
    ]),
    cell("State", "", badges(experiment, experiment.incomplete)),
    cell("Metric", "measured", experiment.title),
    cell("Leader", leader ? "leader" : "leader none", leader ? h("div", {}, h("div", {}, leader), what && h("div", { class: "quiet" }, what))
      : h("span", { class: "quiet" }, "None yet")),
    cell("Confidence", `number${decision.confidence_text ? "" : " none"}`, decision.confidence_text || "–"),
    cell("Score", experiment.score === null ? "none" : "", scored(experiment)),
    cell("Samples", "number", `${count(experiment.samples)}${of}`),
    cell("Cost", `number cost${spent === undefined ? " none" : ""}`, spent === undefined ? "–" : `${cost(spent)}${before}`),
    cell("Last activity", "number when", activity(experiment)),
    cell("Created", "when made", date(experiment.created)),
  ]);
}

// The leader's score with its interval, above that of the generator that is next.
function scored({ score: found, decision, lower, upper, rival }) {
  if (found === null) return "–";
  const said = h("div", {}, h("span", {}, score(found)), " ", h("span", { class: "quiet" }, plusMinus({ score: found, lower, upper })));
  if (!rival || lower === undefined) return said;
  const [ours, next] = [{ middle: found, lower, upper }, asInterval({ lower: null, upper: null, ...rival })];
  const { at } = axis([ours, next]);
  const drawn = (one, who, color) => bar(one, { at, ticks: [] }, color, `${who}: ${score(one.middle)}, from ${fromTo(one)}`);
  return h("div", { class: "two" }, said, drawn(ours, decision.best, "var(--accent)"),
    drawn(next, `Next, ${rival.generator}`, "var(--quiet)"));
}

// what: the heading, shown beside the value where there is no row of headings.
const cell = (what, kind, ...children) =>
  h("td", { class: kind, role: "cell" }, h("span", { class: "heading", "aria-hidden": "true" }, what), ...children);

const IDLE = 600; // seconds without any change after which an experiment without open picks is idle

// What badges and searches call the state: a running experiment that nobody works on is idle, and a decision that rests on
// batches that may be wrong is provisional.
export function stateOf({ state, state_text: shown = state, active, open_picks: open, decision }) {
  if (decision.unless) return "provisional";
  if (shown !== state) return shown;
  const isIdle = ["running", "warming up"].includes(state) && active && !open && serviceTime() - active > IDLE;
  return isIdle ? `idle ${ago(serviceTime() - active)}` : state;
}

// The state as a badge, with a second badge if a generator cannot be scored or lacks batches.
export function badges(experiment, incomplete) {
  const state = stateOf(experiment);
  return h("span", { class: "badges" }, [
    h("span", { class: `badge ${state.replace(/ \d.*/, "").replaceAll(" ", "-")}` }, state),
    incomplete && h("span", { class: "badge incomplete" }, "incomplete"),
  ]);
}
