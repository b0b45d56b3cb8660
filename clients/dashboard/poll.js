// Polls the service: less often while the page is hidden, and with growing pauses while the service does not respond.
import { Unreachable } from "./api.js";

const EVERY = 2000;
const HIDDEN = 30000;
const LONGEST = 10000;

// Calls `turn` repeatedly until `stop` of the returned object is called; `now` runs the next turn immediately. If a
// turn throws `Unreachable`, `connection.lost` is called, and `connection.found` after the next success. Other errors
// are passed to `failed` and end the polling.
export function poll(turn, connection, failed) {
  let timer = null;
  let failures = 0;
  let stopped = false;
  let running = false;
  let again = false;

  async function run() {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await turn();
      if (stopped) return;
      failures = 0;
      connection.found();
    } catch (error) {
      if (stopped) return;
      if (!(error instanceof Unreachable)) {
        stopped = true;
        failed(error);
        return;
      }
      failures += 1;
      connection.lost();
    } finally {
      running = false;
    }
    const pause = failures ? Math.min(LONGEST, 500 * 2 ** failures) : document.hidden ? HIDDEN : EVERY;
    timer = setTimeout(run, again ? 0 : pause);
    again = false;
  }

  const shown = () => {
    if (!document.hidden && !stopped) run();
  };
  document.addEventListener("visibilitychange", shown);
  window.addEventListener("online", shown);
  run();
  return {
    now: run,
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
      window.removeEventListener("online", shown);
    },
  };
}
