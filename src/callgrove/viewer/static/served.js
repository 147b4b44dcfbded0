/**
 * The provider of the viewer: asks the server that the page came from. All addresses are relative, as a proxy may have
 * put the page anywhere.
 *
 * @import { Look, Outline, Provider, Requests } from "./documents.js"
 *
 * @typedef {Object} InputStatus  how far opening an input is
 * @property {string} name
 * @property {"opening" | "failed" | "ready"} state
 * @property {string} doing
 * @property {number} done
 * @property {number | null} total
 * @property {string} error
 */

import { unpackAnswer } from "./data.js";

const NO_ANSWER =
  "The viewer does not answer: it has ended, or the connection to it is gone. " +
  "Start the viewer or the tunnel again; a new viewer prints a new address.";
const STALE = 409; // status of answers to questions about files that changed

/** What the server answers where it gives no data; `position` is where a text that was typed is wrong. */
export class Refused extends Error {
  /**
   * @param {string} message
   * @param {number} status
   * @param {number | null} position
   */
  constructor(message, status, position) {
    super(message);
    this.status = status;
    this.position = position;
  }
}

/** @implements {Provider} */
export class ServedProvider {
  live = true;
  /**
   * Called where the files of an input are no longer those that were opened.
   * @type {(input: number, message: string) => void}
   */
  onStale = () => {};

  /** @returns {Promise<Outline>} */
  async outline() {
    return /** @type {Outline} */ (await unpackAnswer(await asked("api/outline")));
  }

  /**
   * @template {keyof Requests} N
   * @param {N} name
   * @param {Requests[N]["parameters"]} parameters
   * @param {AbortSignal} [signal]
   * @returns {Promise<Requests[N]["answer"]>}
   */
  async get(name, parameters, signal) {
    try {
      const answer = await asked(`api/${name}?${queryOf(parameters)}`, { signal });
      return /** @type {Requests[N]["answer"]} */ (await unpackAnswer(answer));
    } catch (error) {
      if (error instanceof Refused && error.status === STALE) this.onStale(parameters.input, error.message);
      throw error;
    }
  }

  /**
   * One page of what is looked at, to keep; or of its comparison with another input.
   * @param {Look} look
   * @param {number} [other]
   */
  async report(look, other) {
    const query = queryOf(other === undefined ? look : { ...look, with: other });
    return new Blob([await asked(`api/report?${query}`)], { type: "text/html" });
  }

  /** @returns {Promise<InputStatus[]>} */
  async status() {
    return JSON.parse(new TextDecoder().decode(await asked("api/status"))).inputs;
  }

  /**
   * Have an input opened again.
   * @param {number} input
   */
  async open(input) {
    await asked(`api/open?input=${input}`, { method: "POST" });
  }
}

/**
 * Parameters as the query of an address; lists are given item by item.
 * @param {object} parameters  texts, numbers, lists of texts
 */
export function queryOf(parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  return query.toString();
}

/**
 * @param {string} address
 * @param {RequestInit} [how]
 */
async function asked(address, how = {}) {
  let answer;
  try {
    answer = await fetch(address, { ...how, credentials: "same-origin" });
  } catch (error) {
    if (how.signal?.aborted) throw error;
    throw new Refused(NO_ANSWER, 0, null);
  }
  const body = await answer.arrayBuffer();
  if (answer.ok) return body;
  throw refusal(new TextDecoder().decode(body), answer.status);
}

/**
 * @param {string} text
 * @param {number} status
 */
function refusal(text, status) {
  try {
    const { error, position } = JSON.parse(text);
    return new Refused(error, status, position ?? null);
  } catch {
    return new Refused(text.trim() || `the viewer answered ${status}`, status, null);
  }
}
