/* The list of labels: searched, sorted, selected, and dragged onto each other. */

const ORDERS = {
  model: (a, b) => a.column - b.column,
  rows: (a, b) => b.rows - a.rows || a.column - b.column,
  accuracy: (a, b) => a.right / a.rows - b.right / b.rows || b.rows - a.rows,
  // Labels that are confused with each other stand side by side.
  confusion: (a, b) => b.confused - a.confused || Math.min(a.column, a.most) - Math.min(b.column, b.most) || a.column - b.column,
  changed: (a, b) => Number(b.isChanged) - Number(a.isChanged) || a.column - b.column,
};

class LabelList {
  /** `onSelect` is called when the selection changes, `onDrop` with labels and the element they were dropped on. */
  constructor(sample, { onSelect, onDrop }) {
    this.sample = sample;
    this.onSelect = onSelect;
    this.onDrop = onDrop;
    this.selected = new Set();
    this.list = document.getElementById("labels");
    this.entries = confusionsOf(sample).map((entry, column) => this.entryOf(entry, column));
    for (const entry of this.entries) {
      const other = this.entries[entry.most];
      entry.confused = entry.most < 0 ? 0 : entry.taken + (other.most === entry.column ? other.taken : 0);
    }
    this.list.addEventListener("change", (event) => this.select(event.target));
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.list.addEventListener("pointerdown", (event) => this.startDrag(event));
    this.arrange("", "model");
  }

  entryOf({ rows, right, most }, column) {
    const { classes, truth } = this.sample;
    const facts = truth
      ? [countOf(rows, "row"), rows ? `${percent(right, rows)} right` : null, most.rows ? [`${count(most.rows)} taken for `, nameElement(classes[most.column])] : null]
      : [countOf(rows, "answer")];
    const box = element("input", { type: "checkbox", tabindex: -1, value: column });
    const to = element("span", { class: "to" });
    const separated = facts.filter(Boolean).flatMap((fact, i) => (i ? [", ", fact] : [fact]));
    const label = element(
      "label",
      {},
      box,
      element("span", { class: "who" }, nameElement(classes[column]), to),
      element("span", { class: "facts" }, separated.flat()),
      truth && element("span", { class: "meter", "aria-hidden": "true" }, element("span", { style: { width: rows ? `${(100 * right) / rows}%` : "0" } })),
    );
    const item = element("li", { "data-column": column }, label, element("span", { class: "grip", "aria-hidden": "true" }, "⠿"));
    return { column, rows, right: rows ? right : Infinity, most: most.column, taken: most.rows, box, to, item, isChanged: false };
  }

  /** Show the labels that contain a text, in an order. */
  arrange(query, order) {
    this.order = order;
    this.query = query.trim().toLowerCase();
    const isFound = ({ column, to }) =>
      !this.query || `${this.sample.classes[column]} ${to.textContent}`.toLowerCase().includes(this.query);
    this.shown = this.entries.filter(isFound).sort(ORDERS[order]);
    this.list.replaceChildren(...this.shown.map(({ item }) => item));
    for (const { box } of this.shown) box.tabIndex = -1;
    if (this.shown.length) this.shown[0].box.tabIndex = 0;
    document.getElementById("found").textContent =
      this.shown.length === this.entries.length ? countOf(this.entries.length, "label") : `${count(this.shown.length)} of ${countOf(this.entries.length, "label")}`;
  }

  /** Show each label's destination. */
  update(plan) {
    for (const entry of this.entries) {
      const parts = plan.changes.get(this.sample.classes[entry.column]);
      entry.isChanged = parts !== undefined;
      entry.item.classList.toggle("retired", parts?.length === 0);
      if (!parts) entry.to.replaceChildren();
      else if (!parts.length) entry.to.replaceChildren("retired");
      else entry.to.replaceChildren("→ ", ...parts.flatMap(([label], i) => (i ? [", ", nameElement(label)] : [nameElement(label)])));
    }
    if (this.order === "changed") {
      const focused = document.activeElement;
      this.arrange(this.query, this.order);
      if (this.list.contains(focused)) focused.focus();
    }
  }

  select(box) {
    if (box.checked) this.selected.add(Number(box.value));
    else this.selected.delete(Number(box.value));
    this.onSelect();
  }

  clear() {
    for (const column of this.selected) this.entries[column].box.checked = false;
    this.selected.clear();
    this.onSelect();
  }

  names() {
    return [...this.selected].sort((a, b) => a - b).map((column) => this.sample.classes[column]);
  }

  /** Move the focus with the arrow keys, so that a list of 1,000 labels is one stop of the tab key. */
  move(event) {
    const at = this.shown.findIndex(({ box }) => box === event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.shown.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = this.shown[Math.min(Math.max(to, 0), this.shown.length - 1)].box;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  /** Follow a pointer: a mouse from anywhere on a label, a finger from its grip, as elsewhere it scrolls. */
  startDrag(down) {
    const item = down.target.closest("li");
    const isGrip = down.target.closest(".grip");
    if (!item || down.button !== 0 || !(isGrip || down.pointerType === "mouse")) return;
    const column = Number(item.dataset.column);
    const labels = this.selected.has(column) ? this.names() : [this.sample.classes[column]];
    const follower = element("div", { class: "follower", "aria-hidden": "true" });
    let target = null;
    let isDragging = false;
    const over = (event) => {
      const found = document.elementFromPoint(event.clientX, event.clientY)?.closest("#labels li, [data-drop]");
      return found && found !== item ? found : null;
    };
    const onMove = (event) => {
      if (!isDragging && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < 6) return;
      if (!isDragging) document.body.append(follower);
      isDragging = true;
      document.body.classList.add("dragging");
      target?.classList.remove("target");
      target = over(event);
      target?.classList.add("target");
      follower.replaceChildren(labels.length === 1 ? nameElement(labels[0]) : countOf(labels.length, "label"));
      follower.style.transform = `translate(${Math.min(event.clientX + 12, innerWidth - 180)}px, ${event.clientY + 8}px)`;
      const { top, bottom } = this.list.getBoundingClientRect();
      if (event.clientY < top + 30) this.list.scrollBy(0, -12);
      if (event.clientY > bottom - 30) this.list.scrollBy(0, 12);
    };
    const end = (event) => {
      for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener);
      follower.remove();
      document.body.classList.remove("dragging");
      target?.classList.remove("target");
      if (event.type === "pointerup" && isDragging && target) this.onDrop(labels, target);
    };
    const listeners = { pointermove: onMove, pointerup: end, pointercancel: end };
    for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener);
    if (isGrip) down.preventDefault();
  }
}
