// Samples to look at: previews that workers brought. The latest, random ones, those of each mode, or those of the same
// index side by side.
import { experimentPath, get, Unreachable } from "./api.js";
import { fill, h, say } from "./dom.js";
import { Enlarged, label, picture } from "./enlarged.js";
import { count } from "./format.js";
import { ranked } from "./ranking.js";
import { keep, seen } from "./view.js";
import { named } from "./words.js";

const EVERY = 5000; // milliseconds between two requests
const GENERATORS = 8; // of which previews are shown at first
const SAMPLES = 12; // of each generator
const TEXTS = 6; // the same where they are texts
const ROWS = 6; // side by side
const MODES = 3; // groups
const OF_MODE = 2; // of each generator in a mode
const TEXTS_OF_MODE = 1;

const FIRST_VIEW = "modes";
const VIEWS = { modes: "By mode", latest: "Latest", random: "Random", paired: "Side by side" };

export class Gallery {
  constructor(config, palette) {
    this.path = `${experimentPath(config.name)}/previews`;
    this.palette = palette;
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
    this.enlarged = new Enlarged(config.name, (preview) => this.address(preview), palette);
    this.common = common(config);
    const views = Object.keys(VIEWS).filter((view) => view !== "paired" || this.common);
    this.view = views.find((view) => view === seen("samples")) ?? FIRST_VIEW;
    this.section = h("section", { class: "card", "aria-labelledby": "samples" }, [
      h("div", { class: "gallery-head" }, [
        h("h2", { id: "samples" }, "Samples"),
        h("fieldset", { class: "views" }, h("legend", { class: "unseen" }, "Which samples"), views.map((view) => h("label", {}, [
          h("input", { type: "radio", name: "gallery-view", value: view, checked: view === this.view, onchange: () => this.change({ view }) }),
          VIEWS[view],
        ]))),
        this.shuffle,
        this.status,
        this.more,
      ]),
      this.found,
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
    const modes = this.view === "modes";
    try {
      const { previews } = modes ? await get(`${this.path}?modes=true`, "modes of previews") : await get(this.path, "previews");
      if (this.view === "modes" && !modes) return; // those with modes are on their way
      Object.assign(this, { previews, problem: "", grouped: modes });
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
    keep("samples", this.view, FIRST_VIEW);
    if (this.view === "modes" && !this.grouped) {
      clearTimeout(this.timer);
      this.load();
    }
    this.show();
  }

  address(preview) {
    return `${this.path}/${preview.id}?${preview.digest}`;
  }

  show() {
    const drawn = JSON.stringify([
      this.view, this.salt, this.whole, this.problem, this.order, this.order.map((name) => this.palette.colour(name)),
      this.grouped, this.previews.map(({ id, mode, alike }) => [id, mode, alike]),
    ]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const here = new Set(this.previews.map(({ id }) => id));
    for (const id of this.tiles.keys()) if (!here.has(id)) this.tiles.delete(id);
    this.shuffle.hidden = this.view !== "random";
    const of = grouped(this.previews, ({ generator }) => generator);
    const names = [...this.order.filter((name) => of.has(name)), ...[...of.keys()].filter((name) => !this.order.includes(name))];
    const focused = document.activeElement;
    this.sequence = [];
    this.hides = false;
    this.folds = new Map();
    const views = { paired: () => this.paired(names), modes: () => this.byMode(names, of) };
    const shown = (views[this.view] ?? (() => this.lists(names, of)))();
    fill(this.found, shown);
    if (this.found.contains(focused)) focused.focus({ preventScroll: true }); // a tile, which has moved
    this.more.hidden = !this.hides;
    say(this.status, this.problem || this.says());
    Object.assign(this.enlarged, { sequence: this.sequence, folds: this.folds });
  }

  says() {
    if (!this.previews.length) return "No previews yet. Workers bring them: pick.tell(rows, previews=images).";
    if (this.view === "modes") return this.grouped ? aboutModes(this.previews) : "Waiting for the modes …";
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
        h("ul", { class: "tiles" }, this.cut(folded, kept[0].text === null ? SAMPLES : TEXTS).map((same) => h("li", {}, this.tile(same)))),
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
          ...columns.map((name) => h("td", {}, of.has(name) ? this.tile([of.get(name)]) : h("span", { class: "quiet" }, "–"))),
        ]))),
      ]),
    ]);
  }

  // A row for each mode, with what each generator has of it, nearly identical ones as one tile.
  byMode(names, of) {
    const inModes = this.grouped ? this.previews.filter(({ mode }) => mode != null) : [];
    if (!inModes.length) return [];
    const columns = this.cut(names, GENERATORS);
    const rows = [...grouped(inModes, ({ mode }) => mode)].sort(([a], [b]) => a - b);
    const called = named(rows.map(([, all]) => all.map(({ prompt }) => prompt ?? "")));
    // Without prompts the sample nearest to the centre says what a mode is.
    const typical = (all) => {
      const central = all.find((one) => one.central);
      return central && !central.prompt && central.text === null && h("span", { class: "central" }, picture(this.address(central), central));
    };
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Samples by mode" }, [
      h("table", { class: "side-by-side by-mode" }, [
        h("thead", {}, h("tr", {}, [
          h("th", { scope: "col" }, "Mode"),
          ...columns.map((name) => h("th", { scope: "col" }, label(name, this.palette), h("span", { class: "quiet" }, `${count(of.get(name).length)} kept`))),
        ])),
        h("tbody", {}, this.cut(rows, MODES).map(([mode, all], place) => {
          const made = grouped(all, ({ generator }) => generator);
          return h("tr", {}, [
            h("th", { scope: "row" }, h("div", { class: "mode" }, typical(all),
              h("div", {}, called[place] || `Mode ${mode + 1}`, h("span", { class: "quiet" }, `${count(all.length)} of ${count(inModes.length)}`)))),
            ...columns.map((name) => h("td", { "data-head": name }, this.ofMode(made.get(name) ?? [], of.get(name).length))),
          ]);
        })),
      ]),
    ]);
  }

  ofMode(made, kept) {
    if (!made.length) return h("span", { class: "quiet" }, "none");
    const folded = [...grouped(made, ({ alike }) => alike)].sort(([a], [b]) => a - b).map(([, same]) => same);
    return h("div", { class: "made" }, [
      h("span", { class: "quiet" }, `${count(made.length)} of ${count(kept)}`),
      h("ul", { class: "tiles" }, this.cut(folded, made[0].text === null ? OF_MODE : TEXTS_OF_MODE).map((same) => h("li", {}, this.tile(same)))),
    ]);
  }

  // One tile for samples that are alike. One that was there before keeps its image.
  tile(same) {
    const [preview] = same;
    this.sequence.push(...same);
    for (const { id } of same) this.folds.set(id, same);
    let known = this.tiles.get(preview.id);
    if (!known) {
      const badge = h("span", { class: "same" });
      const shown = preview.kind === "text/plain"
        ? [preview.prompt && h("span", { class: "asked quiet" }, preview.prompt), h("span", { class: "text" }, preview.text)]
        : preview.kind.startsWith("audio/") ? [h("span", { class: "text quiet" }, "sound")] : [picture(this.address(preview), preview)];
      const button = h("button", { class: "tile", title: preview.prompt ?? "" }, ...shown, badge);
      button.addEventListener("click", () => this.enlarged.open(preview));
      known = { button, badge };
      this.tiles.set(preview.id, known);
    }
    const number = same.length > 1 && count(same.length);
    const about = [preview.generator, preview.index !== null && `index ${count(preview.index)}`, preview.prompt, number && `${number} alike`];
    known.button.setAttribute("aria-label", `Sample of ${about.filter(Boolean).join(", ")}`);
    say(known.badge, number ? `× ${number}` : "");
    return known.button;
  }
}

// What samples of the same index have in common; "" if they have nothing.
function common(config) {
  const paired = config.paired !== false;
  if (!paired && !config.prompts) return "";
  return `Each row has samples of the same ${[config.prompts && "prompt", paired && "seed"].filter(Boolean).join(" and the same ")}.`;
}

function aboutModes(previews) {
  const without = previews.filter(({ mode }) => mode == null).length;
  if (without === previews.length) return "These previews came without features, so they have no modes: a newer SDK sends them.";
  const told = "Groups of the kept samples, by their features. Nearly identical ones are shown once, with their number.";
  return without ? `${told} ${count(without)} came without features and are left out.` : told;
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
