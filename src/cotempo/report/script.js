"use strict";
// Sorts tables by a click on a column's name, and copies them as Markdown, LaTeX or CSV. Pages work without it.
const text = (cell) => cell.dataset.v ?? cell.textContent.trim();
const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.dataset.name ?? text(cell)));
const formats = {
  Markdown(rows) {
    const line = (row) => `| ${row.map((cell) => cell.replace(/\\/g, "\\\\").replace(/\|/g, "\\|").replace(/\s+/g, " ")).join(" | ")} |`;
    return [line(rows[0]), `|${" --- |".repeat(rows[0].length)}`, ...rows.slice(1).map(line)].join("\n");
  },
  LaTeX(rows) {
    const words = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" };
    const safe = (cell) => cell.replace(/[\\~^&%$#_{}]/g, (letter) => words[letter] ?? `\\${letter}`);
    const line = (row) => `${row.map(safe).join(" & ")} \\\\`;
    const body = [line(rows[0]), "\\hline", ...rows.slice(1).map(line)].join("\n");
    return `\\begin{tabular}{${"l".repeat(rows[0].length)}}\n${body}\n\\end{tabular}`;
  },
  CSV(rows) {
    const computed = (cell) => /^[=+\-@\t\r]/.test(cell) && !(cell.trim() !== "" && Number.isFinite(Number(cell)));
    const safe = (cell) => (computed(cell) ? `'${cell}` : cell);
    const quote = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
    return rows.map((row) => row.map((cell) => quote(safe(cell))).join(",")).join("\n");
  },
};

async function copy(content) {
  try {
    await navigator.clipboard.writeText(content);
  } catch {
    const area = document.createElement("textarea");
    area.value = content;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function button(label, parent, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", action);
  parent.append(made);
  return made;
}

function sort(table, place) {
  const heads = [...table.tHead.rows[0].cells];
  const down = heads[place].getAttribute("aria-sort") === "ascending";
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[place].setAttribute("aria-sort", down ? "descending" : "ascending");
  const known = [...table.tBodies[0].rows].map((row) => [text(row.cells[place]), row]);
  const numeric = known.every(([value]) => value === "" || Number.isFinite(Number(value)));
  const compare = (a, b) => (numeric ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true }));
  known.sort(([a], [b]) => (a === "" || b === "" ? (a === "") - (b === "") : (down ? -1 : 1) * compare(a, b)));
  table.tBodies[0].append(...known.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.data")) {
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const name = head.textContent.trim();
    if (!name) return;
    head.dataset.name = name;
    head.textContent = "";
    button(name, head, () => sort(table, place)).title = "sort";
  });
  const tools = table.parentElement.querySelector(".tools");
  for (const [name, format] of Object.entries(formats)) {
    const made = button(`copy ${name}`, tools, async () => {
      await copy(format(rowsOf(table)));
      made.textContent = "copied";
      setTimeout(() => (made.textContent = `copy ${name}`), 1500);
    });
  }
}
