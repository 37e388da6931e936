/* The list of labels: searched, sorted and selected. */

const ORDERS = {
  model: (a, b) => a.column - b.column,
  rows: (a, b) => b.rows - a.rows || a.column - b.column,
  accuracy: (a, b) => a.right / a.rows - b.right / b.rows || b.rows - a.rows,
  // Labels that are confused with each other stand side by side.
  confusion: (a, b) =>
    b.confused - a.confused || Math.min(a.column, a.most) - Math.min(b.column, b.most) || a.column - b.column,
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
    this.list.addEventListener("focusin", (event) => this.stopAt(event.target));
    this.list.addEventListener("pointerdown", (event) => this.startDrag(event));
    this.arrange("", "model");
  }

  entryOf({ rows, right, most }, column) {
    const { classes, truth } = this.sample;
    const facts = truth
      ? [
          countOf(rows, "row"),
          rows ? `${percent(right, rows)} right` : null,
          most.rows ? [`${count(most.rows)} taken for `, nameElement(classes[most.column])] : null,
        ]
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
      truth &&
        element(
          "span",
          { class: "meter", "aria-hidden": "true" },
          element("span", { style: { width: rows ? `${(100 * right) / rows}%` : "0" } }),
        ),
    );
    const item = element(
      "li",
      { "data-column": column },
      label,
      element("span", { class: "grip", "aria-hidden": "true" }, "⠿"),
    );
    return {
      column,
      rows,
      right: rows ? right : Infinity,
      most: most.column,
      taken: most.rows,
      box,
      to,
      item,
      isChanged: false,
    };
  }

  /** Show the labels that contain a text, in an order. */
  arrange(query, order) {
    this.order = order;
    this.query = query.trim().toLowerCase();
    const isFound = ({ column, to }) =>
      !this.query || `${this.sample.classes[column]} ${to.textContent}`.toLowerCase().includes(this.query);
    this.shown = this.entries.filter(isFound).sort(ORDERS[order]);
    this.list.replaceChildren(...this.shown.map(({ item }) => item));
    if (!this.shown.some(({ box }) => box === this.stop)) this.stopAt(this.shown[0]?.box);
    document.getElementById("found").textContent =
      this.shown.length === this.entries.length
        ? countOf(this.entries.length, "label")
        : `${count(this.shown.length)} of ${countOf(this.entries.length, "label")}`;
  }

  /** Show each label's destination. */
  update(plan) {
    for (const entry of this.entries) {
      const parts = plan.changes.get(this.sample.classes[entry.column]);
      entry.isChanged = parts !== undefined;
      entry.item.classList.toggle("removed", parts?.length === 0);
      if (!parts) entry.to.replaceChildren();
      else if (!parts.length) entry.to.replaceChildren("removed");
      else
        entry.to.replaceChildren(
          "→ ",
          ...parts.flatMap(([label], i) => (i ? [", ", nameElement(label)] : [nameElement(label)])),
        );
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
    this.shown[Math.min(Math.max(to, 0), this.shown.length - 1)].box.focus();
  }

  /** Give the focus to the label that had it last. */
  focus() {
    this.stop?.focus({ preventScroll: true });
  }

  /** Let the tab key stop at one label. */
  stopAt(box) {
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = box;
    if (box) box.tabIndex = 0;
  }

  /** Follow a pointer: a mouse from anywhere on a label, a finger from its grip, as elsewhere it scrolls. */
  startDrag(down) {
    const item = down.target.closest("li");
    const isGrip = down.target.closest(".grip");
    if (!item || down.button !== 0 || !(isGrip || down.pointerType === "mouse")) return;
    const column = Number(item.dataset.column);
    const labels = this.selected.has(column) ? this.names() : [this.sample.classes[column]];
    const content = labels.length === 1 ? nameElement(labels[0]) : countOf(labels.length, "label");
    followPointer(down, this.list, content, (target) => this.onDrop(labels, target));
    if (isGrip) down.preventDefault();
  }
}
