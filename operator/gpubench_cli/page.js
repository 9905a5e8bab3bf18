// SPDX-License-Identifier: Apache-2.0
// Long tables are sorted by a click on a heading, and filtered. Without a script a page has all the same rows.
"use strict";
const element = (name, properties, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
for (const table of document.querySelectorAll("table.long")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const number = (row, at) => parseFloat(row.cells[at].textContent.replaceAll(",", "").match(/-?\d+(\.\d+)?/)?.[0]);
  const compare = (at) => (a, b) => heads[at].classList.contains("number")
    ? number(a, at) - number(b, at)
    : a.cells[at].textContent.localeCompare(b.cells[at].textContent, "en", {numeric: true});
  const sort = (at, down) => {
    const unknown = (row) => heads[at].classList.contains("number") && Number.isNaN(number(row, at));
    const known = rows.filter((row) => !unknown(row)).sort(compare(at));
    body.append(...(down ? known.reverse() : known), ...rows.filter(unknown));
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[at].setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  heads.forEach((head, at) => {
    const button = element("button", {type: "button"}, head.textContent);
    button.onclick = () => sort(at, head.getAttribute("aria-sort") === "ascending");
    head.replaceChildren(button);
  });
  const shown = element("output", {}), words = element("input", {type: "search"});
  words.oninput = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
    shown.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  words.oninput();
  const by = element("select", {}, ...heads.map((head, at) => new Option(head.textContent, at)));
  by.selectedIndex = -1;
  by.onchange = () => sort(by.selectedIndex, false);
  const filter = element("label", {}, "Filter ", words), order = element("label", {className: "narrow"}, "Sort by ", by);
  table.before(element("div", {className: "tools"}, filter, order, shown));
}
