// Who uses the page: the caller's role hides what it may not do, and the top of the page says who is signed in.
import { change, get } from "./api.js";
import { fill, h } from "./dom.js";

let asked = null;

// The session, which is asked for once; `again` after somebody has signed in.
export function session(again = false) {
  if (again) asked = null;
  asked ??= get("v1/session").then(show).catch((error) => {
    asked = null;
    throw error;
  });
  return asked;
}

function show(caller) {
  document.documentElement.dataset.role = caller.role; // what only admins may do has the class "admin"
  fill(document.getElementById("who"), caller.key && [
    `Signed in as ${caller.role}, ${caller.namespace} · `,
    h("button", { class: "link", onclick: signOut }, "sign out"),
  ]);
  return caller;
}

async function signOut() {
  await change("DELETE", "v1/session");
  location.hash = "#/";
  location.reload();
}
