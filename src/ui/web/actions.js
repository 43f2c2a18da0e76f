/* actions.js - what a person can change here, each after a question. */

import { boxPath, call, post } from "./api.js";
import { ask, say, sayProblem } from "./dialog.js";
import { nameOf, owner } from "./format.js";

async function act(done, what, work) {
  try {
    await work();
    say(done);
    return true;
  } catch (problem) {
    sayProblem(what, problem);
    return false;
  }
}

const profileVerbs = {
  pause: ["Pause", "New leases of this profile wait until it is resumed. Leases that exist go on."],
  drain: ["Drain", "New leases of this profile are refused until it is resumed. Leases that exist go on."],
  resume: ["Resume", "New leases of this profile are served again."],
};

/* `name` null: the whole pool. */
export async function changeMode(verb, name) {
  const [title, text] = profileVerbs[verb];
  const whose = name === null ? "the pool" : `profile ${name}`;
  const fields = verb === "resume" ? [] : [{ name: "message", label: "Message for callers (optional)" }];
  const answer = await ask({
    title: `${title} ${whose}?`,
    text: name === null ? text.replaceAll(" of this profile", "") : text,
    verb: title,
    fields,
  });
  if (answer === null) return false;
  const body = {};
  if (name !== null) body.profile = name;
  if (answer.message) body.message = answer.message;
  const done = { pause: "is paused", drain: "is draining", resume: "serves again" }[verb];
  return act(`${whose} ${done}.`, `${title} ${whose}`, () => post(`v1/pool/${verb}`, body));
}

const boxVerbs = {
  destroy: ["Destroy", "It ends now, with all that runs in it and all its files.", "is being destroyed"],
  release: ["Release", "Its lease ends. It stays parked for its thread as its profile says.", "was released"],
  pause: ["Pause", "Its processes stand still until the next call that needs it.", "is paused"],
  resume: ["Resume", "Its processes go on.", "runs"],
};

/* The generation goes along, so that a box that has replaced it meanwhile is left alone. */
function changeBox(verb, box) {
  const id = nameOf(box);
  const isLeased = Boolean(box.sandbox_id);
  if (verb === "destroy") return call("DELETE", `${boxPath(id)}?quick=1${isLeased ? `&generation=${box.generation}` : ""}`);
  if (verb === "release") return post(`${boxPath(id)}/release`, { generation: box.generation });
  return post(`${boxPath(id)}/${verb}`);
}

export async function actOnBox(verb, box) {
  const [title, text, done] = boxVerbs[verb];
  const id = nameOf(box);
  const answer = await ask({
    title: `${title} ${id}?`,
    text: `${owner(box) === "-" ? "Nobody holds it." : `It is held by ${owner(box)}.`} ${text}`,
    verb: title,
    isDangerous: verb === "destroy",
  });
  return answer !== null && act(`${id} ${done}.`, `${title} ${id}`, () => changeBox(verb, box));
}

/* Which of them fit. */
export function verbsOf(box) {
  const verbs = [];
  if (box.state === "leased") verbs.push("release");
  if (box.paused) verbs.push("resume");
  else if (box.state === "leased" || box.state === "parked") verbs.push("pause");
  if (box.state !== "deleting") verbs.push("destroy");
  return verbs;
}

export const verbTitle = (verb) => (boxVerbs[verb] ?? profileVerbs[verb])[0];
