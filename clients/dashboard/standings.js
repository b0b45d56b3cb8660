// The standings, best first: how much worse than the best each generator is, its score with its interval, samples,
// share of the samples, state and warnings.
import { change, generatorPath } from "./api.js";
import { worseCell, differences } from "./worse.js";
import { confirm, fill, h, say } from "./dom.js";
import { downloads } from "./download.js";
import { cost, count, score, share, withSpread } from "./format.js";
import { asInterval, axis, bar, fromTo, values } from "./intervals.js";
import { contenders, ranked } from "./ranking.js";
import { swatch } from "./shares.js";
import { asFigure, asRows } from "./standings-files.js";
import { term } from "./term.js";
import { warningLine } from "./warnings.js";

// Why it was or was not decided; "" before there is anything to compare.
export const why = ({ samples, standings, why: said }) => (samples && standings.length > 1 ? said : "");

// What each generator is called by all its limits.
function met(limits) {
  const words = new Map();
  for (const { generator, verdict } of limits) {
    const known = words.get(generator);
    if (verdict === "not met" || known === undefined || (verdict === "open" && known === "met")) words.set(generator, verdict);
  }
  const said = { met: "good enough", "not met": "not good enough", open: "open" };
  return new Map([...words].map(([generator, verdict]) => [generator, said[verdict]]));
}

const FIRST = 12; // generators shown before somebody asks for all
const COMMON = 3; // generators of which a warning is said once, below the table

// The easy prompts may have gone to one generator and the hard ones to another.
const ROUTED = "Each generator's mean is over the prompts that it was given, so these means cannot be compared; the table "
  + "of routes compares the generators on the same prompts.";

