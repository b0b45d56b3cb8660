// The page for raters: one audit after the other, by keys, buttons or touch. The next ones are there before they are
// needed, and answers go to the service while the next audit is on the screen.
import { change, experimentPath, serviceTime } from "./api.js";
import { Audit } from "./audit.js";
import { fill, h, say } from "./dom.js";
import { count } from "./format.js";
import { Outbox } from "./outbox.js";
import { poll } from "./poll.js";
import { remember, remembered } from "./remember.js";

const KEY = "optimist-rater";
const AHEAD = 6; // audits that a rater has: the one on the screen, and those that are loaded
const MOST = 50; // of one request
const LOW = 4; // from which on more are asked for
const AGAIN = 5; // seconds after which more are asked for where the service had too few
const BACK = 30; // answers that can be taken back

export function showRating(main, name, connection, failed) {
  let page = null;
  const rater = remembered(KEY);
  if (rater) begin(rater);
  else askName();

  function begin(named) {
    remember(KEY, named);
    page = new Rating(main, name, named, connection, failed, () => {
      page.stop();
      askName(named);
    });
  }

  function askName(before = "") {
    const input = h("input", { id: "rater", type: "text", required: true, maxlength: "64", autocomplete: "nickname", value: before });
    const form = h("form", { class: "sign-in", onsubmit(event) {
      event.preventDefault();
      if (input.value.trim()) begin(input.value.trim());
    } },
    h("h1", {}, "Who rates?"),
    h("p", {}, `Your scores of ${name} are kept under this name.`),
    h("label", { for: "rater" }, "Your name"),
    h("div", { class: "field" }, input, h("button", {}, "Start")));
    fill(main, h("div", { class: "empty" }, form));
    input.focus();
  }

  return { stop: () => page?.stop() };
}

// The experiments that a rater's key names.
export function showRatings(main, names) {
  fill(main, h("div", { class: "empty" }, [
    h("h1", {}, "What would you like to rate?"),
    h("ul", {}, names.map((name) => h("li", {}, h("a", { href: ratingLink(name) }, name)))),
  ]));
  return { stop() {} };
}

export const ratingLink = (name) => `#/r/${encodeURIComponent(name)}`;

class Rating {
  constructor(main, name, rater, connection, failed, rename) {
    this.path = `${experimentPath(name)}/audits`;
    this.rater = rater;
    this.queue = []; // the first one is on the screen
    this.past = [];
    this.passed = new Set();
    this.unseen = 0; // audits of samples that the service does not keep
    this.own = 0;
    this.newest = null; // the service's last answer to the question for audits
    this.askedAt = 0;
    this.lease = 0;
    this.isShort = false; // whether the service had fewer than were asked for
    this.outbox = new Outbox(`${KEY} ${name} ${rater}`, (error) => this.refused(error));
    this.progress = h("progress", { "aria-label": "Answered" });
    this.counts = h("p", { class: "quiet" });
    this.saved = h("p", { class: "quiet", role: "status" });
    this.problem = h("p", { class: "problem", role: "alert" });
    this.stage = h("div", { class: "stage" });
    this.back = h("button", { class: "small", onclick: () => this.undo() }, h("kbd", {}, "z"), " Undo");
    this.pass = h("button", { class: "small plain", onclick: () => this.skip() }, h("kbd", {}, "s"), " Skip");
    this.comment = h("div", {});
    this.label = h("label", { for: "comment" }, h("kbd", {}, "c"), " Comment");
    this.keys = h("p", { class: "quiet keys" });
    this.tools = h("div", { class: "rating-tools" }, h("div", { class: "field" }, this.back, this.pass), h("div", { class: "commenting" }, this.label, this.comment), this.keys);
    fill(main,
      h("div", { class: "title rating-title" }, h("h1", {}, name), h("div", {}, this.counts, this.progress),
        h("span", { class: "buttons quiet" }, `${rater} · `, h("button", { class: "link", onclick: rename }, "change name"))),
      this.problem, this.saved, this.stage, this.tools);
    this.listen = (event) => this.key(event);
    document.addEventListener("keydown", this.listen);
    this.polling = poll(() => this.turn(), {
      found: () => (connection.found(), this.sayUnsent(false)),
      lost: () => (connection.lost(), this.sayUnsent(true)),
    }, failed);
  }

  stop() {
    this.polling.stop();
    this.queue[0]?.pause();
    document.removeEventListener("keydown", this.listen);
  }

