// Shows the page that the URL's hash selects ("#/": the list, "#/e/<name>": one experiment, "#/c/<name>/<name>/…": several)
// and the connection status.
import { signIn } from "./api.js";
import { showComparison } from "./compare.js";
import { fill, h, say } from "./dom.js";
import { showExperiment } from "./experiment.js";
import { showOverview } from "./overview.js";
import { session } from "./session.js";
import { replaces, showSignIn } from "./sign-in.js";
import { themeChoice } from "./theme.js";
import { keep, seen } from "./view.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const live = document.getElementById("live");
document.getElementById("theme-choice").append(themeChoice());
let lastSeen = null;
let page = null;

const connection = {
  // isLive: whether what is shown is the service's present data.
  found(isLive = true) {
    lastSeen = new Date();
    banner.hidden = true;
    live.classList.toggle("on", isLive);
    say(live, isLive ? "Live" : "");
  },
  lost() {
    const since = lastSeen === null ? "" : ` The data shown is from ${lastSeen.toLocaleTimeString("en-GB")}.`;
    say(banner, `The service does not respond. Retrying automatically.${since}`);
    banner.hidden = false;
    live.classList.remove("on");
    say(live, "Offline");
  },
};

async function route() {
  // "#main" is the target of the skip link, not a page.
  if (location.hash === "#main") return;
  page?.stop();
  page = null;
  const key = seen("key"); // of a shared link; what is behind "#" is not sent to the service
  if (key) {
    keep("key", "");
    try {
      const caller = await session().catch((error) => {
        if (error.status !== 401) throw error;
        return null; // nobody is signed in
      });
      if (caller === null || (caller.key !== key.split("_")[1] && await replaces(main, caller))) {
        await signIn(key);
        await session(true);
      }
    } catch (error) {
      failed(error);
      return;
    }
  }
  const [, kind, ...names] = location.hash.split("?")[0].split("/").map(decoded);
  document.title = [...(["e", "c"].includes(kind) ? [names.join(" and ")] : []), "Optimist"].join(" · ");
  fill(main);
  if (kind === "c") page = showComparison(main, names, connection, failed);
  else if (kind === "e") page = showExperiment(main, names.join("/"), connection, failed);
  else page = showOverview(main, connection, failed);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function failed(error) {
  // Errors without a status are bugs in the page: also log them to the console.
  if (error.status === undefined) console.error(error);
  else connection.found(false);
  if (error.status === 401) {
    showSignIn(main, route);
    return;
  }
  fill(
    main,
    h("div", { class: "empty" }, [
      h("h1", {}, error.status === 404 ? "Not found" : "This page cannot be shown"),
      h("p", {}, error.message),
      h("p", {}, h("a", { href: "#/" }, "All experiments")),
    ]),
  );
}

// A menu closes with Escape, and with a click elsewhere, but not while it asks for something.
function closeMenus(besides, focus) {
  if (document.querySelector("dialog[open]")) return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (menu.contains(besides)) continue;
    menu.open = false;
    if (focus) menu.firstChild.focus();
  }
}
document.addEventListener("keydown", ({ key }) => key === "Escape" && closeMenus(null, true));
document.addEventListener("pointerdown", ({ target }) => closeMenus(target, false));

window.addEventListener("hashchange", async () => {
  await route();
  if (location.hash !== "#main") main.focus();
});
route();
