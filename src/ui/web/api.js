/* api.js - calls of the daemon. The token of a caller on TCP is kept in this variable alone: it is gone when the page is, and
 * no other page, also none that a box serves under this address, can read it. It is sent as a header, never in an address. */

let token = null;
const listeners = { login: () => {} };

export const base = new URL("../", import.meta.url);

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const onLoginNeeded = (listener) => (listeners.login = listener);
export const hasToken = () => token !== null;
export const setToken = (value) => (token = value);

/* For a WebSocket, which can have no header of ours: a subprotocol, which the daemon takes away. */
export function tokenProtocols() {
  if (token === null) return [];
  const text = String.fromCharCode(...new TextEncoder().encode(token));
  return [`sandpool.bearer.${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`];
}

async function failure(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    /* not from the daemon */
  }
  return new ApiError(response.status, error.code ?? "", error.message ?? `the answer is ${response.status} ${response.statusText}`);
}

/* The answer as fetch() gives it; an ApiError when it is none of success. */
export async function request(method, path, { body, signal, headers = {} } = {}) {
  const options = { method, signal, headers: { ...headers }, cache: "no-store", credentials: "omit", redirect: "error" };
  if (token !== null) options.headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(new URL(path, base), options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new ApiError(0, "away", "the daemon does not answer");
  }
  if (response.ok) return response;
  const problem = await failure(response);
  if (response.status === 401) listeners.login();
  throw problem;
}

export async function call(method, path, options) {
  const response = await request(method, path, options);
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { ...options, body });
/* A part of a path. */
export const esc = encodeURIComponent;
export const boxPath = (id) => `v1/sandboxes/${esc(id)}`;
