"""The style and the script of a page; a page is complete without the script."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --line: #8886; --shade: #8887; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem;
  overflow-wrap: anywhere; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
/* a shade at an edge behind which there is more; the covers move with the content */
.wide {
  overflow-x: auto;
  background:
    linear-gradient(to right, Canvas 40%, transparent) left / 3rem 100% no-repeat local,
    linear-gradient(to left, Canvas 40%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / 1rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat scroll;
}
table { border-collapse: collapse; margin-bottom: 1rem; font-size: .9rem; }
td { font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
caption { text-align: left; font-size: .8rem; padding-top: .4rem; }
caption { position: sticky; left: 0; max-width: calc(100vw - 3rem); }
td:first-child { max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
th[role=button] { cursor: pointer; }
th[aria-sort=ascending]::after { content: " \\2191"; }
th[aria-sort=descending]::after { content: " \\2193"; }
input[type=search] { font: inherit; margin: .5rem 0; max-width: 100%; }
figure { margin: 1rem 0; }
figcaption { font-size: .9rem; }
svg { display: block; width: 100%; height: auto; min-width: 30rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.5rem; }
dd { margin: 0; }
dd span { white-space: nowrap; }
summary { cursor: pointer; padding: .3rem 0; }
footer { margin-top: 3rem; font-size: .8rem; }
@media (prefers-color-scheme: dark) {
  svg { filter: invert(.93) hue-rotate(180deg) brightness(1.25); }
}
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } dd { margin-left: 1rem; } }
@media print { body { max-width: none; } h2, figure, tr { break-inside: avoid; } }
"""

# Headers sort their table, numbers as numbers; a search field filters a table of many rows.
SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const number = text =>
    /^[<+-]?(inf|\\.?\\d[\\d,.]*(e[+-]?\\d+)?)(?![^\\s%†])/.test(text)
      ? parseFloat(text.replace(/[,+<]/g, "").replace("inf", "Infinity")) : NaN;
  // numbers, then text, then what is missing
  const group = text => text === "" || text === "-" ? 2 : isNaN(number(text)) ? 1 : 0;
  const sort = (head, column) => {
    const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map(row => [row.cells[column].textContent.trim(), row]);
    rows.sort(([a], [b]) => {
      if (group(a) !== group(b)) return group(a) - group(b);
      if (group(a)) return sign * a.localeCompare(b, undefined, {numeric: true});
      const [x, y] = [number(a), number(b)];
      return x === y ? 0 : sign * (x - y);
    });
    body.append(...rows.map(([, row]) => row));
  };
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.setAttribute("role", "button");
    head.title = "Sort by this column";
    head.addEventListener("click", () => sort(head, column));
    head.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(head, column);
    });
  });
  if (body.rows.length < 8) continue;
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "Filter rows";
  search.setAttribute("aria-label", "Filter rows");
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(search);
}
"""
