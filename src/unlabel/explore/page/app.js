/* The page: its state, which can be undone, and its controls. */

const OTHER = "other";
const LARGEST_PLAN = 16 << 20; // bytes, as elsewhere

class Page {
  constructor() {
    this.sample = readSample(document.getElementById("data").textContent);
    this.now = { plan: NO_PLAN, method: this.sample.truth ? "osr" : "mask", threshold: null };
    this.past = [];
    this.future = [];
    this.shownRows = FIRST_ROWS;
    this.showAll = { destinations: false, accuracy: false };
    this.labels = new LabelList(this.sample, {
      onSelect: () => this.drawSelection(),
      onDrop: (labels, target) => this.drop(labels, target),
    });
    this.listen();
    this.describe();
    this.drawSelection();
    this.openLink(location.hash, { remember: false });
  }

  /** Make a state the present one, if its plan fits the model; otherwise say why not. */
  enter(state, { remember = true, said = "" } = {}) {
    let outcome;
    try {
      outcome = outcomeOf(this.sample.classes, state.plan);
    } catch (error) {
      this.say(error.message, "problem");
      return false;
    }
    const isChanged = fragmentOf(state) !== fragmentOf(this.now);
    if (remember && isChanged) {
      this.past.push(this.now);
      this.future = [];
    }
    this.now = state;
    if (isChanged) this.keepInAddress();
    this.isSliding = false;
    this.shownRows = FIRST_ROWS;
    this.recompute(outcome);
    this.draw(said);
    return true;
  }

  recompute(outcome) {
    const started = performance.now();
    const { method, threshold } = this.now;
    this.without = outcome.removed.filter((column) => !this.sample.rowsOf[column].length);
    this.method = this.sample.truth ? method : "mask";
    const recipe = fitRecipe(this.sample, outcome, this.method);
    this.judged = judge(this.sample, outcome, applyRecipe(this.sample, recipe, outcome), threshold);
    this.milliseconds = performance.now() - started;
  }

  draw(said) {
    const { sample, judged, now } = this;
    drawCards(sample, judged, now.threshold);
    drawMatrix(sample, judged);
    if (sample.truth) drawSuggestions(judged, (pair) => this.act(() => this.mergeResults(pair)));
    this.drawLabels();
    this.drawRows();
    this.labels.update(now.plan);
    this.drawControls();
    byId("sentence").replaceChildren(...sentenceOf(judged, now.plan.changes));
    const masked = this.without.map((column) => sample.classes[column]);
    const advice =
      masked.length && this.method === "osr"
        ? `The sample has no rows of ${listed(masked)}: masked, which needs none.`
        : "";
    this.say([said, advice].filter(Boolean).join(" "));
  }

  drawLabels() {
    drawDestinations(this.sample, this.judged, this.showAll.destinations);
    if (this.sample.truth) drawAccuracy(this.judged, this.showAll.accuracy);
  }

  drawRows() {
    drawRows(this.sample, this.judged, document.getElementById("kind").value, this.shownRows);
  }

  drawControls() {
    const { plan, method, threshold } = this.now;
    byId("undo").disabled = !this.past.length;
    byId("redo").disabled = !this.future.length;
    byId("reset").disabled = byId("export").disabled = !plan.changes.size;
    for (const radio of document.getElementsByName("method")) radio.checked = radio.value === method;
    byId("is-unknown").checked = threshold !== null;
    byId("threshold").disabled = threshold === null;
    if (threshold !== null) byId("threshold").value = threshold;
    byId("above").textContent = threshold === null ? "off" : `above ${Number(byId("threshold").value).toFixed(2)}`;
    byId("toml").textContent = asToml(plan);
    byId("time").textContent = `${this.milliseconds.toFixed(1)} ms`;
    fill(
      "destinations",
      [...new Set([...this.judged.outcome.classes, OTHER])].map((label) => element("option", { value: label })),
    );
  }

