// Which generator is the best one for which prompts: what routing gains and saves, by type of prompt and over time.
import { experimentPath, get } from "./api.js";
import { fill, h, say } from "./dom.js";
import { downloads } from "./download.js";
import { cost, precise, samples, score, share, withSpread } from "./format.js";
import { axis, bar, values } from "./intervals.js";
import { RouteCharts } from "./route-charts.js";
import { filled, labelled } from "./shares.js";
import { named } from "./words.js";

// The section of experiments with the goal "route". The service makes the table again as samples come; the button asks
// for a newer one.
export class Routes {
  constructor(name, palette) {
    this.name = name;
    this.palette = palette;
    this.asked = null; // the table that the button brought
    this.shown = ""; // as JSON
    this.button = h("button", { class: "small", onclick: () => this.ask() }, "Update the table");
    this.status = h("p", { class: "quiet", role: "status" });
    this.savings = h("p", { class: "savings" });
    this.pace = h("p", { class: "savings" });
    this.warnings = h("ul", { class: "warnings" });
    this.gainTitle = h("p", { class: "quiet" });
    this.gainAxis = h("span", { class: "axis", "aria-hidden": "true" });
    this.gain = h("span", {});
    this.gained = h("div", { class: "gain" }, this.gainTitle, this.gainAxis, this.gain);
    this.types = table("types", "Types of prompts");
    this.shares = table("shares weights", "Shares of the prompts");
    this.charts = new RouteCharts();
    this.section = h("section", { class: "card mixture", "aria-labelledby": "routes" }, [
      h("div", { class: "headed" }, h("h2", { id: "routes" }, "Routing"),
        (this.saves = downloads("routes", "the table of routes", { rows: () => asRows(this.table) }))),
      h("div", { class: "field wrapping asks" }, this.button,
        h("span", { class: "quiet" }, "Which generator is the best one for which prompts?")),
      this.status,
      (this.found = h("div", { class: "found", hidden: true }, [
        this.savings, this.pace, this.warnings, this.gained,
        h("h3", {}, "By type of prompt"), this.types.region,
        h("h3", {}, "Who gets the prompts"), this.shares.region,
      ])),
    ]);
  }

  stop() {
    this.charts.stop();
  }

  async ask() {
    this.button.disabled = true;
    say(this.status, "Waiting for a scorer …");
    try {
      this.asked = await get(`${experimentPath(this.name)}/routes`, "routes");
      say(this.status, this.asked.stale ? "Newer samples are not included yet." : "");
    } catch (error) {
      say(this.status, error.message || "The service does not respond.");
    } finally {
      this.button.disabled = false;
    }
    if (this.latest) this.draw(...this.latest);
  }

  draw(report, progressCurve) {
    this.latest = [report, progressCurve];
    this.charts.draw(progressCurve.routes, report.title);
    const routes = newest(this.asked, report.routes);
    this.found.hidden = this.saves.hidden = !routes;
    if (!routes) {
      const soon = "The first table is made once generators have a few samples.";
      if (!this.status.textContent) say(this.status, soon);
      return;
    }
    if (this.status.textContent.startsWith("The first")) say(this.status, "");
    // Drawing it again would close the examples that are open, and take the focus.
    const now = JSON.stringify([routes, routes.shares.map(({ generator }) => this.palette.colour(generator))]);
    if (now === this.shown) return;
    this.shown = now;
    this.table = routes;
    say(this.savings, routes.savings_text);
    say(this.pace, routes.pace_text);
    fill(this.warnings, routes.warnings.map((warning) => h("li", {}, warning)));
    this.drawGain(routes);
    this.drawTypes(routes);
    this.drawShares(routes, report);
  }

  // The gain with its interval, on an axis on which the best single generator is at 0.
  drawGain({ gain, lower = null, upper = null, best }) {
    this.gained.hidden = gain === null || lower === null || upper === null;
    if (this.gained.hidden) return;
    const drawn = axis([{ middle: gain, lower, upper }, { middle: 0, lower: 0, upper: 0 }]);
    say(this.gainTitle, `Gain over ${best} alone. The interval allows for not knowing which generator is the best one alone.`);
    fill(this.gainAxis, values(drawn));
    const label = `Gain ${score(gain)}, from ${score(lower)} to ${score(upper)}`;
    fill(this.gain, bar({ middle: gain, lower, upper }, drawn, "var(--accent)", label, true));
  }

  drawTypes({ types, shares, title, lower_is_better: isLower, interval_errors: z }) {
    const open = new Set([...this.types.body.querySelectorAll("details[open]")].map((one) => one.dataset.of));
    const names = shares.map(({ generator }) => generator);
    const found = types.flatMap(({ scores }) => scores).filter((one) => one.score !== null).map((one) => interval(one, z));
    const drawn = axis(found.sort((a, b) => (isLower ? 1 : -1) * (a.middle - b.middle)));
    const head = (kind, ...text) => h("th", { scope: "col", role: "columnheader", class: kind }, ...text);
    fill(this.types.head, head("", "Prompts such as"), head("number", "Share"), head("winner", "Best for them"),
      ...names.map((name) => head("scored", h("span", { class: "called", title: name }, name),
        h("span", { class: "axis", "aria-hidden": "true" }, values(drawn)))),
      head("number", "Gain of routing"));
    const called = named(types.map(({ examples }) => examples));
    fill(this.types.body, types.map((type, i) => this.type({ ...type, called: called[i] }, i, names, title, drawn, open, z)));
  }

