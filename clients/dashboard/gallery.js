// Samples to look at: previews that workers brought. The latest, random ones, or those of the same index side by side.
import { experimentPath, get, getText, Unreachable } from "./api.js";
import { fill, h, say } from "./dom.js";
import { count } from "./format.js";
import { ranked } from "./ranking.js";

const EVERY = 5000; // milliseconds between two requests
const GENERATORS = 8; // of which previews are shown at first
const SAMPLES = 12; // of each generator
const TEXTS = 6; // the same where they are texts
const ROWS = 6; // side by side
const PIXELS = 100; // smaller images are enlarged pixel by pixel

const VIEWS = { latest: "Latest", random: "Random", paired: "Side by side" };

export class Gallery {
  constructor(config, palette) {
    this.path = `${experimentPath(config.name)}/previews`;
    this.palette = palette;
    this.view = "latest";
    this.salt = 1;
    this.previews = [];
    this.order = [];
    this.drawn = "";
    this.sequence = [];
    this.tiles = new Map();
    this.asked = -Infinity;
    this.timer = null;
    this.shuffle = h("button", { class: "small", onclick: () => this.change({ salt: this.salt + 1 }) }, "Shuffle");
    this.status = h("p", { class: "quiet", role: "status" });
    this.found = h("div", { class: "gallery" });
    this.more = h("button", { class: "small", onclick: () => this.change({ whole: true }) }, "Show more");
    this.enlarged = new Enlarged((preview) => this.address(preview), palette);
    this.common = common(config);
    const views = Object.keys(VIEWS).filter((view) => view !== "paired" || this.common);
    this.section = h("section", { class: "card", "aria-labelledby": "samples" }, [
      h("div", { class: "gallery-head" }, [
        h("h2", { id: "samples" }, "Samples"),
        h("fieldset", { class: "views" }, h("legend", { class: "unseen" }, "Which samples"), views.map((view) => h("label", {}, [
          h("input", { type: "radio", name: "gallery-view", value: view, checked: view === this.view, onchange: () => this.change({ view }) }),
          VIEWS[view],
        ]))),
        this.shuffle,
      ]),
      this.status,
      this.found,
      this.more,
      this.enlarged.dialog,
    ]);
    this.show();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.stopped = true;
    this.enlarged.dialog.close();
  }

  // A new report means that there may be new previews.
  draw(report) {
    this.order = ranked(report).map(({ generator }) => generator);
    if (this.timer === null && !this.stopped) {
      this.timer = setTimeout(() => this.load(), Math.max(0, this.asked + EVERY - performance.now()));
    }
    this.show();
  }

  async load() {
    this.asked = performance.now();
    this.timer = null;
    try {
      this.previews = (await get(this.path, "previews")).previews;
      this.problem = "";
    } catch (error) {
      if (error instanceof Unreachable) {
        if (!this.stopped) this.timer = setTimeout(() => this.load(), EVERY);
        return;
      }
      this.problem = error.message;
    }
    if (!this.stopped) this.show();
  }

  change(choice) {
    this.whole = false;
    Object.assign(this, choice);
    this.show();
  }

  address(preview) {
    return `${this.path}/${preview.id}?${preview.digest}`;
  }

  show() {
    const drawn = JSON.stringify([
      this.view, this.salt, this.whole, this.problem, this.order, this.order.map((name) => this.palette.colour(name)),
      this.previews.map(({ id }) => id),
    ]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const here = new Set(this.previews.map(({ id }) => id));
    for (const id of this.tiles.keys()) if (!here.has(id)) this.tiles.delete(id);
    this.shuffle.hidden = this.view !== "random";
    const of = grouped(this.previews, ({ generator }) => generator);
    const names = [...this.order.filter((name) => of.has(name)), ...[...of.keys()].filter((name) => !this.order.includes(name))];
    this.sequence = [];
    this.hides = false;
    const shown = this.view === "paired" ? this.paired(names) : this.lists(names, of);
    fill(this.found, shown);
    this.more.hidden = !this.hides;
    say(this.status, this.problem || this.says());
    this.enlarged.sequence = this.sequence;
  }

  says() {
    if (!this.previews.length) return "No previews yet. Workers bring them: pick.tell(rows, previews=images).";
    if (this.view !== "paired") return "";
    if (!this.sequence.length) return "No two generators have previews of the same index yet.";
    return this.common;
  }

  cut(list, most) {
    this.hides ||= list.length > most && !this.whole;
    return this.whole ? list : list.slice(0, most);
  }

  lists(names, of) {
    return this.cut(names, GENERATORS).map((name) => {
      const kept = of.get(name);
      const sorted = this.view === "random" ? shuffled(kept, this.salt) : kept;
      const folded = [...grouped(sorted, ({ digest }) => digest).values()];
      return h("div", { class: "gallery-line" }, [
        h("h3", {}, label(name, this.palette), h("span", { class: "quiet" }, ` ${count(kept.length)} kept`)),
        h("ul", { class: "tiles" }, this.cut(folded, kept[0].text === null ? SAMPLES : TEXTS).map((same) => h("li", {}, this.tile(same[0], same.length)))),
      ]);
    });
  }

  paired(names) {
    const indexed = this.previews.filter(({ index }) => index !== null);
    const rows = [...grouped(indexed, ({ index }) => index)].map(([index, of]) => [index, new Map(of.map((one) => [one.generator, one]))])
      .filter(([, of]) => of.size > 1)
      .sort(([a, one], [b, other]) => other.size - one.size || a - b);
    if (!rows.length) return [];
    const columns = this.cut(names, GENERATORS);
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Samples side by side" }, [
      h("table", { class: "side-by-side" }, [
        h("thead", {}, h("tr", {}, [
          h("th", { scope: "col" }, indexed.some(({ prompt }) => prompt) ? "Prompt" : "Index"),
          ...columns.map((name) => h("th", { scope: "col" }, label(name, this.palette))),
        ])),
        h("tbody", {}, this.cut(rows, ROWS).map(([index, of]) => h("tr", {}, [
          h("th", { scope: "row" }, caption(index, [...of.values()])),
          ...columns.map((name) => h("td", {}, of.has(name) ? this.tile(of.get(name), 1) : h("span", { class: "quiet" }, "–"))),
        ]))),
      ]),
    ]);
  }

  // A tile that was there before keeps its image.
  tile(preview, number) {
    this.sequence.push(preview);
    let known = this.tiles.get(preview.id);
    if (!known) {
      const badge = h("span", { class: "same" });
      const shown = preview.kind === "text/plain"
        ? [preview.prompt && h("span", { class: "asked quiet" }, preview.prompt), h("span", { class: "text" }, preview.text)]
        : [picture(this.address(preview), preview)];
      const about = [preview.generator, preview.index !== null && `index ${count(preview.index)}`, preview.prompt].filter(Boolean).join(", ");
      const button = h("button", { class: "tile", "aria-label": `Sample of ${about}`, title: preview.prompt ?? "" }, ...shown, badge);
      button.addEventListener("click", () => this.enlarged.open(preview));
      known = { button, badge };
      this.tiles.set(preview.id, known);
    }
    say(known.badge, number > 1 ? `× ${count(number)}` : "");
    return known.button;
  }
}