  drawSelection() {
    const names = this.labels.names();
    byId("actions").disabled = !names.length;
    byId("selected").replaceChildren(
      ...(names.length === 0
        ? ["Select labels, or drag one onto another."]
        : names.length === 1
          ? [nameElement(names[0])]
          : [`${countOf(names.length, "label")} selected`]),
    );
    byId("clear").hidden = !names.length;
  }

  say(text, kind = "") {
    byId("status").textContent = text;
    byId("status").className = kind;
  }

  /** Do something; where that removes or disables the control in use, give the focus to what is near. */
  act(action) {
    const focused = document.activeElement;
    const section = focused.closest(".results section");
    action();
    if (focused.isConnected && !focused.matches(":disabled") && focused.getClientRects().length) return;
    if (!section) return this.labels.focus();
    section.tabIndex = -1;
    section.focus({ preventScroll: true });
  }

  /** Send labels somewhere: null removes them. Tell whether that could be done. */
  send(labels, to) {
    const said = to === null ? `Removed ${listed(labels)}.` : `Sent ${listed(labels)} to ${nameOf(to)}.`;
    const isDone = this.enter({ ...this.now, plan: withChanges(this.now.plan, labels, to) }, { said });
    if (isDone) this.labels.clear();
    return isDone;
  }

  /** Send the selected labels to what was typed, without the blanks that keyboards of phones add. */
  sendToTyped() {
    const typed = byId("to").value;
    const to = this.judged.outcome.classes.includes(typed) ? typed : typed.trim();
    if (!to) this.say("Type the name of a label first.", "problem");
    else if (this.send(this.labels.names(), to)) byId("to").value = "";
  }

  drop(labels, target) {
    if (target.dataset.drop === "remove") return this.send(labels, null);
    if (target.dataset.drop === "other") return this.send(labels, OTHER);
    try {
      const to = destinationOf(this.now.plan, this.sample.classes[Number(target.dataset.column)]);
      this.send(labels, to);
    } catch (error) {
      this.say(error.message, "problem");
    }
  }

  mergeResults(pair) {
    const [first, second] = pair.map((column) => this.judged.outcome.classes[column]);
    const plan = withMerged(this.now.plan, this.sample.classes, first, second);
    this.enter({ ...this.now, plan }, { said: `Merged ${nameOf(second)} into ${nameOf(first)}.` });
  }

  undo() {
    if (!this.past.length) return;
    this.future.push(this.now);
    this.enter(this.past.pop(), { remember: false, said: "Undone." });
  }

  redo() {
    if (!this.future.length) return;
    this.past.push(this.now);
    this.enter(this.future.pop(), { remember: false, said: "Done again." });
  }

  link() {
    return `${location.href.split("#")[0]}#${fragmentOf(this.now)}`;
  }