export class Standings {
  constructor(name, palette, refresh) {
    this.name = name;
    this.palette = palette;
    this.refresh = refresh;
    this.rows = new Map(); // reused in each draw, so that the focus is kept
    this.problem = h("p", { class: "problem", role: "alert" });
    this.note = h("p", { class: "quiet" });
    this.body = h("tbody", { role: "rowgroup" });
    this.showsAll = false;
    this.more = h("button", { class: "small more", onclick: () => ((this.showsAll = true), this.draw(this.latest)) });
    this.overlap = h("p", { class: "quiet overlap" });
    this.warnings = warningLine();
    this.axis = h("span", { class: "axis", "aria-hidden": "true" });
    this.worseAxis = h("span", { class: "axis wide", "aria-hidden": "true" });
    this.noise = term("below noise", true);
    this.bracket = term("bracket", true);
    this.metric = h("span", {}); // says so while scores are a judge's instead of people's
    const columns = [["Generator"], [h("div", { class: "pair" }, h("span", {}, "Worse than the best by", term("worse, as good")), this.worseAxis), "worse"],
      [this.metric, "number"], [["Interval", term("interval"), this.axis], "wide own"],
      ["Samples", "number"], ["Cost", "number cost"], ["Share of samples", "number wide"],
      [h("span", { class: "unseen" }, "Actions"), "row-actions admin"]];
    this.section = h("section", { class: "card", "aria-labelledby": "standings" }, [
      h("div", { class: "headed" }, [
        h("h2", { id: "standings" }, "Standings"),
        (this.saves = downloads("standings", "standings", { rows: () => asRows(this.latest), figure: () => asFigure(this.latest, palette) })),
      ]),
      this.note,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Standings table" }, [
        (this.table = h("table", { class: "standings", role: "table" }, [
          h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(([head, kind]) =>
            h("th", { scope: "col", role: "columnheader", class: kind }, head)))),
          this.body,
        ])),
      ]),
      this.more,
      h("p", { class: "words" }, this.noise, this.bracket, (this.narrow = h("span", { class: "phone" }, term("worse, as good", true), term("interval", true)))),
      this.overlap,
      this.warnings.element,
      this.problem,
    ]);
  }

  draw(report) {
    this.latest = report;
    this.saves.hidden = report.standings.every(({ score }) => score === null);
    const standings = ranked(report);
    const isRouter = report.view === "routes";
    const all = contenders(report);
    const shown = this.showsAll ? standings : standings.slice(0, FIRST);
    const near = new Set(shown.map(({ generator }) => generator).filter((name) => all.has(name)));
    const scored = shown.filter((standing) => standing.score !== null);
    const scale = axis(scored.map(asInterval), "", isRouter ? null : scored.filter((one) => near.has(one.generator)).map(asInterval));
    const worse = isRouter ? null : differences(report, shown, near);
    const { common, own } = sorted(standings);
    this.warnings.draw(common);
    const { best, rank: rankOfBest, verdicts, limits } = report.decision;
    const words = limits ? met(limits) : new Map((verdicts ?? []).map((one) => [one.generator, one.words]));
    say(this.note, isRouter ? ROUTED : "");
    say(this.metric, report.title);
    say(this.overlap, isRouter ? "" : report.overlap_text);
    say(this.more, `Show all ${count(standings.length)} generators`);
    this.narrow.hidden = isRouter;
    this.noise.hidden = !standings.some(({ below_noise: isBelow }) => isBelow);
    this.bracket.hidden = !standings.some(({ bracket }) => bracket);
    this.more.hidden = this.showsAll || standings.length <= FIRST;
    fill(this.axis, values(scale));
    fill(this.worseAxis, worse && values(worse.axis));
    this.table.classList.toggle("uncompared", !worse);
    // Where it has ended nothing can be paused, and the last active generator can be neither paused nor retired.
    const actives = standings.filter((one) => one.state === "active").length;
    this.table.classList.toggle("ended", report.ended);
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
      const called = !isRouter && standing.generator === best && rankOfBest;
      row.draw(standing, scale, called, actives > 1 || standing.state !== "active", isRouter ? "" : words.get(standing.generator) ?? "", worse, own.get(standing.generator));
      row.element.hidden = !this.showsAll && rank >= FIRST;
      // Moving an element removes its focus, so move only those at the wrong place.
      const there = this.body.children[rank] ?? null;
      if (there !== row.element) this.body.insertBefore(row.element, there);
    });
  }

  row({ generator }) {
    const { palette } = this;
    const square = swatch("");
    const marks = h("span", { class: "badges" });
    const warnings = warningLine();
    const apart = worseCell();
    const value = h("strong", {});
    const spread = h("span", { class: "quiet spread" });
    const bracket = h("span", { class: "quiet bracket", title: "The score lies between these on average" });
    const scored = cell("", "number", value, " ", spread, bracket);
    const interval = cell("Interval", "wide own");
    const told = h("span", {});
    const pending = h("span", { class: "quiet" });
    const spent = h("span", {});
    const each = h("span", { class: "quiet each" });
    const ratio = cell("Share of samples", "number wide");
    const badge = (called) => (called && called !== "leads" && this.latest.decision.unless ? "provisional" : called);
    const compared = (called) => (this.latest.decision.limits ? null : called); // with limits the best score may be another's
    const latest = () => this.latest; // `this` of `draw` below is the row
    const pause = h("button", { class: "small" });
    const retire = h("button", { class: "small", "aria-label": `Retire ${generator}` }, "Retire");
    let state = "active";
    pause.addEventListener("click", () => this.set(generator, state === "active" ? "paused" : "active"));
    retire.addEventListener("click", async () => {
      const text = `${generator} is removed from the experiment permanently. Its name cannot be used again.`;
      if (await confirm("Retire this generator?", text, "Retire")) this.set(generator, "retired");
    });
    const element = h("tr", { role: "row" }, [
      h("th", { scope: "row", role: "rowheader" }, [
        h("div", { class: "generator" }, [
          h("span", { class: "label" }, square, h("span", { class: "name" }, generator)),
          marks,
        ]),
        warnings.element,
      ]),
      apart,
      scored,
      interval,
      cell("Samples", "number", told, pending),
      cell("Cost", "number cost", spent, each),
      ratio,
      cell("", "row-actions admin", pause, retire),
    ]);
    return {
      element,
      draw(standing, scale, called, canChange, verdict, worse, doubts) {
        const color = palette.colour(generator);
        state = standing.state;
        element.classList.toggle("best", called === "best" || called === "cheapest");
        square.style.color = color;
        fill(marks, [
          called && h("span", { class: `badge ${badge(called)}` }, badge(called)),
          state !== "active" && h("span", { class: "badge" }, state),
          standing.incomplete && h("span", { class: "badge incomplete" }, "incomplete"),
        ]);
        warnings.draw(doubts);
        apart.draw(generator, compared(called), worse, color, verdict);
        const [middle, around] = withSpread(standing);
        say(value, standing.below_noise ? `${standing.score} (below noise)` : middle);
        say(spread, around);
        say(bracket, standing.bracket ? `bracket ${standing.bracket.map(score).join(" … ")}` : "");
        scored.dataset.head = latest().title;
        interval.dataset.head = standing.score === null ? "Interval" : `Interval, ${fromTo(standing)}`;
        fill(interval, standing.score === null ? null : bar(asInterval(standing), scale, color, `From ${fromTo(standing)}`));
        say(told, count(standing.samples));
        say(pending, standing.pending ? ` +${count(standing.pending)}` : "");
        pending.title = standing.pending ? "Samples of open picks" : "";
        say(spent, cost(standing.cost));
        say(each, standing.cost === undefined ? "" : ` at ${cost(standing.cost_per_sample)}`);
        each.title = standing.cost === undefined ? "" : "Cost per sample";
        say(ratio, share(standing.samples / Math.max(1, latest().samples)));
        pause.hidden = retire.hidden = !canChange;
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

// The warnings that many generators have, and those of each that are its own.
function sorted(standings) {
  const of = new Map();
  for (const { generator, warnings } of standings) {
    for (const text of warnings) of.set(text, [...(of.get(text) ?? []), generator]);
  }
  const isCommon = (text) => of.get(text).length >= COMMON;
  const named = (names) => (names.length === standings.length ? "all generators" : names.join(", "));
  return {
    common: [...of].filter(([text]) => isCommon(text)).map(([text, names]) => `${text} (${named(names)})`),
    own: new Map(standings.map(({ generator, warnings }) => [generator, warnings.filter((text) => !isCommon(text))])),
  };
}

// head: the heading, which stands above the value on a phone, where rows are blocks. A browser forgets what such a table
// is unless roles say so.
const cell = (head, kind, ...children) => h("td", { class: kind, role: "cell", "data-head": head }, ...children);
