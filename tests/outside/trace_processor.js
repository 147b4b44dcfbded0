// Perfetto's trace processor, as its user interface runs it in a worker of the browser, here in node.
//
//     node trace_processor.js FOLDER < requests > replies
//
// FOLDER holds engine_bundle.js and the .wasm files. Requests and replies are streams of TraceProcessorRpc messages.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const requests = fs.readFileSync(0);
const quit = process.exit.bind(process);

globalThis.self = globalThis;
globalThis.location = { href: "http://localhost/engine_bundle.js" };
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = function () {};
globalThis.XMLHttpRequest = class {
  open(_method, url) {
    this.url = url;
  }
  send() {
    const data = fs.readFileSync(path.join(folder, path.basename(this.url)));
    this.status = 200;
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  }
};
console.log = (...words) => process.stderr.write(words.join(" ") + "\n");

const source = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
const nodeProcess = globalThis.process;
const write = (data) => fs.writeSync(1, data);
globalThis.process = undefined; // or else the bundle takes itself to be in node
vm.runInThisContext(source);

const port = {
  postMessage(data) {
    let left = Buffer.from(data);
    while (left.length) left = left.subarray(write(left));
  },
};
globalThis.onmessage({ data: port });
setTimeout(() => {
  const piece = 16 << 20;
  for (let at = 0; at < requests.length; at += piece) {
    port.onmessage({ data: new Uint8Array(requests.subarray(at, at + piece)) });
  }
  globalThis.process = nodeProcess;
  quit(0);
}, 0);
