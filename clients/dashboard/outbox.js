// Changes that the browser keeps, in their order, until the service has them: a lost connection and a reload lose none.
import { change, Refused } from "./api.js";
import { remember, remembered } from "./remember.js";

export class Outbox {
  // key: under which the browser keeps them; refused: what to do with the error of one that the service does not take.
  constructor(key, refused) {
    this.key = key;
    this.refused = refused;
    this.kept = JSON.parse(remembered(key) ?? "[]");
  }

  get size() {
    return this.kept.length;
  }

  // about: what the change is about, for `has`.
  add(about, method, path, body) {
    this.kept.push({ about, method, path, body });
    this.keep();
  }

  has(about) {
    return this.kept.some((one) => one.about === about);
  }

  // Send all. Resolves to the last answer, null without one; throws `Unreachable`, and errors of keys.
  async send() {
    let reply = null;
    while (this.size) {
      const [{ method, path, body }] = this.kept;
      try {
        reply = (await change(method, path, body)) ?? reply;
      } catch (error) {
        if (!(error instanceof Refused) || error.status === 401) throw error;
        this.refused(error);
      }
      this.kept.shift();
      this.keep();
    }
    return reply;
  }

  keep() {
    remember(this.key, JSON.stringify(this.kept));
  }
}
