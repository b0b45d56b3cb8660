// The form that asks for an access key if the service requires one.
import { signIn } from "./api.js";
import { fill, h, say } from "./dom.js";
import { session } from "./session.js";

const COMMAND = ["optimist keys create", "--role viewer", "--namespace default", "--data-dir DIRECTORY"];
const WHERE = [
  ["--role", "rater: score audits; viewer: look; worker: also ask and tell; admin: everything"],
  ["--namespace", "that of the experiments; “default” unless somebody has chosen another one"],
  ["--data-dir", "the directory that “optimist serve” names when it starts; for a service with a Redis of its own, --redis-url instead"],
];

// `done` is called when the service has accepted a key.
export function showSignIn(main, done) {
  const error = h("p", { class: "error", role: "alert" });
  const key = h("input", {
    id: "key", type: "password", autocomplete: "current-password", required: true,
  });
  const form = h(
    "form",
    {
      class: "sign-in",
      async onsubmit(event) {
        event.preventDefault();
        try {
          await signIn(key.value.trim());
        } catch (refused) {
          say(error, refused.message);
          key.select();
          return;
        }
        await session(true);
        done();
      },
    },
    h("h1", {}, "Sign in"),
    h("p", {}, "This service requires an access key. Somebody who runs it can create one on its machine:"),
    h("pre", { tabindex: "0" }, h("code", {}, COMMAND.flatMap((part) => [h("span", {}, part), " "]))),
    h("dl", { class: "where" }, WHERE.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]).flat()),
    h("label", { for: "key" }, "Access key"),
    h("div", { class: "field" }, key, h("button", {}, "Sign in")),
    error,
  );
  fill(main, h("div", { class: "empty" }, form));
  key.focus();
}

// Whether the key of a shared link is to take the place of the one that somebody has signed in with.
export function replaces(main, { role, namespace, key }) {
  return new Promise((resolve) => {
    const stay = h("button", { onclick: () => resolve(false) }, key ? "Stay signed in" : "Go on without the link's key");
    const who = key ? `signed in as ${role}, ${namespace}` : "not signed in, and this service requires no key";
    fill(main, h("div", { class: "empty" }, [
      h("h1", {}, "A shared link"),
      h("p", {}, `The link has a key that shows one experiment alone. You are ${who}.`),
      h("div", { class: "field" }, [stay, h("button", { onclick: () => resolve(true) }, "Use the link's key")]),
    ]));
    stay.focus();
  });
}
