// The open picks and their workers.
import { serviceTime } from "./api.js";
import { fill, h, say } from "./dom.js";
import { ago, count } from "./format.js";

export function openPicks() {
  const summary = h("p", { class: "quiet" });
  const table = h("div", { class: "scroll short", tabindex: "0", role: "region", "aria-label": "Open picks table" });
  const section = h("section", { class: "card", "aria-labelledby": "picks" }, [
    h("h2", { id: "picks" }, "Open picks and workers"),
    summary,
    table,
  ]);
  return {
    section,
    draw(picks, total, hasEnded) {
      section.hidden = hasEnded && total === 0;
      const workers = new Set(picks.filter((pick) => pick.worker !== null).map((pick) => pick.worker));
      const by = workers.size ? ` with ${count(workers.size)} named ${workers.size === 1 ? "worker" : "workers"}` : "";
      const newest = total > picks.length ? `; the newest ${picks.length} are shown` : "";
      say(summary, total === 0 ? "No pick is open: no worker is sampling now." : `${count(total)} open${by}${newest}.`);
      table.hidden = total === 0;
      if (total > 0) fill(table, tableOf(picks));
    },
  };
}

function tableOf(picks) {
  const now = serviceTime();
  const heads = [["Pick", "number"], ["Generator"], ["Samples", "number"], ["Worker"], ["Open for", "number"],
    ["Lease ends in", "number"]];
  return h("table", {}, [
    h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
    h("tbody", {}, [...picks].reverse().map((pick) =>
      h("tr", {}, [
        h("td", { class: "number" }, count(pick.number)),
        h("td", { class: "clip" }, pick.generator),
        h("td", { class: "number" }, count(pick.size)),
        h("td", { class: "clip" }, pick.worker ?? "–"),
        h("td", { class: "number" }, ago(now - pick.opened)),
        h("td", { class: "number" }, ago(pick.deadline - now)),
      ]))),
  ]);
}
