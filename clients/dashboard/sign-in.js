// The form that asks for an access key if the service requires one.
import { signIn } from "./api.js";
import { fill, h, say } from "./dom.js";
import { session } from "./session.js";

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
    h("p", {}, "This service requires an access key. Somebody who runs it can create one:"),
    h("pre", { tabindex: "0" }, h("code", {}, "optimist keys create --role viewer")),
    h("label", { for: "key" }, "Access key"),
    h("div", { class: "field" }, key, h("button", {}, "Sign in")),
    error,
  );
  fill(main, h("div", { class: "empty" }, form));
  key.focus();
}
