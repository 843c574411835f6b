"""What a page does where scripts run; without them it shows the same."""

from __future__ import annotations

_PROGRAM = r"""
for (const page of document.querySelectorAll(".smex-plan:not([data-live])")) {
  page.dataset.live = "";
  const unit = {B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30,
                "µs": 1e-6, ms: 1e-3, s: 1, "%": 1, "×": 1, "": 1};
  const value = (cell) => {
    const text = cell.textContent.trim();
    const found = /^([\d.,e+-]+)\s*(B|KiB|MiB|GiB|µs|ms|s|%|×|)$/.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) * unit[found[2]] : text;
  };

  // Where sections are, for who knows which one is wanted.
  const headings = [...page.querySelectorAll(":scope > h2")];
  if (headings.length > 3) {
    const bar = document.createElement("nav");
    for (const heading of headings) {
      const button = document.createElement("button");
      button.textContent = heading.textContent;
      button.onclick = () => heading.scrollIntoView();
      bar.append(button);
    }
    headings[0].before(bar);
  }

  // Tables of many rows: a field to search in, and headings to sort by.
  for (const table of page.querySelectorAll("table.sorted")) {
    const [head, ...rows] = table.rows;
    const field = document.createElement("input"), count = document.createElement("small");
    count.setAttribute("aria-live", "polite");
    field.type = "search";
    field.placeholder = "search " + rows.length + " rows";
    field.setAttribute("aria-label", "search the rows");
    if (rows.length > 5) table.parentNode.before(field, count);
    field.oninput = () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      const shown = rows.filter((row) => !row.hidden).length;
      count.textContent = shown < rows.length ? shown + " of " + rows.length : "";
    };
    [...head.cells].forEach((cell, column) => {
      const sort = () => {
        const up = cell.getAttribute("aria-sort") === "descending";
        for (const other of head.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keys = new Map(rows.map((row) => [row, value(row.cells[column])]));
        rows.sort((a, b) => {
          const [x, y] = [keys.get(a), keys.get(b)];
          const order = typeof x === "number" && typeof y === "number"
            ? x - y : String(x) < String(y) ? -1 : Number(String(x) > String(y));
          return up ? order : -order;
        });
        rows[0].parentNode.append(...rows);
      };
      cell.tabIndex = 0;
      cell.onclick = sort;
      cell.onkeydown = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort();
      };
    });
  }

  // What is referred to is shown, also where a search has hidden it.
  for (const link of page.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", () => {
      const row = document.getElementById(link.hash.slice(1));
      if (row) row.hidden = false;
    });
  }

  // Titles of what is drawn, at once and at the pointer.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  page.append(tip);
  const titles = new WeakMap();
  page.addEventListener("pointermove", (event) => {
    const drawn = event.target.closest("svg rect, svg path, svg circle, [title]");
    if (!drawn) { tip.hidden = true; return; }
    const title = drawn.querySelector(":scope > title");
    const text = title ? title.textContent : drawn.getAttribute("title");
    if (text) {
      titles.set(drawn, text);
      if (title) title.remove(); else drawn.removeAttribute("title");
      drawn.setAttribute("aria-label", text);
    }
    tip.hidden = !titles.has(drawn);
    if (tip.hidden) return;
    tip.textContent = titles.get(drawn);
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 8)) + "px";
    const below = event.clientY + 16;
    tip.style.top = (below + box.height < innerHeight ? below : event.clientY - box.height - 8)
      + "px";
  });
  page.addEventListener("pointerleave", () => { tip.hidden = true; });

  // Wide drawings are zoomed around the pointer, by the wheel with Ctrl, by keys or by buttons.
  for (const frame of page.querySelectorAll(".zoom")) {
    const svg = frame.querySelector("svg");
    const whole = svg.viewBox.baseVal.width;
    let zoom = 1;
    const set = (to, x) => {
      const at = (frame.scrollLeft + x) / svg.getBoundingClientRect().width;
      zoom = Math.min(32, Math.max(1, to));
      svg.style.maxWidth = svg.style.width = zoom > 1 ? whole * zoom + "px" : "";
      frame.scrollLeft = at * svg.getBoundingClientRect().width - x;
    };
    frame.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      set(zoom * (event.deltaY > 0 ? 0.8 : 1.25), event.clientX - frame.getBoundingClientRect().x);
    }, {passive: false});
    const bar = document.createElement("div");
    const buttons = [["+", "zoom in", 2], ["−", "zoom out", 0.5], ["all", "all", 0]];
    for (const [sign, name, by] of buttons) {
      const button = document.createElement("button");
      button.textContent = sign;
      button.setAttribute("aria-label", name);
      button.onclick = () => set(zoom * by, frame.clientWidth / 2);
      bar.append(button);
    }
    bar.title = "also by the wheel with Ctrl, and by the keys + − 0 on the drawing";
    frame.before(bar);
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "drawing: + and − zoom, 0 shows all, arrows move");
    frame.addEventListener("keydown", (event) => {
      const by = {"+": 2, "=": 2, "-": 0.5, "0": 0}[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      set(zoom * by, frame.clientWidth / 2);
    });
  }
}
"""

SCRIPT = f"<script>//<![CDATA[\n{_PROGRAM.strip()}\n//]]></script>"
"""Searching, sorting, tooltips and zoom; refers to nothing outside of the page."""
