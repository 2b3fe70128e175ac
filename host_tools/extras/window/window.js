// SPDX-License-Identifier: BSD-2-Clause
"use strict";
// Keys are links of the page. Without this script, all of it works with the mouse.
(() => {
  const current = document.querySelector(".list [aria-current]");
  if (current) { current.scrollIntoView({ block: "center" }); }
  const links = document.querySelectorAll(".list li a");
  const targets = {
    ArrowLeft: document.querySelector("a[rel=prev]"),
    ArrowRight: document.querySelector("a[rel=next]"),
    Home: links[0],
    End: links[links.length - 1],
  };
  document.addEventListener("keydown", (event) => {
    const plain = !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey);
    if (plain && targets[event.key] && !event.target.matches("input, select")) {
      event.preventDefault();
      location.assign(targets[event.key].href);
    }
  });
})();
