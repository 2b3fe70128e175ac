// SPDX-License-Identifier: BSD-2-Clause
"use strict";
// Search: all that has an identifier, by its text. Without this script the page has all but that.
(() => {
  const field = document.getElementById("search");
  const list = document.getElementById("found");
  const most = 40;
  let places = null;
  const places_of_page = () => {
    const rows = document.querySelectorAll("main tr[id], main details[id], main .finding[id]");
    return Array.from(rows, (row) => {
      const head = row.matches("details") ? row.querySelector("summary") : row;
      const words = Array.from(head.querySelectorAll("th, td, h3, p"), (cell) => cell.textContent.trim());
      const shown = (words.length ? words.join("  ") : head.textContent).replace(/\s+/g, " ").trim();
      return { id: row.id, shown: shown.slice(0, 110), text: row.textContent.toLowerCase() };
    });
  };
  const entry = (text, id) => {
    const item = document.createElement("li");
    if (id) {
      const link = document.createElement("a");
      link.href = "#" + id;
      link.textContent = text;
      item.append(link);
    } else {
      item.textContent = text;
    }
    return item;
  };
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    places = places || places_of_page();
    const hits = words.length ? places.filter((place) => words.every((word) => place.text.includes(word))) : [];
    const items = hits.slice(0, most).map((hit) => entry(hit.shown, hit.id));
    if (hits.length > most) { items.push(entry("and " + (hits.length - most) + " more")); }
    if (words.length) { if (!hits.length) { items.push(entry("nothing on this page")); } }
    list.replaceChildren(...items);
  };
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) { if (at.matches("details")) { at.open = true; } }
    if (target) { target.scrollIntoView(); }
  };
  // Where a graph is wider than the screen, its inputs are in view.
  const centre = () => document.querySelectorAll(".graph").forEach((graph) => {
    const start = graph.querySelector(".slot-node, .node");
    const left = start ? start.getBoundingClientRect().left - graph.getBoundingClientRect().left : 0;
    graph.scrollLeft += left - graph.clientWidth / 2 + (start ? start.getBoundingClientRect().width / 2 : 0);
  });
  centre();
  document.querySelectorAll(".views input").forEach((input) => input.addEventListener("change", centre));
  document.getElementById("finder").hidden = false;
  field.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/") { return; }
    if (event.target.matches("input")) { return; }
    event.preventDefault();
    field.focus();
  });
  addEventListener("hashchange", unfold);
  if (location.hash) { unfold(); }
})();
