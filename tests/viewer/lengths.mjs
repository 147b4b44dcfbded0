// Names functions of more than 60 lines, and lines of more than 120 characters, which prettier leaves where they are
// comments or texts. Exits with 1 where there are any.
//
//     node lengths.mjs FILE...
import fs from "node:fs";
import ts from "typescript";

const MOST_LINES = 60;
const MOST_CHARACTERS = 120;

/** @param {string} path */
function complaintsOf(path) {
  const text = fs.readFileSync(path, "utf8");
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true);
  /** @type {string[]} */
  const complaints = [];
  text.split("\n").forEach((line, i) => {
    if (line.length > MOST_CHARACTERS) complaints.push(`${path}:${i + 1}: the line has ${line.length} characters`);
  });
  /** @param {ts.Node} node */
  const visit = (node) => {
    const [first, last] = [node.getStart(source), node.end].map((at) => source.getLineAndCharacterOfPosition(at).line);
    const lines = last - first + 1;
    if (ts.isFunctionLike(node) && lines > MOST_LINES)
      complaints.push(`${path}:${first + 1}: ${node.name?.getText(source) ?? "a function"} has ${lines} lines`);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return complaints;
}

const paths = process.argv.slice(2);
const complaints = paths.flatMap(complaintsOf);
for (const complaint of complaints) console.log(complaint);
if (!paths.length) console.log("no file was given");
process.exitCode = complaints.length || !paths.length ? 1 : 0;
