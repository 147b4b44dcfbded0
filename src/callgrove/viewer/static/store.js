/**
 * What panels of a section agree on: the metric (by name), the search (its text) and steps from one of what it found to
 * the next, the tab that is open (its title), the model that is plotted.
 */

/**
 * @typedef {Object} Store
 * @property {function(string): any} get
 * @property {function(string, any): void} set
 * @property {function(string, function(any): void): void} watch  called at every change
 */

/**
 * @param {Object<string, any>} values
 * @returns {Store}
 */
export function createStore(values) {
  const state = { ...values };
  /** @type {Map<string, (function(any): void)[]>} */
  const watchers = new Map();
  return {
    get: (name) => state[name],
    set(name, value) {
      if (state[name] === value) return;
      state[name] = value;
      for (const watcher of watchers.get(name) ?? []) watcher(value);
    },
    watch(name, watcher) {
      watchers.set(name, [...(watchers.get(name) ?? []), watcher]);
    },
  };
}

/**
 * What a search finds: a part of the name, whatever the case, or /a regular expression/.
 * @param {string} text
 * @returns {(function(string): boolean) | null}  null where nothing is searched
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
