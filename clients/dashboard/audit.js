// One audit on the screen: the prompt, and the samples beside each other with the buttons that score them. Nothing says
// whose samples they are.
import { getText } from "./api.js";
import { fill, h, say } from "./dom.js";
import { PIXELS } from "./enlarged.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const LONGEST = 2000; // characters of a comment
const STEPS = 5; // scores that are offered on a scale that is not one of a few whole numbers
const BUTTONS = 11; // offered at most
const MARKS = [1, STEPS]; // the scale where the experiment has none

// The scores that are offered: the whole numbers of a short scale, else evenly spaced ones.
function offered([low, high]) {
  const span = high - low;
  const isWhole = Number.isInteger(low) && Number.isInteger(high) && span > 1 && span < BUTTONS;
  const steps = isWhole ? span : STEPS - 1;
  return Array.from({ length: steps + 1 }, (_, place) => low + (span * place) / steps);
}

const isDigit = (value) => Number.isInteger(value) && value >= 0 && value <= 9;

export class Audit {
  // audit: as the service gives it; scored: called after each score.
  constructor(audit, { kind, scale }, scored) {
    this.id = audit.audit;
    this.scored = scored;
    this.isVote = kind === "votes" && audit.samples.length === 2;
    const values = kind === "votes" ? [0, 0.5, 1] : offered(scale ?? MARKS);
    this.words = kind === "votes" ? ["Worse", "Equal", "Better"] : values.map(String);
    // What a key scores: a digit itself where the scores are digits, else the place of the score.
    this.byKey = new Map(values.map((value, place) => [String(values.every(isDigit) ? value : place + 1), value]));
    this.scores = audit.samples.map(() => null);
    this.given = []; // the places of the samples that have a score, in the order in which they got it
    this.at = 0;
    this.comment = h("textarea", { id: "comment", rows: "2", maxlength: LONGEST });
    this.samples = audit.samples.map((one, place) => this.sample(one, place));
    this.element = h("section", { class: "audit", tabindex: "-1", "aria-label": "Audit" },
      audit.prompt && h("div", { class: "card audit-prompt", tabindex: "0", role: "region", "aria-label": "Prompt" }, audit.prompt.text),
      h("div", { class: "rated" }, this.samples.map(({ element }) => element)),
      this.isVote && h("div", { class: "card votes", role: "group", "aria-label": "Which is better?" }, [
        ["←", "A is better", [1, 0]], ["=", "Equal", [0.5, 0.5]], ["→", "B is better", [0, 1]],
      ].map(([key, text, scores]) => h("button", { onclick: () => this.vote(scores) }, h("kbd", {}, key), ` ${text}`))));
    this.draw();
  }

  sample(one, place) {
    const name = `Sample ${LETTERS[place] ?? place + 1}`;
    const { element, sound } = shown(one, name);
    const buttons = this.isVote ? [] : [...this.byKey].map(([key, value], step) =>
      h("button", { "data-score": value, onclick: () => this.score(value, place) },
        ...(key === this.words[step] ? [] : [h("kbd", {}, key), " "]), this.words[step]));
    const isAlone = this.scores.length === 1;
    return {
      sound,
      buttons,
      element: h("article", { class: "card", "aria-label": name, onpointerdown: () => this.turn(place) },
        !isAlone && h("h2", {}, name), element,
        buttons.length > 0 && h("div", { class: "marks", role: "group", "aria-label": `Score of ${name.toLowerCase()}` }, buttons)),
    };
  }

  get isBegun() {
    return this.given.length > 0;
  }

  get isComplete() {
    return !this.scores.includes(null);
  }

  // Give a sample a score, by default the one whose turn it is.
  score(value, place = this.at) {
    this.scores[place] = value;
    this.given = [...this.given.filter((one) => one !== place), place];
    const next = this.scores.indexOf(null);
    if (next >= 0) this.turn(next);
    else this.draw();
    this.scored();
  }

  vote(scores) {
    this.scores = scores;
    this.scored();
  }

  // Take the last score back.
  undo() {
    if (this.isVote) this.scores = [null, null];
    const place = this.given.pop();
    if (place === undefined) return;
    this.scores[place] = null;
    this.turn(place);
  }

  turn(place) {
    this.at = Math.max(0, Math.min(this.scores.length - 1, place));
    this.draw();
    this.samples[this.at].element.scrollIntoView({ block: "nearest" });
  }

  draw() {
    this.samples.forEach(({ element, buttons }, place) => {
      element.classList.toggle("turn", this.scores.length > 1 && !this.isVote && place === this.at);
      for (const button of buttons) button.ariaPressed = String(Number(button.dataset.score) === this.scores[place] && this.scores[place] !== null);
    });
  }

  // Play the sound of a sample, by default the one whose turn it is, or pause it.
  play(place = this.at) {
    const own = this.samples[place].sound;
    if (!own) return;
    this.pause(own);
    if (own.paused) own.play();
    else own.pause();
  }

  pause(except) {
    for (const { sound } of this.samples) if (sound && sound !== except) sound.pause();
  }

  // What a key does; undefined for one that does nothing.
  action(key) {
    if (key === "p") return () => this.play();
    if (this.isVote) {
      const scores = { ArrowLeft: [1, 0], ArrowRight: [0, 1], "=": [0.5, 0.5] }[key];
      if (scores) return () => this.vote(scores);
      const place = ["a", "b"].indexOf(key);
      return place < 0 ? undefined : () => this.play(place);
    }
    const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (by && this.scores.length > 1) return () => this.turn(this.at + by);
    return this.byKey.has(key) ? () => this.score(this.byKey.get(key)) : undefined;
  }

  // The keys, for whoever has a keyboard.
  get keys() {
    const names = [...this.byKey.keys()];
    const hasSound = this.samples.some(({ sound }) => sound);
    return [
      ...(this.isVote ? [["← = →", "vote"]] : [[`${names[0]}–${names.at(-1)}`, "score"]]),
      ...(!this.isVote && this.scores.length > 1 ? [["← →", "sample"]] : []),
      ...(hasSound ? [[this.isVote ? "a b" : "p", "play"]] : []),
    ];
  }
}

// What a sample looks, reads or sounds like.
function shown({ kind, text, url }, name) {
  if (kind === "image") {
    const image = h("img", { src: url, alt: name });
    image.addEventListener("error", () => image.replaceWith(gone()));
    image.addEventListener("load", () => image.classList.toggle("pixels", Math.max(image.naturalWidth, image.naturalHeight) < PIXELS));
    return { element: h("div", { class: "seen" }, image) };
  }
  if (kind === "audio") {
    const sound = h("audio", { src: url, controls: true, preload: "auto", "aria-label": name });
    return { element: sound, sound };
  }
  const element = h("div", { class: "read", tabindex: "0", role: "region", "aria-label": `Text of ${name.toLowerCase()}` }, text);
  if (text === null) getText(url).then((whole) => say(element, whole), () => fill(element, gone()));
  return { element };
}

const gone = () => h("p", { class: "quiet" }, "The service does not keep this sample: skip the audit.");