  type({ share: part, examples, winner, lead, lead_standard_error: spread, gain, gain_standard_error: error, scores, called },
    i, names, title, drawn, open, z) {
    const of = new Map(scores.map((one) => [one.generator, one]));
    return h("tr", { role: "row" }, [
      h("th", { scope: "row", role: "rowheader" }, called && h("strong", {}, called), prompts(examples, i, open)),
      cell("number", "Share", share(part)),
      cell("winner", "Best for them", h("div", {}, labelled(winner, this.palette.colour(winner)),
        h("div", { class: "quiet lead" }, lead === null ? "lead not known yet" : `by ${withRange(lead, spread, z)}`))),
      ...names.map((name) => this.scored(of.get(name), name, name === winner, title, drawn, z)),
      cell("number", "Gain of routing", gain === null ? "–" : withRange(gain, error, z)),
    ]);
  }

  scored(one, name, isBest, title, drawn, z) {
    const color = this.palette.colour(name);
    if (!one || one.score === null) return cell("scored", name, "–");
    const { lower, upper } = interval(one, z);
    const said = one.standard_error ? withSpread({ score: one.score, lower, upper }).join(" ") : score(one.score);
    const label = `${title} of ${name}: ${said}${one.standard_error === null ? "" : `, from ${score(lower)} to ${score(upper)}`}`;
    return cell("scored", name, h("div", {}, [
      h(isBest ? "strong" : "span", { class: "spread" }, said), " ",
      h("span", { class: "quiet traffic", title: `${name} was given ${share(one.traffic)} of these prompts` },
        `gets ${share(one.traffic)}`),
      bar(interval(one, z), drawn, color, label),
    ]));
  }

  drawShares({ shares, savings }, report) {
    const priced = savings && new Map(report.standings.map((one) => [one.generator, one.cost_per_sample]));
    const heads = [["Generator"], ["Would get now", "number"], ["Has had", "number"], priced && ["Cost of a prompt", "number"]];
    fill(this.shares.head, heads.filter(Boolean).map(([text, kind]) => h("th", { scope: "col", class: kind }, text)));
    const widest = Math.max(...shares.map(({ routed }) => routed), 1e-9);
    fill(this.shares.body, shares.map(({ generator, samples: told, traffic, routed }) => h("tr", {}, [
      h("th", { scope: "row" }, h("div", { class: "weighed" }, [
        labelled(generator, this.palette.colour(generator)), filled(routed / widest, this.palette.colour(generator)),
      ])),
      h("td", { class: "number", title: "By the newest model, without exploration" }, h("strong", {}, share(routed))),
      h("td", { class: "number", title: samples(told) }, share(traffic)),
      priced && h("td", { class: "number" }, cost(priced.get(generator))),
    ])));
  }
}

// The generators that get the most prompts, in the order of the experiment.
export function busiest({ shares }, most) {
  const chosen = new Set([...shares].sort((a, b) => b.routed - a.routed || b.traffic - a.traffic).slice(0, most));
  return shares.filter((one) => chosen.has(one)).map(({ generator }) => generator);
}

// A row for each type and generator, as in the SDK's data frame.
function asRows({ types }) {
  const head = ["type", "generator", "score", "standard_error", "traffic", "winner", "share", "gain", "gain_standard_error", "example"];
  return [head, ...types.flatMap((type, i) => type.scores.map((one) => [
    i + 1, one.generator, one.score, one.standard_error, one.traffic, type.winner, type.share, type.gain,
    type.gain_standard_error, type.examples[0],
  ]))];
}

// The most typical prompt in two lines, which open to all examples in full.
function prompts(examples, i, open) {
  if (!examples.length) {
    return h("span", { title: "Asks that bring the prompt's text are shown with it." }, `Type ${i + 1}`);
  }
  const [first] = examples;
  return h("details", { "data-of": first, open: open.has(first) }, [
    h("summary", { title: examples.join("\n\n") }, h("span", { class: "prompt" }, first)),
    h("ul", { class: "prompts" }, examples.map((text) => h("li", {}, text))),
  ]);
}

// A table whose rows become blocks on a phone. A browser forgets what such a table is unless roles say so.
function table(kind, label) {
  const head = h("tr", { role: "row" });
  const body = h("tbody", { role: "rowgroup" });
  const region = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label} table` },
    h("table", { class: kind, role: "table" }, h("thead", { role: "rowgroup" }, head), body));
  return { region, head, body };
}

// what: the heading, shown beside the value where there is no row of headings.
const cell = (kind, what, ...children) =>
  h("td", { class: kind, role: "cell" }, h("span", { class: "heading", "aria-hidden": "true" }, what), ...children);

// A score with its interval, half of which has z standard errors.
function interval({ score: middle, standard_error: error }, z) {
  return { middle, lower: middle - z * error, upper: middle + z * error };
}

// A difference with its interval, such as "0.120 (0.059 to 0.181)".
function withRange(number, error, z) {
  if (!(error > 0)) return score(number);
  const [middle, lower, upper] = [number, number - z * error, number + z * error].map((end) => precise(end, z * error));
  return `${middle} (${lower} to ${upper})`;
}

const newest = (asked, reported) => (reported && !(asked?.samples > reported.samples) ? reported : asked);
