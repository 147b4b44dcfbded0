/**
 * What panels of a section agree on.
 *
 * @typedef {Object} State
 * @property {number} input  of the section
 * @property {string[]} metrics  names of those to choose from
 * @property {string} metric
 * @property {string} search  its text
 * @property {{ by: number } | null} step  from one of what the search found to the next (1) or the one before (-1)
 * @property {string} tab  the title of the one that is open
 * @property {{ start: string, length: number } | null} window  ns: what the timeline shows, by the clock of the traces
 * @property {TimeView | null} time  what of the timeline of the viewer is in sight, null for everything
 * @property {{ path: string[] } | null} reveal  rows of the call tree to go to, by their keys from the outermost on
 * @property {number | null} model  that is plotted
 * @property {string[]} derive  definitions of metrics that the user typed
 * @property {string} filter  a pattern of call paths, empty for all
 * @property {string[]} columns  metrics that they show beside the chosen one
 * @property {string} named  the function that a flame graph is of
 * @property {Readonly<Record<string, string>>} at  where in a view somebody is, by words of the address
 *
 * @typedef {Object} TimeView  part of a timeline; times are ns since it begins
 * @property {[number, number] | null} window
 * @property {[number, number] | null} rows
 * @property {number} depth  0: innermost calls
 * @property {[number, number] | null} range  that is selected
 * @property {{ row: number, time: number } | null} cursor
 * @property {string} origin  when the timeline begins, by the clock of the traces
 *
 * @typedef {(name: string) => boolean} Fits  does a search find a name?
 */

/** The state of a section, and who wants to know of its changes. */
export class Store {
  /** @type {{ by: Store, name: keyof State, tell: () => void }[]} */
  #watchers = [];
  #state;
  /** @type {Store} */
  #root;

  /**
   * @param {State} state
   * @param {Store} [root]
   */
  constructor(state, root) {
    this.#state = state;
    this.#root = root ?? this;
  }

  /** Return a store of the same state, whose watchers can be dismissed together. */
  branch() {
    return new Store(this.#state, this.#root);
  }

  /** Tell those who watched by this store nothing more. */
  dismiss() {
    this.#root.#watchers = this.#root.#watchers.filter(({ by }) => by !== this);
  }

  /**
   * @template {keyof State} N
   * @param {N} name
   */
  get(name) {
    return this.#state[name];
  }

  /**
   * @template {keyof State} N
   * @param {N} name
   * @param {State[N]} value
   */
  set(name, value) {
    if (this.#state[name] === value) return;
    this.#state[name] = value;
    for (const { tell } of this.#root.#watchers.filter((one) => one.name === name)) tell();
  }

  /**
   * Say where in a view somebody is; what is empty is not said.
   * @param {Record<string, string>} places
   */
  mark(places) {
    const at = { ...this.#state.at, ...places };
    for (const [name, text] of Object.entries(at)) if (!text) delete at[name];
    const same = JSON.stringify(Object.entries(at).sort()) === JSON.stringify(Object.entries(this.#state.at).sort());
    if (!same) this.set("at", at);
  }

  /**
   * Have a function called at every change.
   * @template {keyof State} N
   * @param {N} name
   * @param {(value: State[N]) => void} watcher
   */
  watch(name, watcher) {
    this.#root.#watchers.push({ by: this, name, tell: () => watcher(this.#state[name]) });
  }
}

/**
 * What a search finds: a part of the name, whatever the case, or /a regular expression/.
 * @param {string} text
 * @returns {Fits | null}  null where nothing is searched
 */
export function matcher(text) {
  const wanted = text.trim();
  if (!wanted) return null;
  if (wanted.length > 2 && wanted.startsWith("/") && wanted.endsWith("/")) {
    try {
      const pattern = new RegExp(wanted.slice(1, -1), "i");
      return (name) => pattern.test(name);
    } catch {
      // not a pattern yet: it is being typed
    }
  }
  const lower = wanted.toLowerCase();
  return (name) => name.toLowerCase().includes(lower);
}
