// A dialog with one preview, those that are alike, and buttons to the others of the view; and the parts of tiles.
import { generatorPath, getText } from "./api.js";
import { fill, h, say } from "./dom.js";
import { count } from "./format.js";
import { labelled } from "./shares.js";

export const PIXELS = 100; // smaller images are enlarged pixel by pixel

export class Enlarged {
  constructor(experiment, address, palette) {
    this.experiment = experiment;
    this.address = address;
    this.palette = palette;
    this.sequence = [];
    this.folds = new Map();
    this.shown = h("div", { class: "enlarged-sample", tabindex: "0" });
    this.title = h("h2", { id: "enlarged-title" });
    this.record = h("dl", { class: "record" });
    this.facts = h("p", { class: "quiet" });
    this.prompt = h("p", { class: "prompt" });
    this.alike = h("ul", { class: "alike", "aria-label": "Alike" });
    this.back = h("button", { onclick: () => this.step(-1) }, "Previous");
    this.next = h("button", { onclick: () => this.step(1) }, "Next");
    this.dialog = h("dialog", { class: "enlarged", "aria-labelledby": "enlarged-title", onkeydown: (event) => this.key(event) }, [
      this.title, this.prompt, this.shown, this.record, this.alike, this.facts,
      h("div", { class: "buttons" }, [this.back, this.next, h("button", { onclick: () => this.dialog.close() }, "Close")]),
    ]);
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) this.step(by);
  }

  step(by) {
    const place = this.sequence.findIndex(({ id }) => id === this.preview.id) + by;
    if (this.sequence[place]) this.open(this.sequence[place]);
  }

  async open(preview) {
    this.preview = preview;
    const place = this.sequence.findIndex(({ id }) => id === preview.id);
    fill(this.title, label(preview.generator, this.palette));
    say(this.prompt, preview.prompt ?? "");
    const size = preview.width ? `${preview.width} × ${preview.height}` : `${count(preview.bytes)} bytes`;
    const same = this.folds.get(preview.id) ?? [preview];
    const fold = same.length > 1 && `${same.indexOf(preview) + 1} of ${count(same.length)} alike`;
    const facts = [fold, preview.index !== null && `index ${count(preview.index)}`, `pick ${count(preview.pick)}, sample ${preview.place + 1}`, size];
    say(this.facts, facts.filter(Boolean).join(" · "));
    this.back.disabled = place <= 0;
    this.next.disabled = place < 0 || place >= this.sequence.length - 1;
    this.showAlike(same, preview);
    const isText = preview.kind === "text/plain";
    this.shown.classList.toggle("is-text", isText);
    fill(this.shown, isText ? preview.text : picture(this.address(preview), preview));
    if (!this.dialog.open) this.dialog.showModal();
    this.shown.scrollTop = 0;
    fill(this.record);
    const record = this.recordOf(preview).catch(() => undefined);
    if (isText) {
      const said = await getText(this.address(preview)).catch((error) => error.message || "The service does not respond.");
      if (this.preview === preview) say(this.shown, said);
    }
    const told = await record;
    if (this.preview === preview) fill(this.record, fieldsOf(told, [preview.prompt, this.shown.textContent]));
  }

  // What was told of the sample beside its rows; undefined if nothing was.
  async recordOf({ generator, position, place }) {
    const after = place ? `${position}:${place - 1}` : position - 1;
    const lines = await getText(`${generatorPath(this.experiment, generator)}/records?after=${after}&batches=1`);
    return lines.split("\n").filter(Boolean).map(JSON.parse).find((one) => one.position === position && one.row === place)?.record;
  }

  // All samples that one tile stands for.
  showAlike(same, preview) {
    if (same.length !== this.alike.childElementCount || !same.every(({ id }, place) => this.alike.children[place].dataset.id === id)) {
      fill(this.alike, same.length > 1 && same.map((one, place) => {
        const shown = one.kind === "text/plain" ? count(place + 1) : picture(this.address(one), one);
        const button = h("button", { class: "tile", "aria-label": `${place + 1} of ${same.length} alike`, onclick: () => this.open(one) }, shown);
        return h("li", { "data-id": one.id }, button);
      }));
    }
    for (const item of this.alike.children) item.firstChild.ariaCurrent = item.dataset.id === preview.id ? "true" : null;
  }
}

// The fields of a record as terms and texts, those excepted that are on the screen anyway.
function fieldsOf(record, shown) {
  if (record === undefined) return [];
  const hasNames = record instanceof Object && !Array.isArray(record);
  return Object.entries(hasNames ? record : { record })
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])
    .filter(([, text]) => !shown.includes(text))
    .flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]);
}

export function picture(source, { width, height, generator, kind }) {
  if (kind.startsWith("audio/")) return h("audio", { src: source, controls: true, "aria-label": `Sample of ${generator}` });
  const small = Math.max(width, height) < PIXELS;
  const image = h("img", { src: source, alt: `Sample of ${generator}`, loading: "lazy", decoding: "async", class: small && "pixels" });
  image.addEventListener("error", () => image.replaceWith(h("span", { class: "text quiet" }, "no longer kept")));
  return image;
}

export const label = (name, palette) => labelled(name, palette.colour(name));
