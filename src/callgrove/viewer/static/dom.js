/**
 * Elements made of text: nothing here, or anywhere else, parses markup.
 *
 * @typedef {HTMLElementEventMap} Events
 *
 * @typedef {Object} Properties
 * @property {string} [class]
 * @property {string} [text]
 * @property {Record<string, string>} [attributes]
 * @property {{ [E in keyof Events]?: (event: Events[E]) => void }} [on]  listeners by event
 *
 * @typedef {[value: string, text: string]} Option  to choose
 */

/**
 * An element with its text or its children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Properties} [properties]
 * @param {(Node | null)[]} [children]
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, properties = {}, children = []) {
  const made = document.createElement(tag);
  if (properties.class) made.className = properties.class;
  if (properties.text !== undefined) made.textContent = properties.text;
  for (const [name, value] of Object.entries(properties.attributes ?? {})) made.setAttribute(name, value);
  for (const [event, listener] of Object.entries(properties.on ?? {}))
    made.addEventListener(event, /** @type {EventListener} */ (listener));
  for (const child of children) if (child) made.append(child);
  return made;
}

/**
 * A text that may go on in a new line behind certain characters, so that it is not cut within words.
 * @param {string} text
 * @param {RegExp} behind  where it may: an empty place behind a character
 * @returns {Node[]}
 */
export function breakable(text, behind) {
  return text
    .split(behind)
    .flatMap((part) => [document.createTextNode(part), element("wbr")])
    .slice(0, -1);
}

/**
 * A button that says what it does.
 * @param {string} text
 * @param {string} title
 * @param {(event: MouseEvent) => void} action
 */
export function button(text, title, action) {
  return element("button", { text, attributes: { type: "button", title }, on: { click: action } });
}

/**
 * A list to choose from, with its label.
 * @param {string} label
 * @param {Option[]} options
 * @param {string} value
 * @param {(value: string) => void} chosen
 * @returns {{ root: HTMLElement, set: (value: string) => void }}
 */
export function choice(label, options, value, chosen) {
  const select = element(
    "select",
    { on: { change: () => chosen(select.value) } },
    options.map(([key, text]) => element("option", { text, attributes: { value: key } })),
  );
  select.value = value;
  const root = element("label", { class: "choice" }, [element("span", { text: label }), select]);
  return {
    root,
    set: (next) => {
      select.value = next;
    },
  };
}

/**
 * Buttons of which one is pressed; arrow keys go from one to the next.
 * @param {string} label
 * @param {Option[]} options
 * @param {string} value
 * @param {(value: string) => void} chosen
 * @returns {{ root: HTMLElement, set: (value: string) => void }}
 */
export function switches(label, options, value, chosen) {
  const buttons = options.map(([key, text]) => {
    const made = button(text, text, () => {
      set(key);
      chosen(key);
    });
    made.setAttribute("role", "radio");
    made.dataset.value = key;
    return made;
  });
  const root = element("div", { class: "switches", attributes: { role: "radiogroup", "aria-label": label } }, buttons);
  root.addEventListener("keydown", (event) => {
    const step = takeKey(event, { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 });
    if (!step) return;
    const at = buttons.findIndex((one) => one.getAttribute("aria-checked") === "true");
    const next = buttons[(at + step + buttons.length) % buttons.length];
    next.click();
    next.focus();
  });
  /** @param {string} next */
  function set(next) {
    for (const one of buttons) {
      one.setAttribute("aria-checked", String(one.dataset.value === next));
      one.tabIndex = one.dataset.value === next ? 0 : -1;
    }
  }
  set(value);
  return { root, set };
}

/**
 * Return what a pressed key stands for, and keep the event from everything else; undefined for other keys.
 * @template T
 * @param {KeyboardEvent} event
 * @param {Record<string, T>} keys
 * @returns {T | undefined}
 */
export function takeKey(event, keys) {
  if (!Object.hasOwn(keys, event.key)) return undefined;
  event.preventDefault();
  event.stopPropagation();
  return keys[event.key];
}
