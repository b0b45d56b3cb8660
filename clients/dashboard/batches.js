// Anomalous batches, of which several can be retracted, or accepted as they are, at once; and the batches that were.
import { change, experimentPath } from "./api.js";
import { Choice } from "./choice.js";
import { askFor, fill, h, say } from "./dom.js";
import { count, date, samples as counted } from "./format.js";
import { outcome } from "./outcome.js";

const LISTED = 256; // the service names no more batches of an experiment
const TRIAL = 60_000; // milliseconds that a trial may take
const REASON = 250; // characters: at most 1,024 bytes in UTF-8, with room for what stands around them

export function batches(config, refresh) {
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const more = h("p", { class: "quiet" });
  const whose = new Choice("anomalies-of", "Select", () => {
    chosen = new Set(shown.filter((one) => ["all", `generator ${one.generator}`, `worker ${one.worker}`].includes(whose.value)).map(keyOf));
    offer();
  });
  const retract = h("button", { class: "small", onclick: () => act("retract", chosenOnes()) });
  const accept = h("button", { class: "small", onclick: () => act("accept", chosenOnes().filter(({ acceptable }) => acceptable)) });
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

  // what: "retract" or "accept". The answer to a trial says what would follow.
  async function act(what, those) {
    const which = those.length === 1 ? `batch ${count(those[0].position)} of ${those[0].generator}` : `${count(those.length)} batches`;
    const wanted = { [what]: those.map(({ generator, position }) => ({ generator, position })) };
    const path = `${experimentPath(config.name)}/corrections`;
    const reason = await askFor(`${VERBS[what]} ${which}?`, TEXTS[what], VERBS[what], "Reason", REASON,
      outcome(report, change("POST", `${path}?trial=true`, wanted, TRIAL)));
    if (reason === null) return;
    say(note, "");
    say(problem, "");
    try {
      await change("POST", path, { ...wanted, reason });
      say(note, `${VERBS[what]}ed: ${which}.`);
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
      const groups = ["generator", "worker"].map((of) => [of, [...new Set(shown.map((one) => one[of]).filter(Boolean))]]);
      whose.offer([["", "None"], ["all", "All"], ...groups.flatMap(([of, names]) =>
        (of === "worker" || names.length > 1 ? names.map((name) => [`${of} ${name}`, `All of ${of} ${name}`]) : []))]);
      say(more, report.anomalies.length < LISTED ? "" : `The first ${LISTED} are listed; the standings count all.`);
      anomalies.draw(shown, ANOMALY, (anomaly) => [
        h("td", { class: "admin" }, h("input", { type: "checkbox", value: keyOf(anomaly), "aria-label": `Select batch ${anomaly.position} of ${anomaly.generator}`,
          onchange: ({ target }) => (target.checked ? chosen.add(target.value) : chosen.delete(target.value), offer()) })),
        origin(anomaly, [`received ${date(anomaly.told)}`]),
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

const VERBS = { retract: "Retract", accept: "Accept" };
const TEXTS = {
  retract: "What is retracted no longer counts; scores are computed again. This cannot be undone, and the reason stays on record.",
  accept: "What is accepted is right, though on another scale than others. The reason stays on record.",
};

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
function origin({ generator, position, until, pick, worker, samples }, more) {
  const all = until ? `all batches up to ${count(until)}` : "all batches so far";
  const which = position ? `batch ${count(position)}` : all;
  const facts = [which, pick && `pick ${count(pick)}`, worker && `worker ${worker}`, samples && counted(samples), ...more];
  return h("th", { scope: "row" }, h("div", { class: "name" }, generator),
    h("div", { class: "quiet" }, facts.filter(Boolean).join(", ")));
}
