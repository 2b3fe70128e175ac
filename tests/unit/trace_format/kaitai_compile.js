// SPDX-License-Identifier: BSD-2-Clause
// Compiles Kaitai Struct descriptions to Python: node kaitai_compile.js MODULE_FOLDER MAIN < descriptions.json
// The descriptions (name -> parsed YAML) come on standard input; the Python modules (file -> text) go to standard output.
const fs = require("fs");
const path = require("path");
const [folder, main] = process.argv.slice(2);
const compiler = require(path.resolve(folder, "kaitai-struct-compiler"));
const descriptions = JSON.parse(fs.readFileSync(0, "utf8"));
const importer = { importYaml: async (name) => descriptions[name] };
compiler.compile("python", descriptions[main], importer, false).then(
  (files) => console.log(JSON.stringify(files)),
  (error) => {
    console.error(String(error));
    process.exit(1);
  },
);
