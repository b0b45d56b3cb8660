// The page of one experiment: the answer, the standings, the charts and the controls.
import { actions } from "./actions.js";
import { experimentPath, forget, get } from "./api.js";
import { batches } from "./batches.js";
import { Sampling } from "./charts.js";
import { DRAWN, Palette } from "./colours.js";
import { Estimates } from "./estimates.js";
import { ProgressCurve } from "./progress-curve.js";
import { fill, h, say } from "./dom.js";
import { expected, Rate } from "./expected.js";
import { about, cost, count, share } from "./format.js";
import { Gallery } from "./gallery.js";
import { labels } from "./labels.js";
import { Metrics, metricsOf } from "./metrics.js";
import { heaviest, Mixture } from "./mixture.js";
import { modes } from "./modes.js";
import { badges, stateName } from "./overview-row.js";
import { openPicks } from "./picks.js";
import { folded } from "./plot.js";
import { poll } from "./poll.js";
import { busiest, Routes } from "./routes.js";
import { ranked } from "./ranking.js";
import { ratingLink } from "./rating.js";
import { Ranks } from "./ranks.js";
import { session } from "./session.js";
import { share as sharing } from "./share.js";
import { Standings, why } from "./standings.js";
import { start } from "./start.js";
import { MEANINGS, term } from "./term.js";
import { onTheme } from "./theme.js";
import { warningLine } from "./warnings.js";

export function showExperiment(main, name, connection, failed) {
  const progressCurve = new ProgressCurve();
  const rate = new Rate();
  let early = Promise.all([get(experimentPath(name), "experiment"), session()]); // beside the first report
  early.catch(() => {}); // the report is refused, too, and says why
  let parts = null;
  let shown = null;
  let asked = 0;
  let hadRate = false;
  const unwatch = onTheme(() => shown && parts?.draw(shown, progressCurve, rate.perSecond));
  const polling = poll(
    async () => {
      let report = await ask();
      if (!progressCurve.take(report.progress, asked)) {
        forget("report");
        report = await ask();
        progressCurve.take(report.progress, 0);
      }
      const changed = parts === null || report.progress.instance !== shown.progress.instance;
      if (changed) {
        const asked = early ?? Promise.all([get(experimentPath(name), "experiment"), session()]);
        early = null;
        const [experiment, caller] = await asked;
        parts?.stop();
        parts = page(main, experiment, report, caller, () => polling.now());
      }
      rate.take(report.samples);
      const hasRate = rate.perSecond !== null; // it goes when no samples come, and the report stays the same
      if (changed || report !== shown || hasRate !== hadRate) parts.draw(report, progressCurve, rate.perSecond);
      shown = report;
      hadRate = hasRate;
    },
    connection,
    failed,
  );
  function ask() {
    asked = progressCurve.told;
    return get(`${experimentPath(name)}/report?after=${asked}`, "report");
  }

  return {
    now: polling.now,
    stop() {
      forget("report");
      unwatch();
      polling.stop();
      parts?.stop();
    },
  };
}

function page(main, experiment, report, session, refresh) {
  const { config } = experiment;
  const sentence = h("p", { class: "answer", "aria-live": "polite" });
  const reason = h("p", { class: "why" });
  const judge = h("p", { class: "quiet" });
  const hint = h("p", { class: "quiet" });
  const warnings = warningLine();
  const tagged = labels(config.name, refresh);
  const state = h("span", {});
  const facts = new Facts();
  const stage = h("span", {}); // explains the state
  const { view } = report;
  const hero = h("section", { class: "card hero", "aria-label": "Answer" },
    h("div", { class: "said" }, sentence, h("div", {}, reason, view === "standings" && term("evidence")), judge, hint, warnings.element), facts.element);
  const palette = new Palette();
  const standings = new Standings(config.name, palette, refresh);
  const metrics = new Metrics(palette);
  const routes = view === "routes" ? new Routes(config.name, palette) : null;
  const estimates = new Estimates(palette);
  const ranks = new Ranks(palette);
  const sampling = new Sampling(palette, view === "standings");
  const picks = openPicks();
  const manage = actions(config, refresh);
  const anomalous = batches(config, refresh);
  const offering = (what) => metricsOf(report).filter(({ offers }) => offers.includes(what));
  const shows = offering("modes").length && session.previews ? modes(config.name, offering("modes")) : null;
  const mixtures = offering("mixtures").length ? new Mixture(config.name, palette, offering("mixtures"), view === "mixture") : null;
  const gallery = config.previews && session.previews ? new Gallery(config, palette) : null;
  const drawings = [sampling, mixtures?.charts, routes?.charts].filter(Boolean);
  let several, how;
  const rates = config.metric.proxy && session.role !== "viewer";
  const begun = report.samples ? null : start(experiment, report, session.key);
  fill(
    main,
    h("div", { class: "title" }, [
      h("nav", { "aria-label": "Breadcrumb" }, h("a", { href: "#/" }, "← Experiments")),
      h("h1", {}, config.name), h("span", {}, state, stage), tagged.element, h("span", { class: "buttons" }, rates && h("a", { class: "button", href: ratingLink(config.name) }, "Rate samples"), sharing(config), manage.toggle),
    ]),
    ...manage.said,
    hero,
    begun,
    anomalous.note,
    anomalous.section,
    view === "mixture" && mixtures?.section,
    routes?.section,
    standings.section,
    h("div", { class: "charts" }, ranks.chart.card),
    gallery?.section,
    (several = h("div", { class: "charts several" }, metrics.section, metrics.figure, estimates.chart.card, manage.section)),
    (how = folded("how", "How it was sampled", h("p", { class: "quiet" }, report.how), drawings.map(({ element }) => element), anomalous.record)),
    h("div", { class: "cards" }, picks.section, view !== "mixture" && mixtures?.section, shows?.section),
  );
  return {
    draw(report, progressCurve, perSecond) {
      say(sentence, report.answer);
      say(reason, why(report));
      say(judge, (report.judge ?? []).map((text) => `${capitalised(text)}.`).join(" "));
      say(hint, report.hint ?? "");
      hero.classList.toggle("provisional", Boolean(report.decision.unless));
      const { anomalies = [], warnings: doubts = [] } = report.decision;
      const doubted = [...anomalies.map(({ text }) => text), ...doubts];
      warnings.draw(doubted.map((text) => capitalised(text.endsWith("?") ? text : `${text}.`)));
      tagged.draw(report);
      fill(state, badges(report, report.standings.some((standing) => standing.incomplete)));
      const said = stateName(report);
      if (stage.dataset.of !== said) fill(stage, said in MEANINGS && term(said));
      stage.dataset.of = said;
      facts.draw(known(report, config, perSecond));
      if (begun) begun.hidden = report.samples > 0;
      estimates.chart.card.hidden = how.hidden = report.samples === 0;
      const watched = Object.keys(report.watched ?? {}).length;
      palette.give(coloured(report));
      standings.draw(report);
      ranks.draw(report);
      metrics.draw(report);
      several.classList.toggle("alone", metrics.figure.hidden && report.samples > 0);
      several.classList.toggle("stacked", watched > BESIDE || (watched === 0 && !metrics.figure.hidden));
      anomalous.draw(report);
      estimates.draw(report, progressCurve);
      sampling.draw(report, progressCurve);
      mixtures?.draw(report, progressCurve);
      routes?.draw(report, progressCurve);
      picks.draw(report.progress.picks, report.open_picks, report.ended);
      manage.draw(report);
      shows?.draw(report);
      gallery?.draw(report);
    },
    stop() {
      for (const part of [ranks, metrics, estimates, sampling, mixtures, routes, gallery]) part?.stop();
    },
  };
}

