/**
 * Where a report begins: reads the data in the page and draws it. A new kind of panel is a module, its data in
 * documents.d.ts, and a line here.
 *
 * @import { Drawers } from "./page.js"
 */

import { drawCallTree } from "./calltree.js";
import { drawComparedFlame } from "./compare_flame.js";
import { drawComparison } from "./compare_overview.js";
import { drawComparedTables } from "./compare_tables.js";
import { drawComparedTime } from "./compare_time.js";
import { unpack } from "./data.js";
import { drawEfficiency } from "./efficiency.js";
import { drawFlame } from "./flame.js";
import { drawDevices, drawGpu } from "./gpu.js";
import { drawGrowth } from "./growth.js";
import { drawHotspots } from "./hotspots.js";
import { drawMetrics } from "./metrics.js";
import { drawPage } from "./page.js";
import { drawScaling } from "./scaling.js";
import { drawSpread } from "./spread.js";
import { drawTimeline } from "./timeline.js";
import { drawUnavailable } from "./unavailable.js";

/** @type {Drawers} */
const PANELS = {
  hotspots: drawHotspots,
  flame: drawFlame,
  calltree: drawCallTree,
  spread: drawSpread,
  metrictree: drawMetrics,
  efficiency: drawEfficiency,
  timeline: drawTimeline,
  devices: drawDevices,
  gpu: drawGpu,
  growth: drawGrowth,
  scaling: drawScaling,
  comparison: drawComparison,
  compareflame: drawComparedFlame,
  comparetree: drawComparedTables,
  comparetime: drawComparedTime,
  unavailable: drawUnavailable,
};

async function start() {
  const data = document.getElementById("callgrove-data")?.textContent ?? "{}";
  try {
    drawPage(document.body, await unpack(data), PANELS);
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    document.body.append(`This report cannot be drawn here: ${error}. It needs a browser of 2023 or newer.`);
    throw error;
  }
}

start();
