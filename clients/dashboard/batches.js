// Anomalous batches, each with buttons that retract it, or accept one on another scale, and the batches that were
// retracted or accepted.
import { change, generatorPath } from "./api.js";
import { askFor, fill, h, say } from "./dom.js";
import { count, date, samples as counted } from "./format.js";

const LISTED = 256; // the service names no more batches of an experiment
const REASON = 250; // characters: at most 1,024 bytes in UTF-8, with room for what stands around them

export function batches(config, refresh) {
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const more = h("p", { class: "quiet" });
  const anomalies = card("anomalies", "Anomalous batches", h("p", { class: "quiet" },
    "These batches count although they repeat earlier ones or are on another scale than others. Retract those that should not count. Accept those on "
    + "another scale that are right."), more);
  const retracted = card("retractions", "Retracted batches");
  const accepted = card("acceptances", "Accepted batches");
  anomalies.section.append(problem);
  retracted.section.append(note);

  async function retract(anomaly) {
    const text = `Batch ${count(anomaly.position)} of ${anomaly.generator} stops counting, and the score is computed `
      + "again without it. This cannot be undone. The reason stays on record.";
    const reason = await askFor("Retract this batch?", text, "Retract", "Reason", REASON);
    if (reason === null) return;
    say(note, "");
    say(problem, "");
    try {
      await change("DELETE", `${generatorPath(config.name, anomaly.generator)}/batches/${anomaly.position}`, { reason });
      say(note, `Batch ${count(anomaly.position)} of ${anomaly.generator} no longer counts.`);
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  }

  async function accept(anomaly) {
    const text = `Batch ${count(anomaly.position)} of ${anomaly.generator} is right as it is, though it is on another `
      + "scale than others. A decision that rests on it is then no longer provisional. The reason stays on record.";
    const reason = await askFor("Accept this batch?", text, "Accept", "Reason", REASON);
    if (reason === null) return;
    say(problem, "");
    try {
      const path = `${generatorPath(config.name, anomaly.generator)}/batches/${anomaly.position}/acceptance`;
      await change("PUT", path, { reason });
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  }

  const button = (what, anomaly, onclick) => h("button", {
    class: "small", "aria-label": `${what} batch ${anomaly.position} of ${anomaly.generator}`, onclick,
  }, what);

  return {
    sections: [anomalies.section, retracted.section, accepted.section],
    draw(report) {
      const anomalous = report.anomalies.filter((anomaly) => !anomaly.retracted);
      say(more, report.anomalies.length < LISTED ? "" : `The first ${LISTED} are listed; the standings count all.`);
      anomalies.draw(anomalous, ANOMALY, (anomaly) => [
        origin(anomaly, [`told ${date(anomaly.told)}`]),
        h("td", {}, h("ul", {}, anomaly.findings.map((finding) => h("li", {}, finding)))),
        h("td", { class: "row-actions" }, button("Retract", anomaly, () => retract(anomaly)),
          anomaly.acceptable && button("Accept", anomaly, () => accept(anomaly))),
      ]);
      accepted.draw([...(report.acceptances ?? [])].reverse(), ACCEPTED, (one) => [
        origin(one, []),
        h("td", {}, one.reason || "–"),
        h("td", {}, date(one.when), one.who && h("div", { class: "quiet" }, `by ${one.who}`)),
      ]);
      retracted.draw([...(report.retractions ?? [])].reverse(), RETRACTED, (gone) => [
        origin(gone, []),
        h("td", {}, gone.reason || "–"),
        h("td", {}, date(gone.when), gone.who && h("div", { class: "quiet" }, `by ${gone.who}`)),
      ]);
    },
  };
}

const ANOMALY = ["Batch", "What is anomalous", ""];
const RETRACTED = ["Batch", "Reason", "Retracted"];
const ACCEPTED = ["Batch", "Reason", "Accepted"];

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
function origin({ generator, position, until, pick, samples }, more) {
  const all = until ? `all batches up to ${count(until)}` : "all batches so far";
  const which = position ? `batch ${count(position)}` : all;
  const facts = [which, pick && `pick ${count(pick)}`, samples && counted(samples), ...more];
  return h("th", { scope: "row" }, h("div", { class: "name" }, generator),
    h("div", { class: "quiet" }, facts.filter(Boolean).join(", ")));
}
