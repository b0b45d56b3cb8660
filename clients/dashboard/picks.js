// The batches that workers are sampling now: open picks.
import { serviceTime } from "./api.js";
import { asBlocks } from "./blocks.js";
import { fill, h, say } from "./dom.js";
import { ago, count } from "./format.js";
import { term } from "./term.js";

const COLUMNS = [["Pick", "number"], ["Generator"], ["Samples", "number"], ["Worker"], ["Open for", "number"], ["Reserved for", "number"]];

export function openPicks() {
  const summary = h("p", { class: "quiet" });
  const body = h("tbody", { role: "rowgroup" });
  const table = h("table", { class: "picks", role: "table" }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, COLUMNS.map(([text, kind]) =>
    h("th", { scope: "col", role: "columnheader", class: kind }, text)))), body);
  const region = h("div", { class: "scroll short", tabindex: "0", role: "region", "aria-label": "Open picks table" }, table);
  asBlocks(region, table);
  const lease = term("lease", true);
  const section = h("section", { class: "card", "aria-labelledby": "picks" }, [
    h("div", { class: "field" }, h("h2", { id: "picks" }, "Open picks and workers"), term("ask, pick"), lease),
    summary,
    region,
  ]);
  return {
    section,
    draw(picks, total, hasEnded) {
      section.hidden = hasEnded && total === 0;
      const workers = new Set(picks.filter((pick) => pick.worker !== null).map((pick) => pick.worker));
      const by = workers.size ? ` with ${count(workers.size)} named ${workers.size === 1 ? "worker" : "workers"}` : "";
      const newest = total > picks.length ? `; the newest ${picks.length} are shown` : "";
      say(summary, total === 0 ? "No pick is open: no worker is sampling now." : `${count(total)} open${by}${newest}.`);
      region.hidden = lease.hidden = total === 0;
      fill(body, [...picks].reverse().map(row));
    },
  };
}

function row(pick) {
  const now = serviceTime();
  const cells = [count(pick.number), pick.generator, count(pick.size), pick.worker ?? "–", ago(now - pick.opened), ago(pick.deadline - now)];
  return h("tr", { role: "row" }, cells.map((text, i) => h("td", { class: COLUMNS[i][1], role: "cell", "data-head": COLUMNS[i][0] }, text)));
}
