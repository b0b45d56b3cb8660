// The standings, best first: each generator's score with its interval, samples, pick ratio, state and warnings.
import { change, generatorPath } from "./api.js";
import { confirm, fill, h, say } from "./dom.js";
import { cost, count, error, score, share } from "./format.js";

// The standings sorted by score, with generators without a score at the end. The leader comes first even if its score
// ties with others: negative distances are shown as 0.
export function ranked(report) {
  const sign = report.lower_is_better ? 1 : -1;
  const leads = ({ generator }) => generator === report.decision.best;
  return report.standings
    .map((standing, place) => ({ ...standing, place }))
    .sort((a, b) => {
      if (a.score === null || b.score === null) return (a.score === null) - (b.score === null) || a.place - b.place;
      return leads(b) - leads(a) || sign * (a.score - b.score) || a.place - b.place;
    });
}

// Why it was or was not decided; "" before there is anything to compare. An older replica gives only the reason.
export const why = ({ samples, standings, decision, why: said }) =>
  samples && standings.length > 1 ? said ?? `${decision.reason}.` : "";

export class Standings {
  constructor(name, metric, palette, refresh) {
    this.name = name;
    this.palette = palette;
    this.refresh = refresh;
    this.rows = new Map(); // reused in each draw, so that the focus is kept
    this.problem = h("p", { class: "problem", role: "alert" });
    this.why = h("p", { class: "quiet" });
    this.body = h("tbody", {});
    const columns = [["Generator"], [`${metric} ± error`, "number"], ["Interval", "wide"],
      ["Samples", "number"], ["Cost", "number cost"], ["Pick ratio", "number wide"],
      [h("span", { class: "unseen" }, "Actions")]];
    this.section = h("section", { class: "card", "aria-labelledby": "standings" }, [
      h("h2", { id: "standings" }, "Standings"),
      this.why,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Standings table" }, [
        (this.table = h("table", { class: "standings" }, [
          h("thead", {}, h("tr", {}, columns.map(([head, kind]) => h("th", { scope: "col", class: kind }, head)))),
          this.body,
        ])),
      ]),
      this.problem,
    ]);
  }

  draw(report) {
    const standings = ranked(report);
    const scale = axis(standings);
    const { best, rank: rankOfBest, verdicts } = report.decision;
    const words = new Map((verdicts ?? []).map((one) => [one.generator, one.words]));
    say(this.why, why(report));
    this.table.classList.toggle("free", report.cost === undefined);
    const names = new Set(standings.map((standing) => standing.generator));
    for (const [name, row] of this.rows) {
      if (!names.has(name)) {
        row.element.remove();
        this.rows.delete(name);
      }
    }
    standings.forEach((standing, rank) => {
      let row = this.rows.get(standing.generator);
      if (!row) {
        row = this.row(standing);
        this.rows.set(standing.generator, row);
      }
      const called = standing.generator === best && (rankOfBest ?? "leads");
      row.draw(standing, scale, called, words.get(standing.generator) ?? "");
      // Moving an element removes its focus, so move only those at the wrong place.
      const there = this.body.children[rank] ?? null;
      if (there !== row.element) this.body.insertBefore(row.element, there);
    });
  }

  row({ generator }) {
    const { palette } = this;
    const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
    const marks = h("span", { class: "badges" });
    const verdict = h("p", { class: "quiet verdict" });
    const warnings = h("ul", { class: "warnings" });
    const value = h("strong", {});
    const spread = h("span", { class: "quiet spread" });
    const interval = h("td", { class: "wide" });
    const told = h("span", {});
    const pending = h("span", { class: "quiet" });
    const spent = h("span", {});
    const each = h("span", { class: "quiet each" });
    const ratio = h("td", { class: "number wide" });
    const pause = h("button", { class: "small" });
    const retire = h("button", { class: "small", "aria-label": `Retire ${generator}` }, "Retire");
    let state = "active";
    pause.addEventListener("click", () => this.set(generator, state === "active" ? "paused" : "active"));
    retire.addEventListener("click", async () => {
      const text = `${generator} is removed from the experiment permanently. Its name cannot be used again.`;
      if (await confirm("Retire this generator?", text, "Retire")) this.set(generator, "retired");
    });
    const element = h("tr", {}, [
      h("th", { scope: "row" }, [
        h("div", { class: "generator" }, [
          h("span", { class: "label" }, swatch, h("span", { class: "name" }, generator)),
          marks,
        ]),
        verdict,
        warnings,
      ]),
      h("td", { class: "number" }, value, " ", spread),
      interval,
      h("td", { class: "number" }, told, pending),
      h("td", { class: "number cost" }, spent, each),
      ratio,
      h("td", { class: "row-actions" }, pause, retire),
    ]);
    return {
      element,
      draw(standing, scale, called, words) {
        state = standing.state;
        element.classList.toggle("best", called === "best");
        say(verdict, words);
        swatch.style.background = palette.colour(generator);
        fill(marks, [
          called && h("span", { class: `badge ${called}` }, called),
          state !== "active" && h("span", { class: "badge" }, state),
          standing.damaged && h("span", { class: "badge damaged" }, "damaged"),
        ]);
        fill(warnings, standing.warnings.map((warning) => h("li", {}, warning)));
        say(value, score(standing.score));
        say(spread, error(standing.error, standing.score));
        fill(interval, standing.score === null ? null : bar(standing, scale, palette.colour(generator)));
        say(told, count(standing.samples));
        say(pending, standing.pending ? ` +${count(standing.pending)}` : "");
        pending.title = standing.pending ? "Samples of open picks" : "";
        say(spent, cost(standing.cost));
        say(each, standing.cost === undefined ? "" : ` at ${cost(standing.cost_per_sample)}`);
        each.title = standing.cost === undefined ? "" : "Cost per sample";
        say(ratio, share(standing.pick_ratio));
        say(pause, state === "active" ? "Pause" : "Resume");
        pause.setAttribute("aria-label", `${pause.textContent} ${generator}`);
      },
    };
  }

  async set(generator, state) {
    say(this.problem, "");
    try {
      await change("PATCH", generatorPath(this.name, generator), { state });
    } catch (error) {
      say(this.problem, error.message);
    }
    this.refresh();
  }
}

// Maps a score to its position on the common axis of the intervals, in percent. The axis fits the better half.
function axis(standings) {
  const known = standings.filter((standing) => standing.score !== null);
  if (!known.length) return () => 0;
  const near = known.slice(0, Math.max(4, Math.ceil(known.length / 2)));
  const ends = near.flatMap(({ score, lower, upper }) => [score, lower ?? score, upper ?? score]);
  const least = Math.min(...ends, ...known.map((standing) => standing.score));
  const most = Math.max(...ends, ...known.map((standing) => standing.score));
  return (number) => (most > least ? Math.min(100, Math.max(0, (100 * (number - least)) / (most - least))) : 50);
}

function bar({ score: middle, lower, upper }, scale, color) {
  const from = lower === null ? 0 : scale(lower);
  const to = upper === null ? 100 : scale(upper);
  const range = h("span", { class: "range" });
  range.style.cssText = `left:${from}%;width:${Math.max(0.5, to - from)}%;background:${color}`;
  const point = h("span", { class: "point" });
  point.style.cssText = `left:${scale(middle)}%;background:${color}`;
  const label = `From ${lower === null ? "unbounded" : score(lower)} to ${upper === null ? "unbounded" : score(upper)}`;
  return h("span", { class: "interval", role: "img", "aria-label": label, title: label }, range, point);
}
