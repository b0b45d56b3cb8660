// Requests to the service. Responses are cached by their ETag; errors are problem details (RFC 9457).

// The service refused the request: the message says why and what was expected.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The service responded with status ${status}.`);
    this.status = status;
  }
}

// The service did not respond, or is temporarily unavailable.
export class Unreachable extends Error {}

const TIMEOUT = 15000;
const known = new Map(); // kind of request → its newest response and ETag
let skew = 0; // milliseconds by which the service's clock is ahead

// The time of the service's clock in seconds.
export const serviceTime = () => (Date.now() + skew) / 1000;

// The current response for a path. One response is cached for each `kind` of request.
export async function get(path, kind = path) {
  const before = known.get(kind);
  const headers = before?.path === path ? { "if-none-match": before.tag } : {};
  const reply = await ask(path, { headers, cache: "no-store" });
  if (reply.status === 304) return before.data;
  const data = await reached(reply.json());
  const tag = reply.headers.get("etag");
  if (tag) known.set(kind, { path, tag, data });
  return data;
}

// Remove the cached response of a kind of request.
export const forget = (kind) => known.delete(kind);

export const getText = async (path) => {
  const reply = await ask(path, { cache: "no-store" });
  return reached(reply.text());
};

export async function change(method, path, body, timeout = TIMEOUT) {
  const reply = await ask(path, {
    method,
    signal: AbortSignal.timeout(timeout),
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return reply.status === 204 ? null : reached(reply.json());
}

// Exchange the key for a cookie that scripts cannot read. After this neither the page nor a URL contains the key.
export async function signIn(key) {
  await ask("v1/session", { method: "POST", headers: { authorization: `Bearer ${key}` } });
}

// What arrives from the service. A connection may break before a response or in the middle of its body.
async function reached(arriving) {
  try {
    return await arriving;
  } catch (error) {
    throw new Unreachable(error.message);
  }
}

async function ask(path, options) {
  const reply = await reached(fetch(path, { signal: AbortSignal.timeout(TIMEOUT), ...options }));
  const date = Date.parse(reply.headers.get("date"));
  // The header has a resolution of one second, so small differences are ignored.
  if (!Number.isNaN(date)) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (reply.ok || reply.status === 304) return reply;
  let problem = {};
  try {
    problem = await reply.json();
  } catch {
    // Not JSON, for example an error page of a proxy: use the status only.
  }
  // The service answers 503 while Redis is down. This is temporary, as if the service itself were down.
  const isTemporary = reply.status >= 500 || reply.status === 429;
  if (isTemporary && problem.action !== "stop") throw new Unreachable(problem.detail || reply.statusText);
  throw new Refused(reply.status, problem);
}

export const experimentPath = (name) => `v1/experiments/${encodeURIComponent(name)}`;
export const generatorPath = (name, generator) =>
  `${experimentPath(name)}/generators/${encodeURIComponent(generator)}`;
