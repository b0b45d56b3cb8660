// What stands on the page of an experiment before its first samples: the code of a worker, filled in.
import { h, say } from "./dom.js";

// experiment: as the service gives it; key: whether the service needs an access key.
export function start({ config, columns }, report, key) {
  const code = h("code", {}, worker(config, columns, key));
  const copied = h("span", { class: "quiet", role: "status" });
  const copy = h("button", { class: "small", onclick: async () => {
    await navigator.clipboard.writeText(code.textContent);
    say(copied, "Copied.");
  } }, "Copy");
  const rows = Object.entries(columns).map(([array, width]) => `${array} with ${width} ${width === 1 ? "column" : "columns"}`);
  return h("section", { class: "card", "aria-labelledby": "start" }, [
    h("h2", { id: "start" }, "Start a worker"),
    h("p", { class: "quiet" }, `Put in your model; any number of workers can run at once. ${report.title} reads ${rows.join(" and ")}, one row a sample.`),
    h("pre", { tabindex: "0" }, code),
    h("p", { class: "field" }, copy, copied),
  ]);
}

function worker({ name, context, prompts }, columns, key) {
  const open = `Optimist(${JSON.stringify(location.origin)}${key ? ', api_key="optimist_…"' : ""}).experiment(${JSON.stringify(name)})`;
  const [first, ...others] = Object.keys(columns);
  const arrays = [`${first}(samples)`, ...others.map((one) => `${one}=${one}(${one === "prompts" ? "pick.prompts" : "samples"})`)].join(", ");
  const made = `generate(pick.generator, ${prompts ? "pick.prompts" : "pick.size"}, pick.seed)`;
  return [
    "from optimist_client import Optimist",
    "",
    `experiment = ${open}`,
    ...(context ? [
      "for prompt in requests():",
      "    pick = experiment.ask(context=embed(prompt), prompt=prompt)",
      "    pick.tell(score(generate(pick.generator, prompt)))",
    ] : [
      "for pick in experiment.picks():",
      `    samples = ${made}`,
      `    pick.tell(${arrays})`,
    ]),
  ].join("\n");
}
