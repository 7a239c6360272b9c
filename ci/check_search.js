// SPDX-License-Identifier: Apache-2.0
// Checks how the search of the documentation ranks: node ci/check_search.js build/docs
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");

// A query, and the page that must be its first result.
const FIRST = {
  "out of memory": "help/troubleshooting",
  "shared memory": "shared-memory",
  "no kernel image": "help/troubleshooting",
  "invalid argument": "help/troubleshooting",
  "textures": "textures",
  "LaunchConfig": "python/classes/cudacore.LaunchConfig",
  "get_kernel": "python/classes/cudacore.ObjectCode",
  "pytorch": /^(interoperability|your-tensors)$/,
  "graph": "graph/index",
  "install": "install",
};
const LEFT_OUT = /^(contributing\/|conventions$|simulator\/extending$)/;

const folder = process.argv[2];
const element = { appendChild() {}, dataset: {}, classList: { add() {} } };
const context = vm.createContext({
  console,
  URLSearchParams,
  DOCUMENTATION_OPTIONS: {},
  document: { getElementById: () => null, createElement: () => element, documentElement: element, addEventListener() {} },
  window: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
});
context._ready = () => {};
context.window = context;
context._ = (text) => text;
const read = (name) => fs.readFileSync(path.join(folder, name), "utf-8");
for (const name of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"])
  vm.runInContext(read(name), context, { filename: name });
const results = (query) => {
  context.location = { search: `?q=${encodeURIComponent(query)}` };
  return vm.runInContext(`Search._performSearch(...Search._parseQuery(${JSON.stringify(query)}))`, context);
};

let failures = 0;
for (const [query, page] of Object.entries(FIRST)) {
  const pages = [...new Set(results(query).reverse().map((result) => result[0]))]; // the best one comes last
  const isFirst = page instanceof RegExp ? page.test(pages[0]) : pages[0] === page;
  const stray = pages.filter((name) => LEFT_OUT.test(name));
  if (isFirst && stray.length === 0) continue;
  failures++;
  console.error(`"${query}" finds ${pages.slice(0, 5).join(", ")}; first should be ${page}; contributors' pages: ${stray}`);
}
process.exit(failures === 0 ? 0 : 1);
