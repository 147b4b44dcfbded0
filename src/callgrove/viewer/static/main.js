/**
 * Where a report begins: reads the data in the page and draws it.
 *
 * @import { Report } from "./documents.js"
 */

import { unpack } from "./data.js";
import { drawPage } from "./page.js";
import { PANELS } from "./panels.js";
import { InlinedProvider } from "./provider.js";

async function start() {
  const data = document.getElementById("callgrove-data")?.textContent ?? "{}";
  try {
    const report = /** @type {Report} */ (await unpack(data));
    await drawPage(document.body, new InlinedProvider(report), PANELS);
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    document.body.append(`This report cannot be drawn here: ${error}. It needs a browser of 2023 or newer.`);
    throw error;
  }
}

start();
