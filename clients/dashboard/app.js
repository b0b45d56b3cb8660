// Shows the page that the URL's hash selects ("#/": the list, "#/e/<name>": one experiment, "#/c/<name>/<name>/…": several,
// "#/r/<name>": the page for raters) and the connection status.
import { signIn } from "./api.js";
import { showComparison } from "./compare.js";
import { fill, h, say } from "./dom.js";
import { showExperiment } from "./experiment.js";
import { showOverview } from "./overview.js";
import { ratingLink, showRating, showRatings } from "./rating.js";
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
  const isRater = document.documentElement.dataset.role === "rater";
  const [, kind, ...names] = location.hash.split("?")[0].split("/").map(decoded);
  document.title = [...(["e", "c", "r"].includes(kind) ? [names.join(" and ")] : []), "Optimist"].join(" · ");
  fill(main);
  if (isRater && kind !== "r") toRate((await session()).experiments);
  else if (kind === "c") page = showComparison(main, names, connection, failed);
  else if (kind === "r" && names[0]) page = showRating(main, names.join("/"), connection, failed);
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

async function failed(error) {
  // Errors without a status are bugs in the page: also log them to the console.
  if (error.status === undefined) console.error(error);
  else connection.found(false);
  if (error.status === 401) {
    showSignIn(main, route);
    return;
  }
  if (error.status === 403 && !location.hash.startsWith("#/r/")) {
    const caller = await session().catch(() => null);
    if (caller?.role === "rater") {
      toRate(caller.experiments);
      return;
    }
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

// A rater's key opens the page for raters of the experiments that it names, and nothing else.
function toRate(names) {
  if (names.length === 1) location.replace(ratingLink(names[0]));
  else page = showRatings(main, names);
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
