// What a generator makes: the modes of its kernel with the samples that show each. Made by a scorer when asked for.
import { generatorPath, get } from "./api.js";
import { fill, h, say } from "./dom.js";
import { samples, share } from "./format.js";

const WITH_KERNEL = new Set(["rke", "vendi", "conditional-vendi", "information-vendi"]);

// The section, for metrics that have a kernel; null for the others.
export function modes(config) {
  if (!WITH_KERNEL.has(config.metric)) return null;
  const select = h("select", { id: "modes-of" });
  const button = h("button", {}, "Show modes");
  const status = h("p", { class: "quiet", role: "status" });
  const found = h("div", {});
  const form = h("form", { class: "field", onsubmit: (event) => (event.preventDefault(), show(select.value)) }, [
    h("label", { for: "modes-of" }, "Generator"), select, button,
  ]);

  async function show(generator) {
    button.disabled = true;
    say(status, "Asking a scorer …");
    try {
      const made = await get(`${generatorPath(config.name, generator)}/modes?count=6&samples=8`, "modes");
      const stale = made.stale ? "; newer samples are not in it yet" : "";
      say(status, `${made.generator} after ${samples(made.samples)}${stale}.`);
      const groups = made.prompt_groups.map((group) => [group.share, group.prompts, group.score]);
      fill(found, [
        list("Mode", made.modes.map((mode) => [mode.share, mode.samples])),
        groups.length > 0 && h("h3", {}, "By type of prompt"),
        groups.length > 0 && list("Prompts", groups),
      ]);
    } catch (error) {
      fill(found);
      say(status, error.message || "The service does not answer.");
    } finally {
      button.disabled = false;
    }
  }

  return {
    section: h("section", { class: "card", "aria-labelledby": "modes" }, [
      h("h2", { id: "modes" }, "Modes"),
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

function list(title, entries) {
  return h("ol", { class: "modes" }, entries.map(([part, shown, kinds], i) => {
    const outputs = kinds === undefined ? "" : `, ${kinds.toFixed(1)} kinds of output`;
    return h("li", {}, [
      h("h4", {}, `${title} ${i + 1} `, h("span", { class: "quiet" }, `${share(part)}${outputs}`)),
      h("ul", { class: "samples" }, shown.map((sample) => h("li", {}, picture(sample.id)))),
    ]);
  }));
}

// An image where the id is an address of one, its text otherwise; never anything that could run.
function picture(id) {
  const text = h("span", { class: "text" }, id);
  const address = safeAddress(id);
  if (address === null) return text;
  const alt = id.startsWith("data:") ? "sample" : id;
  const image = h("img", { src: address, alt, loading: "lazy", referrerpolicy: "no-referrer" });
  image.addEventListener("error", () => image.replaceWith(text));
  return image;
}

function safeAddress(id) {
  if (/^data:image\//i.test(id)) return id;
  if (!/^https?:\/\//i.test(id)) return null;
  try {
    return new URL(id).href;
  } catch {
    return null;
  }
}
