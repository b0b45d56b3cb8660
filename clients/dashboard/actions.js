// Controls of an experiment: stop, resume and reopen, beside its name; its budgets and generators.
import { change, experimentPath } from "./api.js";
import { confirm, h, say } from "./dom.js";
import { cost, count } from "./format.js";

export function actions(config, refresh) {
  const path = experimentPath(config.name);
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  let report = null;

  // Send a change, then show either what was done or why it was refused.
  async function run(done, method, where, body) {
    say(note, "");
    say(problem, "");
    try {
      await change(method, where, body);
      say(note, done);
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  }

  const toggle = h("button", {
    class: "admin",
    async onclick() {
      if (report.state === "decided") {
        await run("Reopened: it continues without deciding again.", "PATCH", path, { state: "running" });
      } else if (report.state === "stopped") {
        await run("Resumed.", "PATCH", path, { state: "running" });
      } else {
        const text = "No new picks are opened until it is resumed. Batches for open picks still count.";
        if (await confirm("Stop this experiment?", text, "Stop")) {
          await run("Stopped.", "PATCH", path, { state: "stopped" });
        }
      }
    },
  });
  const budget = h("input", {
    id: "budget", type: "number", min: "1", step: "1", inputmode: "numeric", required: true,
  });
  const limit = h("input", {
    id: "max-cost", type: "number", min: "0", step: "any", inputmode: "decimal", required: true,
  });
  const generator = h("input", {
    id: "generator", type: "text", maxlength: "100", required: true, autocomplete: "off",
  });
  const price = h("input", { class: "price", type: "number", min: "0", step: "any", inputmode: "decimal",
    placeholder: "cost", "aria-label": "Cost of a sample" });
  const form = (label, input, button, submit, ...more) =>
    h("form", { onsubmit: (event) => (event.preventDefault(), submit()) }, [
      h("label", { for: input.id }, label),
      h("div", { class: "field" }, input, ...more, h("button", {}, button)),
    ]);
  const limiting = form("Budget, in cost", limit, "Set cost", () =>
    run(`The budget is now ${cost(Number(limit.value))} in cost.`, "PATCH", path, { max_cost: Number(limit.value) }));
  const spending = h("p", { class: "quiet" });
  const counting = form("Budget, in samples", budget, "Set budget", () => {
    const wanted = Number(budget.value);
    return run(`The budget is now ${count(wanted)} samples.`, "PATCH", path, { budget: wanted });
  });
  const adding = form("Another generator", generator, "Add", async () => {
    const wanted = { name: generator.value, ...(price.value !== "" && { cost: Number(price.value) }) };
    await run(`${generator.value} was added.`, "POST", `${path}/generators`, wanted);
    if (problem.textContent === "") generator.value = price.value = "";
  }, price);
  const section = h("section", { class: "card manage admin", "aria-labelledby": "manage" }, [
    h("h2", { id: "manage" }, "Manage"),
    counting,
    limiting,
    spending,
    adding,
  ]);
  return {
    section,
    toggle,
    said: [note, problem],
    draw(now) {
      report = now;
      say(toggle, { decided: "Reopen", stopped: "Resume" }[now.state] ?? "Stop");
      toggle.hidden = now.state === "out of budget";
      const spent = [
        now.budget !== null && `${count(now.samples)} of ${count(now.budget)} samples`,
        now.max_cost !== undefined && `${cost(now.cost)} of ${cost(now.max_cost)} in cost`,
      ].filter(Boolean);
      const end = now.view === "routes" || config.stop === false ? "stopped" : "decided";
      const unlimited = `No budget is set: the experiment runs until it is ${end}.`;
      // Only what does something now is offered: what was decided or stopped has to go on before it can be changed.
      const isOver = now.state === "decided" || now.state === "stopped";
      counting.hidden = isOver;
      adding.hidden = now.ended;
      const again = now.state === "decided" ? "Reopen" : "Resume";
      const over = `${again} it to change its generators and budgets.`;
      say(spending, isOver ? over : spent.length ? `${spent.join(" and ")} are spent.` : unlimited);
      limiting.hidden = isOver || now.cost === undefined;
      price.hidden = now.cost === undefined;
      price.required = now.max_cost !== undefined;
    },
  };
}