  // Send what was answered, then ask for more where there are few: first where answers wait, which may take a while.
  async turn() {
    if (this.queue.length < LOW && this.outbox.size > 1) await this.ask();
    const told = await this.outbox.send();
    if (told) this.newest = { ...this.newest, answered: told.answered };
    const rest = this.queue.length >= LOW ? this.lease / 2 : this.isShort ? AGAIN : 0; // leases are renewed after half of them
    if (serviceTime() >= this.askedAt + rest) await this.ask();
    this.draw();
  }

  async ask() {
    const wanted = Math.min(AHEAD + this.passed.size + this.unseen + this.outbox.size, MOST);
    const reply = await change("POST", this.path, { rater: this.rater, count: wanted });
    this.newest = reply;
    const [present] = this.queue;
    const known = new Map(this.queue.map((one) => [one.id, one]));
    // Samples that the service does not keep cannot be rated; those that workers bring later may be there the next time.
    const seen = reply.audits.filter(({ samples }) => samples.every(({ kind }) => kind !== "none"));
    const theirs = seen.filter(({ audit }) => audit !== present?.id && !this.passed.has(audit) && !this.outbox.has(audit));
    this.queue = [...(present ? [present] : []), ...theirs.map((one) => known.get(one.audit) ?? new Audit(one, reply, () => this.scored()))];
    this.unseen = reply.audits.length - seen.length;
    this.isShort = this.unseen > 0 || reply.audits.length < wanted;
    this.lease = Math.min(600, ...reply.audits.map((one) => one.expires_in));
    this.askedAt = serviceTime();
  }

  scored() {
    if (!this.queue[0].isComplete) {
      this.draw();
      return;
    }
    const done = this.queue.shift();
    done.pause();
    this.past = [...this.past, done].slice(-BACK);
    this.own += 1;
    const body = { rater: this.rater, scores: [...done.scores], comment: done.comment.value.trim() };
    this.outbox.add(done.id, "PUT", `${this.path}/${encodeURIComponent(done.id)}`, body);
    this.go();
  }

  undo() {
    const [present] = this.queue;
    if (present?.isBegun) {
      present.undo();
      this.draw();
      return;
    }
    const last = this.past.pop();
    if (!last) return;
    last.undo();
    this.queue.unshift(last);
    this.own -= 1;
    this.outbox.add(last.id, "DELETE", `${this.path}/${encodeURIComponent(last.id)}?rater=${encodeURIComponent(this.rater)}`);
    this.go();
  }

  // Leave an audit to others.
  skip() {
    const passed = this.queue.shift();
    if (!passed) return;
    passed.pause();
    this.passed.add(passed.id);
    this.go();
  }

  go() {
    say(this.problem, "");
    this.draw();
    this.polling.now();
  }

  refused(error) {
    say(this.problem, `An answer was not taken: ${error.message}`);
  }

  sayUnsent(isLost) {
    const { size } = this.outbox;
    const what = size === 1 ? "One answer is" : `${count(size)} answers are`;
    say(this.saved, isLost && size ? `${what} kept in this browser, and sent once the service responds.` : "");
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const [present] = this.queue;
    const own = { z: () => this.undo(), Backspace: () => this.undo(), s: () => this.skip(), c: () => present?.comment.focus() }[event.key];
    const act = own ?? present?.action(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  }

  draw() {
    const [present] = this.queue;
    if (this.newest) this.sayProgress(this.newest);
    this.back.disabled = !this.past.length && !present?.isBegun;
    this.pass.hidden = this.label.hidden = this.comment.hidden = this.keys.hidden = !present;
    const isComing = !this.newest || this.outbox.size > 0 || !this.isShort;
    const what = present ?? (isComing ? "coming" : this.newest.done);
    if (this.drawn !== what) {
      this.drawn = what;
      fill(this.stage, present?.element ?? (isComing ? h("p", { class: "quiet" }, "One moment …") : this.nothing()));
      fill(this.comment, present?.comment);
      if (present) {
        fill(this.keys, present.keys.map(([key, text]) => [h("kbd", {}, key), ` ${text} `]).flat());
        if (!document.activeElement?.closest("textarea")) present.element.focus({ preventScroll: true });
        window.scrollTo(0, 0);
      }
    }
  }

  nothing() {
    const why = this.newest.done ? "No more answers are needed. Thank you." : "New samples come up here by themselves, once the service has a preview of each.";
    return h("div", { class: "empty" }, h("h2", {}, "Nothing to rate now"), h("p", { class: "quiet" }, why));
  }

  sayProgress({ answered, wanted }) {
    const more = wanted > 0 ? `, about ${count(wanted)} more` : "";
    say(this.counts, `${count(answered)} answered${more}${this.own ? ` · ${count(this.own)} by you just now` : ""}`);
    this.progress.max = Math.max(1, answered + wanted);
    this.progress.value = answered;
  }
}
