// What can be done to an experiment: stop, resume, reopen, a larger budget, another generator.
import { change, experimentPath } from "./api.js";
import { confirm, h, say } from "./dom.js";
import { count } from "./format.js";

export function actions(config, refresh) {
  const path = experimentPath(config.name);
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  let report = null;

  // What was done, or why it was refused.
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
    async onclick() {
      if (report.state === "decided") {
        await run("Reopened: it goes on without deciding again.", "PATCH", path, { state: "running" });
      } else if (report.state === "stopped") {
        await run("Picks are made again.", "PATCH", path, { state: "running" });
      } else {
        const text = "No more picks are made until somebody resumes it. Batches on their way still count.";
        if (await confirm("Stop this experiment?", text, "Stop")) {
          await run("Stopped.", "PATCH", path, { state: "stopped" });
        }
      }
    },
  });
  const budget = h("input", { id: "budget", type: "number", min: "1", step: "1", inputmode: "numeric", required: true });
  const generator = h("input", { id: "generator", type: "text", maxlength: "100", required: true, autocomplete: "off" });
  const form = (label, input, button, submit) =>
    h("form", { onsubmit: (event) => (event.preventDefault(), submit()) }, [
      h("label", { for: input.id }, label),
      h("div", { class: "field" }, input, h("button", {}, button)),
    ]);
  const spending = h("p", { class: "quiet" });
  const section = h("section", { class: "card manage", "aria-labelledby": "manage" }, [
    h("h2", { id: "manage" }, "Manage"),
    h("div", {}, toggle),
    form("Budget, in samples", budget, "Set budget", () =>
      run(`The budget is ${count(Number(budget.value))} samples.`, "PATCH", path, { budget: Number(budget.value) })),
    spending,
    form("Another generator", generator, "Add", async () => {
      await run(`${generator.value} takes part from now on.`, "POST", `${path}/generators`, { name: generator.value });
      if (problem.textContent === "") generator.value = "";
    }),
    note,
    problem,
  ]);
  return {
    section,
    draw(now) {
      report = now;
      say(toggle, { decided: "Reopen", stopped: "Resume" }[now.state] ?? "Stop");
      toggle.hidden = now.state === "out of budget";
      say(spending, now.budget === null ? "No budget is set: it runs until the answer is sure." :
        `${count(now.samples)} of ${count(now.budget)} are spent.`);
    },
  };
}
