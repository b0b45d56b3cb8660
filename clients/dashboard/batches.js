// Anomalous batches, of which several can be retracted, or accepted as they are, at once; and the batches that were.
import { change, generatorPath } from "./api.js";
import { Choice } from "./choice.js";
import { askFor, fill, h, say } from "./dom.js";
import { count, date, samples as counted } from "./format.js";

const LISTED = 256; // the service names no more batches of an experiment
const REASON = 250; // characters: at most 1,024 bytes in UTF-8, with room for what stands around them

export function batches(config, refresh) {
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const more = h("p", { class: "quiet" });
  const whose = new Choice("anomalies-of", "Select", () => {
    chosen = new Set(shown.filter(({ generator }) => ["*", generator].includes(whose.value)).map(keyOf));
    offer();
  });
  const retract = h("button", { class: "small", onclick: () => act("Retract", (path, reason) => change("DELETE", path, { reason }), chosenOnes()) });
  const accept = h("button", { class: "small", onclick: () =>
    act("Accept", (path, reason) => change("PUT", `${path}/acceptance`, { reason }), chosenOnes().filter(({ acceptable }) => acceptable)) });
  const anomalies = card("anomalies", "Anomalous batches", h("p", { class: "quiet" },
    "These batches count although they repeat earlier ones or are on another scale than others. Retract those that should not count. Accept those on "
    + "another scale that are right."), more, h("div", { class: "tools admin" }, whose.element, retract, accept));
  const retracted = card("retractions", "Retracted batches");
  const accepted = card("acceptances", "Accepted batches");
  anomalies.section.append(problem);
  let report = null;
  let shown = []; // the anomalous batches that count
  let chosen = new Set(); // their keys

  const chosenOnes = () => shown.filter((one) => chosen.has(keyOf(one)));

  // Show what is selected, and what can be done with it.
  function offer() {
    for (const box of anomalies.section.querySelectorAll("input")) box.checked = chosen.has(box.value);
    const selected = chosenOnes();
    const acceptable = selected.filter((one) => one.acceptable).length;
    say(retract, `Retract ${count(selected.length)} …`);
    say(accept, `Accept ${count(acceptable)} …`);
    retract.disabled = selected.length === 0;
    accept.disabled = acceptable === 0;
  }

  async function act(what, send, those) {
    const which = those.length === 1 ? `Batch ${count(those[0].position)} of ${those[0].generator}` : `${count(those.length)} batches`;
    const text = what === "Retract" ? ifRetracted(which, those, report) : ifAccepted(which, those, report);
    const reason = await askFor(`${what} ${which.replace("Batch", "batch")}?`, text, what, "Reason", REASON);
    if (reason === null) return;
    say(note, "");
    say(problem, "");
    try {
      for (const { generator, position } of those) await send(`${generatorPath(config.name, generator)}/batches/${position}`, reason);
      say(note, what === "Retract" ? `${which} no longer ${those.length === 1 ? "counts" : "count"}.` : `${which} ${those.length === 1 ? "is" : "are"} accepted.`);
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  }

  return {
    note,
    section: anomalies.section,
    record: [retracted.section, accepted.section],
    draw(now) {
      report = now;
      shown = report.anomalies.filter((anomaly) => !anomaly.retracted);
      const generators = [...new Set(shown.map(({ generator }) => generator))];
      whose.offer([["", "None"], ["*", "All"], ...(generators.length > 1 ? generators.map((one) => [one, `All of ${one}`]) : [])]);
      say(more, report.anomalies.length < LISTED ? "" : `The first ${LISTED} are listed; the standings count all.`);
      anomalies.draw(shown, ANOMALY, (anomaly) => [
        h("td", { class: "admin" }, h("input", { type: "checkbox", value: keyOf(anomaly), "aria-label": `Select batch ${anomaly.position} of ${anomaly.generator}`,
          onchange: ({ target }) => (target.checked ? chosen.add(target.value) : chosen.delete(target.value), offer()) })),
        origin(anomaly, [`told ${date(anomaly.told)}`]),
        h("td", {}, h("ul", {}, anomaly.findings.map((finding) => h("li", {}, finding)))),
      ]);
      offer();
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

const keyOf = ({ generator, position }) => `${position} ${generator}`;

// What the report says once these batches are retracted: what is left, until scores are computed again.
function ifRetracted(which, those, { standings, decision }) {
  const left = standings.filter(({ generator }) => those.some((one) => one.generator === generator)).map(({ generator, samples }) => {
    const lost = those.filter((one) => one.generator === generator).reduce((sum, one) => sum + one.samples, 0);
    return `${generator} keeps ${counted(Math.max(0, samples - lost))}`;
  });
  const drops = decision.decided ? " If the decision rests on any of them, the report says \"Not decided yet\" until it is made again without them." : "";
  return `${which} ${those.length === 1 ? "stops" : "stop"} counting: ${left.join(", ")}, and scores are computed again.${drops} This cannot be `
    + "undone. The reason stays on record.";
}

// What the report says once these batches are accepted.
function ifAccepted(which, those, { answer, decision }) {
  const left = (decision.anomalies ?? []).filter(({ generator, positions, whole }) =>
    whole || positions.some((position) => !those.some((one) => one.generator === generator && one.position === position)));
  const then = !decision.unless ? ""
    : left.length ? " The decision stays provisional, because it rests on others, too."
    : ` The report then says: "${answer.replace(`, ${decision.unless}`, "")}"`;
  return `${which} ${those.length === 1 ? "is" : "are"} right, though on another scale than others.${then} The reason stays on record.`;
}

const ANOMALY = ["", "Batch", "What is anomalous"];
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
        h("thead", {}, h("tr", {}, columns.map((head) => (head ? h("th", { scope: "col" }, head) : h("td", { class: "admin" }))))),
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