// A dialog with one preview, and buttons to the others of the view.
class Enlarged {
  constructor(address, palette) {
    this.address = address;
    this.palette = palette;
    this.sequence = [];
    this.shown = h("div", { class: "enlarged-sample", tabindex: "0" });
    this.title = h("h2", { id: "enlarged-title" });
    this.facts = h("p", { class: "quiet" });
    this.prompt = h("p", { class: "prompt" });
    this.back = h("button", { onclick: () => this.step(-1) }, "Previous");
    this.next = h("button", { onclick: () => this.step(1) }, "Next");
    this.dialog = h("dialog", { class: "enlarged", "aria-labelledby": "enlarged-title", onkeydown: (event) => this.key(event) }, [
      this.title, this.prompt, this.shown, this.facts,
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
    const size = preview.width ? `${preview.width} × ${preview.height}` : `${count(preview.bytes)} bytes of text`;
    const facts = [preview.index !== null && `index ${count(preview.index)}`, `pick ${count(preview.pick)}, sample ${preview.place + 1}`, size];
    say(this.facts, facts.filter(Boolean).join(" · "));
    this.back.disabled = place <= 0;
    this.next.disabled = place < 0 || place >= this.sequence.length - 1;
    const isText = preview.kind === "text/plain";
    this.shown.classList.toggle("is-text", isText);
    fill(this.shown, isText ? preview.text : picture(this.address(preview), preview));
    if (!this.dialog.open) this.dialog.showModal();
    this.shown.scrollTop = 0;
    if (!isText) return;
    const said = await getText(this.address(preview)).catch((error) => error.message || "The service does not respond.");
    if (this.preview === preview) say(this.shown, said);
  }
}

// What samples of the same index have in common; "" if they have nothing. With the goal "route" every prompt has a pick of
// its own.
function common(config) {
  const paired = config.paired !== false;
  if (config.goal === "route" || (!paired && !config.prompts)) return "";
  return `Each row has samples of the same ${[config.prompts && "prompt", paired && "seed"].filter(Boolean).join(" and the same ")}.`;
}

function picture(source, { width, height, generator }) {
  const small = Math.max(width, height) < PIXELS;
  const image = h("img", { src: source, alt: `Sample of ${generator}`, loading: "lazy", decoding: "async", class: small && "pixels" });
  image.addEventListener("error", () => image.replaceWith(h("span", { class: "text quiet" }, "no longer kept")));
  return image;
}

function label(name, palette) {
  const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = palette.colour(name);
  return h("span", { class: "label" }, [swatch, h("span", { class: "name" }, name)]);
}

function caption(index, previews) {
  const prompt = previews.find((one) => one.prompt)?.prompt;
  return prompt ? [h("span", { class: "prompt" }, prompt), h("span", { class: "quiet" }, `index ${count(index)}`)] : count(index);
}

function grouped(list, key) {
  const found = new Map();
  for (const one of list) {
    const name = key(one);
    if (found.has(name)) found.get(name).push(one);
    else found.set(name, [one]);
  }
  return found;
}

// In an order that stays the same while others come and go.
const shuffled = (list, salt) => [...list].sort((a, b) => mixed(a.id, salt) - mixed(b.id, salt));

// FNV-1a, then a finaliser, as ids differ in few letters.
function mixed(text, salt) {
  let hash = 2166136261 ^ Math.imul(salt, 0x9e3779b9);
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
