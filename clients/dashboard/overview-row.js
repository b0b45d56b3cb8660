// A row of the list of experiments, and the keys that rows are sorted and found by.
import { serviceTime } from "./api.js";
import { h } from "./dom.js";
import { ago, cost, count, date, score, tick, withSpread } from "./format.js";
import { asInterval, axis, bar, fromTo } from "./intervals.js";
import { chips } from "./labels.js";

// Each column: id, heading, class, the key that it is sorted by, and whether it begins with the largest.
export const COLUMNS = [
  ["name", "Experiment", "", ({ name }) => name.toLowerCase(), false],
  ["state", "State", "state", (one) => stateOf(one), false],
  ["metric", "Metric", "measured", (one) => one.title.toLowerCase(), false],
  ["leader", "Leader", "leader", ({ leader }) => leader.toLowerCase(), false],
  ["confidence", "Confidence", "number confidence", ({ decision }) => decision.confidence ?? -1, true],
  ["score", "Score and interval", "scored", null, false], // by different metrics
  ["samples", "Samples", "number amount", ({ samples }) => samples, true],
  ["cost", "Cost", "number cost", (one) => one.cost ?? -1, true],
  ["active", "Last activity", "number when", (one) => one.active ?? one.created, true],
  ["created", "Created", "made", ({ created }) => created, true],
];

// What a search looks in.
export const wordsOf = (one) =>
  [one.name, one.title, stateOf(one), one.incomplete && "incomplete", one.leader, ...(one.tags ?? []), one.note]
    .filter(Boolean).join(" ").toLowerCase();

// What a row shows, as text: it is drawn again when this changes.
export const shownOf = (one) => JSON.stringify([one, stateOf(one), activity(one)]);

const activity = ({ active }) => (active ? `${ago(serviceTime() - active)} ago` : "–");

// A row of one line. does: what happens on a click: { tag(tag), select(name, isSelected), open(name) }.
export function row(experiment, isSelected, isOpen, does) {
  const { name, tags = [], note, budget, cost: spent, leader, decision } = experiment;
  const of = budget !== null && h("span", { class: "of" }, ` of ${tick(budget)}`);
  return h("tr", { class: "line", role: "row" }, [
    h("th", { scope: "row", role: "rowheader", title: note }, h("span", { class: "selectable" }, [
      h("input", { type: "checkbox", checked: isSelected, "aria-label": `Select ${name}`,
        onchange: ({ target }) => does.select(name, target.checked) }),
      h("a", { href: `#/e/${encodeURIComponent(name)}`, title: name }, name),
      tags.length > 0 && chips(tags, does.tag),
    ])),
    cell("state", badges(experiment, experiment.incomplete)),
    cell("measured", experiment.title),
    h("td", { class: "leader", role: "cell", title: leader }, leader || h("span", { class: "quiet" }, "None yet")),
    cell("number confidence", decision.confidence_text || "–"),
    h("td", { class: "scored", role: "cell", title: withSpread(experiment).join(" ") }, ...scored(experiment)),
    cell("number amount", tick(experiment.samples), of),
    cell("number cost", spent === undefined ? "–" : cost(spent)),
    cell("number when", activity(experiment)),
    cell("made", date(experiment.created)),
    cell("opens", h("button", { class: "fold", "aria-expanded": String(isOpen), "aria-label": `More about ${name}`,
      onclick: () => does.open(name) })),
  ]);
}

// The row below it, with all that it leaves out.
export function details(experiment, does) {
  const { tags = [], note, budget, cost: spent, decision_cost: decided, leader, leader_is: what, decision } = experiment;
  const { generators, generator_names: names } = experiment;
  const before = decided !== undefined && decided !== spent ? ` (${cost(decided)} at the decision)` : "";
  const facts = [
    note && ["Note", note],
    tags.length > 0 && ["Tags", chips(tags, does.tag)],
    ["Metric", experiment.title],
    ["Leader", [leader || "None yet", what && `, ${what}`]],
    experiment.score !== null && ["Score and interval", compared(experiment)],
    decision.confidence_text && ["Confidence", decision.confidence_text],
    ["Samples", `${count(experiment.samples)}${budget === null ? "" : ` of ${count(budget)}`}`],
    spent !== undefined && ["Cost", `${cost(spent)}${before}`],
    ["Generators", `${count(generators)}: ${names.join(", ")}${generators > names.length ? ", …" : ""}`],
    ["Last activity", activity(experiment)],
    ["Created", date(experiment.created)],
  ].filter(Boolean);
  return h("tr", { class: "details", role: "row" }, h("td", { colspan: COLUMNS.length + 1, role: "cell" },
    h("dl", { class: "facts" }, facts.map(([head, value]) => h("div", {}, h("dt", {}, head), h("dd", {}, value))))));
}

// The leader's score with its interval.
function scored(experiment) {
  const [value, spread] = withSpread(experiment);
  return [value, " ", h("span", { class: "quiet" }, spread)];
}

// The leader's interval above that of the generator that is next, each with its name, or the score alone.
function compared(experiment) {
  const { score: middle, decision, lower = null, upper = null, rival } = experiment;
  if (!rival) return scored(experiment);
  const ours = { middle, lower, upper };
  const next = asInterval({ lower: null, upper: null, ...rival });
  const { at } = axis([ours, next]);
  const drawn = (one, name, who, color) => [h("span", { class: "clip" }, name),
    bar(one, { at, ticks: [] }, color, `${who}: ${score(one.middle)}, from ${fromTo(one)}`),
    h("span", {}, ...scored({ ...one, score: one.middle }))];
  return h("div", { class: "two" }, drawn(ours, decision.best, decision.best, "var(--accent)"),
    drawn(next, rival.generator, `Next, ${rival.generator}`, "var(--quiet)"));
}

const cell = (kind, ...children) => h("td", { class: kind, role: "cell" }, ...children);

const IDLE = 600; // seconds without any change after which an experiment without open picks is idle

// What badges and searches call the state: a running experiment that nobody works on is idle, and a decision that rests on
// batches that may be wrong is provisional.
export function stateOf({ state, state_text: shown = state, active, open_picks: open, decision }) {
  if (decision.unless) return "provisional";
  if (shown !== state) return shown;
  const isIdle = ["running", "warming up"].includes(state) && active && !open && serviceTime() - active > IDLE;
  return isIdle ? `idle ${ago(serviceTime() - active)}` : state;
}

// The state without for how long.
export const stateName = (experiment) => stateOf(experiment).replace(/ \d.*/, "");

// The state as a badge, with a second badge if a generator cannot be scored or lacks batches.
export function badges(experiment, incomplete) {
  return h("span", { class: "badges" }, [
    h("span", { class: `badge ${stateName(experiment).replaceAll(" ", "-")}` }, stateOf(experiment)),
    incomplete && h("span", { class: "badge incomplete" }, "incomplete"),
  ]);
}
