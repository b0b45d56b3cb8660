// The modes of a generator with their most typical samples. A scorer computes them on request.
import { generatorPath, get } from "./api.js";
import { Choice } from "./choice.js";
import { fill, h, say } from "./dom.js";
import { samples, share } from "./format.js";
import { session } from "./session.js";
import { term } from "./term.js";
import { named } from "./words.js";

// The section for experiments with metrics that offer modes (`offering`, see `metricsOf`).
export function modes(experiment, offering) {
  const select = h("select", { id: "modes-of" });
  const metric = new Choice("modes-by", "Metric", () => {});
  metric.offer(offering.map(({ label, title }) => [label, title]));
  const button = h("button", {}, "Show modes");
  const status = h("p", { class: "quiet", role: "status" });
  const found = h("div", {});
  const form = h("form", { class: "field wrapping asked-for", onsubmit: (event) => (event.preventDefault(), show(select.value)) }, [
    h("label", { for: "modes-of" }, "Generator"), select, offering.length > 1 && metric.element, button,
  ]);

  async function show(generator) {
    button.disabled = true;
    say(status, "Waiting for a scorer …");
    try {
      const path = `${generatorPath(experiment, generator)}/modes?count=6&samples=8${metric.value && `&metric=${metric.value}`}`;
      const [made, caller] = await Promise.all([get(path, "modes"), session()]);
      const hosts = caller.image_hosts;
      const stale = made.stale ? "; newer samples are not included yet" : "";
      say(status, `${made.generator} after ${samples(made.samples)}${stale}.`);
      const groups = made.prompt_groups.map((group) => [group.share, group.prompts, group.score]);
      fill(found, [
        list("Mode", made.modes.map((mode) => [mode.share, mode.samples]), hosts),
        groups.length > 0 && h("h3", {}, "By type of prompt"),
        groups.length > 0 && list("Prompts", groups, hosts),
      ]);
    } catch (error) {
      fill(found);
      say(status, error.message || "The service does not respond.");
    } finally {
      button.disabled = false;
    }
  }

  return {
    section: h("section", { class: "card", "aria-labelledby": "modes" }, [
      h("h2", { id: "modes" }, "Modes"), term("mode"),
      form,
      status,
      found,
    ]),
    draw(report) {
      const names = report.standings.map((standing) => standing.generator);
      const known = [...select.options].map((option) => option.value);
      if (names.length === known.length && names.every((name, i) => name === known[i])) return;
      const chosen = select.value;
      fill(select, names.map((name) => h("option", { value: name }, name)));
      if (names.includes(chosen)) select.value = chosen;
    },
  };
}

function list(title, entries, hosts) {
  const called = title === "Prompts" ? named(entries.map(([, shown]) => shown.map(({ id }) => id))) : []; // their ids are texts
  return h("ol", { class: "modes" }, entries.map(([part, shown, kinds], i) => {
    const outputs = kinds === undefined ? "" : `, ${kinds.toFixed(1)} kinds of output`;
    const label = `Load images of ${title} ${i + 1}`;
    const all = h("button", { class: "small", "aria-label": label, onclick: loadAll }, "Load images");
    const item = h("li", {}, [
      h("div", { class: "mode-head" }, [
        h("h4", {}, `${called[i] || `${title} ${i + 1}`} `, h("span", { class: "quiet" }, `${share(part)}${outputs}`)),
        all,
      ]),
      h("ul", { class: "samples" }, shown.map((sample) => h("li", {}, picture(sample.id, hosts)))),
    ]);
    function loadAll() {
      for (const button of item.querySelectorAll(".unloaded")) button.click();
    }
    return item;
  }));
}

// An image if the id is an image address, otherwise the id as text; never anything that could run. Workers choose the
// ids, so images from other hosts are loaded only when the user clicks, or immediately from hosts in the settings.
function picture(id, hosts) {
  const address = safeAddress(id);
  if (address === null) return text(id);
  if (address.protocol === "data:" || hosts.some((host) => isAt(address, host))) return image(id, address);
  const load = () => button.replaceWith(image(id, address));
  const button = h("button", { class: "unloaded", title: address.href, onclick: load }, [
    h("span", { class: "load" }, "Load image"),
    h("span", { class: "host" }, address.host),
    h("span", { class: "path" }, `${address.pathname}${address.search}`),
  ]);
  return button;
}

const text = (id) => h("span", { class: "text" }, id);

function image(id, address) {
  const alt = address.protocol === "data:" ? "sample" : id;
  const shown = h("img", { src: address.href, alt, loading: "lazy", referrerpolicy: "no-referrer" });
  shown.addEventListener("error", () => shown.replaceWith(text(id)));
  return shown;
}

function safeAddress(id) {
  if (!/^(data:image\/|https?:\/\/)/i.test(id)) return null;
  const address = parsed(id);
  return address?.username || address?.password ? null : address;
}

// Whether an address is on a host, which may be written in capitals or with the scheme's default port.
const isAt = (address, host) => parsed(`${address.protocol}//${host}`)?.host === address.host;

function parsed(address) {
  try {
    return new URL(address);
  } catch {
    return null;
  }
}
