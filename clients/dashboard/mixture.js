// The best mixture of the generators: what it gains, the weights, and what each generator contributes.
import { experimentPath, get } from "./api.js";
import { Choice } from "./choice.js";
import { fill, h, say } from "./dom.js";
import { precise, samples, score, share } from "./format.js";
import { axis, bar, values } from "./intervals.js";
import { MixtureCharts } from "./mixture-charts.js";
import { filled, labelled } from "./shares.js";

// The section for experiments with metrics that offer mixtures (`offering`, see `metricsOf`). isGoal: whether the
// mixture is what the experiment asks for, so that it is made again and again; elsewhere a button asks for it.
export class Mixture {
  constructor(name, palette, offering, isGoal) {
    this.name = name;
    this.palette = palette;
    this.isGoal = isGoal;
    this.made = new Map(); // label of the metric → the mixture that was asked for
    this.metric = new Choice("mixture-by", "Metric", () => this.latest && this.draw(...this.latest));
    this.metric.offer(offering.map(({ label, title }) => [label, title]));
    this.button = h("button", { class: isGoal ? "small" : null, title: "Which shares of the generators together score best?" }, "Best mixture");
    const asks = !isGoal || offering.length > 1;
    this.status = h("p", { class: "quiet", role: "status" });
    this.claim = h("p", { class: "claim" });
    this.scored = h("p", { class: "quiet" });
    this.gap = h("p", { class: "quiet" });
    this.warnings = h("ul", { class: "warnings" });
    this.gainAxis = h("span", { class: "axis", "aria-hidden": "true" });
    this.gain = h("span", {});
    this.gained = h("div", { class: "gain" }, h("p", { class: "quiet" }), this.gainAxis, this.gain);
    this.body = h("tbody", {});
    const columns = [["Generator"], ["Weight in the mixture", "number"], ["Share of samples drawn", "number"],
      ["Best mixture without it", "number"]];
    this.table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Weights table" }, [
      h("table", { class: "weights" }, [
        h("thead", {}, h("tr", {}, columns.map(([head, kind]) => h("th", { scope: "col", class: kind }, head)))),
        this.body,
      ]),
    ]);
    this.charts = isGoal ? new MixtureCharts(palette) : null;
    this.section = h("section", { class: "card mixture", "aria-labelledby": "mixture" }, [
      h("h2", { id: "mixture" }, "Mixture"),
      asks && h("form", { class: "field wrapping asked-for", onsubmit: (event) => (event.preventDefault(), this.ask()) }, [
        offering.length > 1 && this.metric.element, this.button,
      ]),
      this.status,
      (this.found = h("div", { class: "found", hidden: true }, [
        this.claim, this.gap, this.scored, this.warnings, this.gained, this.table,
      ])),
    ]);
  }

  stop() {
    this.charts?.stop();
  }

  async ask() {
    const label = this.metric.value;
    this.button.disabled = true;
    say(this.status, "Waiting for a scorer …");
    try {
      const made = await get(`${experimentPath(this.name)}/mixture${label && `?metric=${encodeURIComponent(label)}`}`, "mixture");
      this.made.set(label, made);
      say(this.status, made.stale ? "Newer samples are not included yet." : "");
    } catch (error) {
      say(this.status, error.message || "The service does not respond.");
    } finally {
      this.button.disabled = false;
    }
    if (this.latest) this.draw(...this.latest);
  }

  draw(report, progressCurve) {
    this.latest = [report, progressCurve];
    this.charts?.draw(progressCurve.mixture, report.title);
    const mixture = newest(this.made.get(this.metric.value), this.metric.value ? null : report.mixture);
    this.found.hidden = !mixture;
    if (!mixture) {
      if (this.isGoal) say(this.status, "The first mixture is made once every generator has a few samples.");
      return;
    }
    if (this.isGoal && this.status.textContent.startsWith("The first")) say(this.status, "");
    say(this.claim, mixture.gain_text);
    say(this.gap, mixture.gap_text);
    const scored = (number) => precise(number, mixture.standard_error);
    say(this.scored, `${mixture.title}: mixture ${scored(mixture.score)} (${scored(mixture.lower)} to ${scored(mixture.upper)}), ` +
      `${mixture.best} alone ${scored(mixture.best_score)}. Made from ${samples(mixture.samples)}.`);
    fill(this.warnings, mixture.warnings.map((warning) => h("li", {}, warning)));
    this.drawGain(mixture);
    const drawn = new Map(report.standings.map((standing) => [standing.generator, standing.samples]));
    const total = [...drawn.values()].reduce((sum, one) => sum + one, 0);
    const widest = Math.max(...mixture.weights.map(({ weight }) => weight));
    fill(this.body, inOrder(mixture.weights).map((one) => this.row(one, mixture, drawn.get(one.generator) ?? 0, total, widest)));
  }

  // The gain with the interval of the stopping rule, on an axis on which the best single generator is at 0.
  drawGain({ gain, gain_lower: from, gain_upper: to, scale, best }) {
    const [middle, lower, upper] = [gain, from, to].map((end) => shown(end, scale));
    const unit = unitOf(scale);
    const drawn = axis([{ middle, lower, upper }, { middle: 0, lower: 0, upper: 0 }], unit);
    say(this.gained.firstChild, `Gain over ${best} alone, with the interval of the stopping rule`);
    fill(this.gainAxis, values(drawn));
    const label = `Gain ${score(middle)}${unit}, from ${score(lower)}${unit} to ${score(upper)}${unit}`;
    fill(this.gain, bar({ middle, lower, upper }, drawn, "var(--accent)", label, true));
  }

  row({ generator, weight, samples: used, contribution }, { scale }, told, total, widest) {
    const color = this.palette.colour(generator);
    const worse = contribution > 0 ? `${digits(shown(contribution, scale))}${unitOf(scale)} worse` : "not worse";
    return h("tr", {}, [
      h("th", { scope: "row" }, h("div", { class: "weighed" }, [
        labelled(generator, color),
        filled(weight / widest, color),
      ])),
      h("td", { class: "number", title: `${(100 * weight).toFixed(4)} %, from ${samples(used)}` }, h("strong", {}, share(weight))),
      h("td", { class: "number", title: samples(told) }, total ? share(told / total) : "–"),
      h("td", { class: "number", title: `${contribution.toPrecision(6)} on the scale of comparisons` }, worse),
    ]);
  }
}

// Largest weight first; equal ones stay in the order of the experiment.
const inOrder = (weights) => [...weights].sort((a, b) => b.weight - a.weight);

// The generators with the largest weights, in the order of the experiment.
export const heaviest = ({ weights }, most) => {
  const chosen = new Set(inOrder(weights).slice(0, most));
  return weights.filter((one) => chosen.has(one)).map(({ generator }) => generator);
};

const newest = (asked, reported) => (reported && !(asked?.samples > reported.samples) ? reported : asked);

const shown = (number, scale) => (scale === "log" ? 100 * Math.expm1(number) : number);

const digits = (number) => (number < 1000 ? Number(number.toPrecision(3)).toString() : score(number));

const unitOf = (scale) => (scale === "log" ? "%" : "");
