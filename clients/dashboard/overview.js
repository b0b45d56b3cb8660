// The page with the list of experiments.
import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { cost, count, date, error, metricTitle, recipe, score } from "./format.js";
import { poll } from "./poll.js";

const PAGE = 50;
const EXAMPLE = `from optimist_client import Optimist

optimist = Optimist("${location.origin}")
experiment = optimist.create_experiment(
    "my-checkpoints", ["step-10k", "step-20k"], reference=real_features
)
for pick in experiment.picks():
    pick.tell(embed(generate(pick.generator, pick.size, pick.seed)))`;

export function showOverview(main, connection, failed) {
  let limit = PAGE;
  let shown = null;
  const list = h("div", {});
  fill(main, h("h1", {}, "Experiments"), list);
  const polling = poll(
    async () => {
      const overview = await get(`v1/overview?limit=${limit}`, "overview");
      if (overview !== shown) draw(overview);
      shown = overview;
    },
    connection,
    failed,
  );

  function draw(overview) {
    if (overview.total === 0) {
      fill(list, nothing());
      return;
    }
    const focused = document.activeElement?.getAttribute?.("href");
    const more = overview.total > overview.experiments.length && limit < 200;
    fill(
      list,
      h("ul", { class: "experiments" }, overview.experiments.map(line)),
      more && h("button", { onclick: () => ((limit = Math.min(200, limit + PAGE)), polling.now()) }, "Show more"),
      h("p", { class: "quiet" }, `${overview.experiments.length} of ${count(overview.total)} experiments`),
    );
    if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }

  return polling;
}

function line(experiment) {
  const { decision, decision_cost: decided } = experiment;
  const sure = decision.confidence_text ? `, ${decision.confidence_text} sure` : "";
  const blend = recipe(Object.entries(decision.weights ?? {})).join(" + ");
  const isBlend = experiment.goal === "mixture";
  const [asked, answer] = isBlend ? ["Best blend", blend || null] : experiment.goal === "route" ? ["Best alone", decision.best]
    : ["Leader", decision.best === null ? null : `${decision.best}${sure}`];
  const spread = error(experiment.error, experiment.score);
  const found = experiment.score === null ? "–" : `${score(experiment.score)} ${spread}`;
  const of = experiment.budget === null ? "" : ` of ${count(experiment.budget)}`;
  const spent = experiment.cost === undefined ? null : [
    cost(experiment.cost),
    decided !== undefined && decided !== experiment.cost && ` (${cost(decided)} at the decision)`,
  ];
  return h("li", { class: "card line" }, [
    h("div", { class: "line-head" }, [
      h("a", { href: `#/e/${encodeURIComponent(experiment.name)}` }, experiment.name),
      badges(experiment.state, experiment.damaged),
    ]),
    h("dl", { class: spent && "priced" }, [
      fact("Metric", metricTitle(experiment)),
      fact(asked, answer ?? "None yet", answer === null && "quiet"),
      isBlend ? fact("Best alone", `${decision.best ?? ""} ${found}`) : fact("Score", found),
      fact("Samples", `${count(experiment.samples)}${of}`),
      spent && fact("Cost", spent),
      fact("Generators", count(experiment.generators)),
      fact("Created", date(experiment.created)),
    ]),
  ]);
}

const fact = (name, value, kind) => h("div", {}, h("dt", {}, name), h("dd", { class: kind }, value));

// The state as a badge, with a second badge if a generator is damaged.
export function badges(state, damaged) {
  return h("span", { class: "badges" }, [
    h("span", { class: `badge ${state.replaceAll(" ", "-")}` }, state),
    damaged && h("span", { class: "badge damaged" }, "damaged"),
  ]);
}

function nothing() {
  return h("div", { class: "empty card" }, [
    h("h2", {}, "No experiments yet"),
    h("p", {}, "An experiment compares generators by one metric. Create the first one in Python:"),
    h("pre", { tabindex: "0" }, h("code", {}, EXAMPLE)),
  ]);
}
