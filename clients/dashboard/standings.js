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
    this.axis = h("span", { class: "axis", "aria-hidden": "true" });
    const columns = [["Generator"], [`${metric} ± error`, "number"], [["Interval", this.axis], "wide"],
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
    fill(this.axis, values(scale));
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

// The common axis of the intervals. It fits the intervals of the better half, and the scores that are not far from them.
// `at` maps a score to its position in percent, which lies outside of 0 to 100 beyond the axis.
function axis(standings) {
  const known = standings.filter((standing) => standing.score !== null);
  if (!known.length) return { at: () => 50, ticks: [] };
  const near = known.slice(0, Math.max(4, Math.ceil(known.length / 2)));
  const ends = near.flatMap(({ score, lower, upper }) => [score, lower ?? score, upper ?? score]);
  const span = Math.max(...ends) - Math.min(...ends);
  const close = ({ score }) => score >= Math.min(...ends) - span && score <= Math.max(...ends) + span;
  const shown = [...ends, ...known.filter(close).map((standing) => standing.score)];
  const margin = 0.05 * (Math.max(...shown) - Math.min(...shown));
  if (margin === 0) return { at: () => 50, ticks: [[50, score(shown[0])]] };
  const [least, most] = [Math.min(...shown) - margin, Math.max(...shown) + margin];
  const at = (number) => (100 * (number - least)) / (most - least);
  const step = round((most - least) / 3);
  const first = Math.ceil(least / step);
  const ticks = Array.from({ length: Math.floor(most / step) - first + 1 }, (_, i) => {
    const tick = (first + i) * step;
    return [at(tick), Number(tick.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 })];
  });
  return { at, ticks };
}

// The next smaller number of 1, 2, 5, 10, 20, …
function round(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return power * (number >= 5 * power ? 5 : number >= 2 * power ? 2 : 1);
}

function place(element, style) {
  element.style.cssText = style;
  return element;
}

// The values of the axis, each above its line.
function values({ ticks }) {
  const shift = (at) => (at < 3 ? 0 : at > 97 ? 100 : 50); // labels at the ends stay within the axis
  return ticks.map(([at, text]) =>
    place(h("span", { class: "value" }, text), `left:${at}%;transform:translateX(-${shift(at)}%)`));
}

// A score with its interval. An end that lies beyond the axis, or is unbounded, is an arrow.
function bar({ score: middle, lower, upper }, { at, ticks }, color) {
  const [from, to] = [lower === null ? -Infinity : at(lower), upper === null ? Infinity : at(upper)];
  const [left, right] = [from, to].map((end) => Math.min(100, Math.max(0, end)));
  const ends = [lower, upper].map((end) => (end === null ? "unbounded" : score(end)));
  const beyond = from < 0 || to > 100 ? "; the axis ends before" : "";
  const label = `From ${ends[0]} to ${ends[1]}${beyond}`;
  return h("span", { class: "interval", role: "img", "aria-label": label, title: label }, [
    ...ticks.map(([tick]) => place(h("span", { class: "tick" }), `left:${tick}%`)),
    to > 0 && from < 100 && place(
      h("span", { class: "range" }), `left:${left}%;width:${Math.max(0.5, right - left)}%;background:${color}`),
    from < 0 && place(h("span", { class: "arrow left" }), `border-right-color:${color}`),
    to > 100 && place(h("span", { class: "arrow right" }), `border-left-color:${color}`),
    at(middle) >= 0 && at(middle) <= 100 && place(
      h("span", { class: "point" }), `left:${at(middle)}%;background:${color}`),
  ]);
}