const BESIDE = 2; // metrics besides the one that decides, of which the table has room beside a chart

// The generators that have a colour: the best, or those with the largest parts of the mixture or of the prompts. They come
// in the order of the experiment, so that with few generators the colours never change.
function coloured(report) {
  if (report.view === "mixture" && report.mixture) return heaviest(report.mixture, DRAWN);
  if (report.routes) return busiest(report.routes, DRAWN);
  const best = ranked(report).slice(0, DRAWN).sort((a, b) => a.place - b.place);
  return best.map((standing) => standing.generator);
}

function known(report, config, perSecond) {
  const isRouter = report.view === "routes";
  const facts = [
    ["Samples", ...spent(report.samples, report.budget, count, "Budget spent")],
    [isRouter ? "Prompts" : "Batches", count(report.rounds)],
    ["Metric", `${report.title}, ${report.lower_is_better ? "lower" : "higher"} is better`],
    ["Policy", `${config.policy}, ${isRouter ? tries(config) : `batches of ${config.batch_size}`}`, null, "top-two, ucb, ogd, optimistic"],
  ];
  if (report.waits_for !== undefined) facts.push(["Asks wait for", report.waits_for.replace("-", " ")]);
  const ratio = report.optimal_pick_ratio;
  if (report.view === "standings" && ratio !== null) facts.push(["Batches of the leader", share(ratio), null, "leader"]);
  if (report.cost !== undefined) {
    facts.splice(1, 0, ["Cost", ...spent(report.cost, report.max_cost ?? null, cost, "Budget of cost spent")]);
  }
  if (report.decision_cost !== undefined && report.decision_cost !== report.cost) {
    facts.splice(2, 0, ["Cost at the decision", cost(report.decision_cost)]);
  }
  const still = expected(report, perSecond);
  if (still) {
    facts.unshift(["Until the answer is sure", still.samples, still.notes && h("div", { class: "quiet" }, capitalised(still.notes))]);
  }
  const even = [
    report.uniform_samples !== null && `${about(report.uniform_samples)} samples`,
    report.uniform_cost !== undefined && `a cost of ${about(report.uniform_cost)}`,
  ].filter(Boolean);
  if (even.length) facts.push(["An even split would have taken", `about ${even.join(", ")}`]);
  return facts;
}

// Facts [name, value, what stands below it, the word to explain]. Names stay the same elements, so that they keep the focus.
class Facts {
  constructor() {
    this.element = h("dl", { class: "facts" });
    this.known = new Map();
  }

  draw(facts) {
    const elements = facts.map(([name, value, more, word]) => {
      if (!this.known.has(name)) this.known.set(name, h("div", {}, h("dt", {}, name, word && term(word)), h("dd", {})));
      fill(this.known.get(name).lastChild, value, more);
      return this.known.get(name);
    });
    const { children } = this.element;
    if (elements.length !== children.length || elements.some((one, i) => one !== children[i])) this.element.replaceChildren(...elements);
  }
}

// The amount spent, with a progress bar if there is a limit.
function spent(number, limit, say, label) {
  if (limit === null) return [say(number)];
  const bar = h("progress", { max: limit, value: Math.min(limit, number), "aria-label": label });
  return [`${say(number)} of ${say(limit)}`, bar];
}

const tries = ({ tries: most }) => (most > 1 ? `at most ${count(most)} tries of a prompt` : "one try of a prompt");

const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);