  /** Let a reload bring the state back. Browsers limit how often an address may change. */
  keepInAddress() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => history.replaceState(null, "", this.link()), 200);
  }

  /** Enter the state that the fragment of an address holds, if it holds one. */
  openLink(fragment, options) {
    let state = null;
    let problem = "";
    try {
      state = stateOf(fragment.slice(1), this.sample);
    } catch (error) {
      problem = `The link's plan cannot be used. ${error.message}`;
    }
    if (state) this.enter(state, options);
    else this.enter(this.now, { remember: false });
    if (problem) this.say(problem, "problem");
  }

  async import(file) {
    try {
      if (file.size > LARGEST_PLAN) throw new Error(`It is larger than ${LARGEST_PLAN >> 20} MiB.`);
      const plan = readPlan(await file.text(), this.sample.classes);
      this.enter({ ...this.now, plan }, { said: `Opened ${file.name}.` });
    } catch (error) {
      this.say(`${file.name} cannot be used. ${error.message}`, "problem");
    }
  }

  export() {
    const address = URL.createObjectURL(new Blob([asToml(this.now.plan)], { type: "application/toml" }));
    element("a", { href: address, download: "plan.toml" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  async copy() {
    byId("link").value = this.link();
    byId("link-box").showModal();
    byId("link").select();
    try {
      await navigator.clipboard.writeText(byId("link").value);
      byId("copied").textContent = "It has been copied.";
    } catch {
      byId("copied").textContent = "Copy it from here.";
    }
  }

  describe() {
    const { sample } = this;
    byId("holds").textContent = contentOf(sample);
    byId("aside").textContent = asideOf(sample);
    byId("no-osr").hidden = Boolean(sample.truth);
    for (const part of document.querySelectorAll("[data-needs-truth]")) part.hidden = !sample.truth;
    const controls = document.querySelectorAll("option[data-needs-truth], [name=method][value=osr]");
    for (const control of controls) control.disabled = !sample.truth;
  }

  listen() {
    const on = (id, name, listener) => byId(id).addEventListener(name, (event) => this.act(() => listener(event)));
    on("undo", "click", () => this.undo());
    on("redo", "click", () => this.redo());
    on("reset", "click", () => this.enter({ ...this.now, plan: NO_PLAN }, { said: "All labels are kept." }));
    on("remove", "click", () => this.send(this.labels.names(), null));
    on("to-other", "click", () => this.send(this.labels.names(), OTHER));
    on("keep", "click", () => {
      const said = `Kept ${listed(this.labels.names())}.`;
      const plan = withoutChanges(this.now.plan, this.labels.names());
      if (this.enter({ ...this.now, plan }, { said })) this.labels.clear();
    });
    on("clear", "click", () => this.labels.clear());
    on("send", "submit", (event) => {
      event.preventDefault();
      this.sendToTyped();
    });
    on("search", "input", () => this.labels.arrange(byId("search").value, byId("order").value));
    on("order", "change", () => this.labels.arrange(byId("search").value, byId("order").value));
    on("methods", "change", (event) => this.enter({ ...this.now, method: event.target.value }));
    on("is-unknown", "change", (event) =>
      this.enter({ ...this.now, threshold: event.target.checked ? Number(byId("threshold").value) : null }),
    );
    // While the slider moves, the page follows; only where it started is remembered.
    on("threshold", "input", () => {
      this.enter({ ...this.now, threshold: Number(byId("threshold").value) }, { remember: !this.isSliding });
      this.isSliding = true;
    });
    on("threshold", "change", () => (this.isSliding = false));
    on("kind", "change", () => {
      this.shownRows = FIRST_ROWS;
      this.drawRows();
    });
    on("row-more", "click", () => {
      this.shownRows += 4 * FIRST_ROWS;
      this.drawRows();
    });
    for (const [id, list] of Object.entries({ "goes-all": "destinations", "accuracy-all": "accuracy" })) {
      on(id, "click", () => {
        this.showAll[list] = true;
        this.drawLabels();
      });
    }
    on("export", "click", () => this.export());
    on("copy", "click", () => this.copy());
    on("import", "click", () => byId("file").click());
    on("file", "change", async (event) => {
      const [file] = event.target.files;
      if (file) await this.import(file);
      event.target.value = "";
    });
    addEventListener("hashchange", (event) => this.openLink(new URL(event.newURL).hash, { said: "Opened the link." }));
    addEventListener("keydown", (event) => {
      if (event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), dialog")) return;
      const isDelete = event.key === "Delete" || event.key === "Backspace"; // the latter on a Mac
      if (isDelete && this.labels.selected.size) this.send(this.labels.names(), null);
      const key = (event.ctrlKey || event.metaKey) && event.key.toLowerCase();
      if (key === "z" || key === "y") {
        event.preventDefault();
        this.act(() => (key === "y" || event.shiftKey ? this.redo() : this.undo()));
      }
    });
  }
}

function byId(id) {
  return document.getElementById(id);
}

function listed(labels) {
  return labels.length === 1 ? nameOf(labels[0]) : countOf(labels.length, "label");
}

const page = new Page();
