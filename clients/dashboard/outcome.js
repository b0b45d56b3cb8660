// What the report would say after a change: the answer, and the scores that would be others.
import { h } from "./dom.js";
import { samples, withSpread } from "./format.js";
import { ranked } from "./ranking.js";

// Elements, once the report is there; before: the report as it is; trial: a promise of the report after the change.
export async function outcome(before, trial) {
  let after = null;
  try {
    after = await trial;
  } catch (error) {
    return h("p", { class: "problem" }, `This cannot be done, or not be worked out: ${error.message}`);
  }
  const known = new Map(before.standings.map((one) => [one.generator, said(one)]));
  const changed = ranked(after).filter((one) => known.get(one.generator) !== said(one));
  const cells = (tag, ...texts) => h("tr", {}, texts.map((text) => h(tag, {}, text)));
  return [
    h("p", { class: "quiet" }, after.answer === before.answer ? "The answer stays:" : "The report would then say:"),
    h("p", { class: "then" }, after.answer),
    changed.length > 0 && h("table", {}, [
      h("thead", {}, cells("th", "Generator", `${after.title} now`, "Then")),
      h("tbody", {}, changed.map((one) => cells("td", one.generator, known.get(one.generator) ?? "–", said(one)))),
    ]),
    h("p", { class: "quiet" }, after.scored
      ? "Worked out on a copy of the experiment, by the same scorer: exact, unless more samples come meanwhile."
      : "Not all scores were ready within 20 seconds: those that are missing come later."),
  ];
}

const said = (one) => [...withSpread(one), `of ${samples(one.samples)}`].filter(Boolean).join(" ");
