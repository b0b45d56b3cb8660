// Suspicious batches, each with a button that retracts it, and the batches that were retracted.
import { change, generatorPath } from "./api.js";
import { askFor, fill, h, say } from "./dom.js";
import { count, date, samples as counted } from "./format.js";

const LISTED = 256; // the service names no more batches of an experiment
const REASON = 250; // characters: at most 1,024 bytes in UTF-8, with room for what stands around them

export function batches(config, refresh) {
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const more = h("p", { class: "quiet" });
  const suspects = card("suspects", "Suspicious batches", h("p", { class: "quiet" },
    "These batches count although something about them is odd. Retract those that should not count."), more);
  const retracted = card("retractions", "Retracted batches");
  suspects.section.append(problem);
  retracted.section.append(note);

  async function retract(suspect) {
    const text = `Batch ${count(suspect.position)} of ${suspect.generator} stops counting, and the score is computed `
      + "again without it. This cannot be undone. The reason stays on record.";
    const reason = await askFor("Retract this batch?", text, "Retract", "Reason", REASON);
    if (reason === null) return;
    say(note, "");
    say(problem, "");
    try {
      await change("DELETE", `${generatorPath(config.name, suspect.generator)}/batches/${suspect.position}`, { reason });
      say(note, `Batch ${count(suspect.position)} of ${suspect.generator} no longer counts.`);
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  }

  return {
    sections: [suspects.section, retracted.section],
    draw(report) {
      const odd = report.suspects.filter((suspect) => !suspect.retracted);
      say(more, report.suspects.length < LISTED ? "" : `The first ${LISTED} are listed; the standings count all.`);
      suspects.draw(odd, SUSPECT, (suspect) => [
        origin(suspect, [`told ${date(suspect.told)}`]),
        h("td", {}, h("ul", {}, suspect.findings.map((finding) => h("li", {}, finding)))),
        h("td", { class: "row-actions" }, h("button", {
          class: "small",
          "aria-label": `Retract batch ${suspect.position} of ${suspect.generator}`,
          onclick: () => retract(suspect),
        }, "Retract")),
      ]);
      retracted.draw([...(report.retractions ?? [])].reverse(), RETRACTED, (gone) => [
        origin(gone, []),
        h("td", {}, gone.reason || "–"),
        h("td", {}, date(gone.when), gone.who && h("div", { class: "quiet" }, `by ${gone.who}`)),
      ]);
    },
  };
}

const SUSPECT = ["Batch", "What is odd", ""];
const RETRACTED = ["Batch", "Reason", "Retracted"];

// A card with a table, which is hidden while the table is empty.
function card(id, title, ...texts) {
  const table = h("div", { class: "scroll short", tabindex: "0", role: "region", "aria-label": `${title} table` });
  const section = h("section", { class: "card", "aria-labelledby": id, hidden: true },
    h("h2", { id }, title), ...texts, table);
  let shown = "";
  return {
    section,
    draw(items, columns, cells) {
      section.hidden = items.length === 0;
      const now = JSON.stringify(items);
      if (now === shown) return; // drawing it again would take the focus from a button
      shown = now;
      fill(table, h("table", { class: "batches" }, [
        h("thead", {}, h("tr", {}, columns.map((head) => (head ? h("th", { scope: "col" }, head) : h("td", {}))))),
        h("tbody", {}, items.map((item) => h("tr", {}, cells(item)))),
      ]));
    },
  };
}

// The cell that says which batch it is.
function origin({ generator, position, pick, samples }, more) {
  const which = position ? `batch ${count(position)}` : "all batches so far";
  const facts = [which, pick && `pick ${count(pick)}`, samples && counted(samples), ...more];
  return h("th", { scope: "row" }, h("div", { class: "name" }, generator),
    h("div", { class: "quiet" }, facts.filter(Boolean).join(", ")));
}
