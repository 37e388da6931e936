/* The panels beside the list of labels: what a change does, drawn from what `judge` found. */

const MOST_IN_MATRIX = 10;
const MOST_ANSWERS = 4;
const MOST_LABELS = 12;
const MOST_SUGGESTIONS = 8;
const FIRST_ROWS = 25;

function answerElement(judged, answer) {
  const { classes } = judged.outcome;
  return answer < classes.length ? nameElement(classes[answer]) : element("i", { class: "unknown" }, "unknown");
}

function cardOf(title, value, hint) {
  return element(
    "div",
    { class: "card" },
    element("dt", {}, title),
    element("dd", { class: "value" }, value),
    element("dd", { class: "hint" }, hint),
  );
}

function arrow(before, after) {
  return [before, " ", element("span", { class: "arrow", role: "img", "aria-label": "to" }, "→"), " ", after];
}

function drawCards(sample, judged, threshold) {
  const { counts, outcome } = judged;
  const cards = [
    cardOf(
      "Labels",
      arrow(count(sample.n), count(outcome.classes.length)),
      `${countOf(outcome.removed.length, "label")} removed.`,
    ),
    cardOf(
      "Answers that change",
      percent(counts.changed, counts.rows),
      `${count(counts.changed)} of ${count(counts.rows)}: not the destination of the old answer.`,
    ),
  ];
  if (sample.truth) {
    cards.push(
      cardOf(
        "Answers that are right",
        arrow(percent(counts.rightBefore, counts.judged), percent(counts.rightAfter, counts.judged)),
        `${count(counts.rightBefore)} and ${count(counts.rightAfter)} of ${count(counts.judged)} inputs ` +
          "whose new label is known.",
      ),
      cardOf(
        "Corrected and regressed",
        `${count(counts.corrected)} and ${count(counts.regressed)}`,
        "Answers that were wrong and are right, and the other way round.",
      ),
      cardOf(
        "Log-loss",
        counts.logLoss === null ? "–" : counts.logLoss.toFixed(4),
        "How badly the new confidences fit the new labels; lower is better.",
      ),
    );
  }
  if (threshold !== null) {
    cards.push(
      sample.truth
        ? cardOf(
            "Unknown: caught and lost",
            `${percent(counts.caught, counts.removed)} and ${percent(counts.lost, counts.judged)}`,
            `Of ${countOf(counts.removed, "input")} of removed labels, and of ${count(counts.judged)} others.`,
          )
        : cardOf(
            "Unknown",
            percent(counts.unknown, counts.rows),
            `${count(counts.unknown)} of ${count(counts.rows)} answers.`,
          ),
    );
  }
  fill("cards", cards);
}

/** Draw, for each removed label, the most common answers to its inputs. */
function drawDestinations(sample, judged, showAll) {
  const found = destinationsOf(sample, judged);
  document.getElementById("goes").hidden = !found.length;
  const rows = firstOf(found, showAll, "goes-all").map(({ column, rows, to }) => {
    const shown = to.slice(0, MOST_ANSWERS);
    const rest = rows - shown.reduce((sum, each) => sum + each.rows, 0);
    const bar = shown.map((each, i) =>
      element("span", { class: `part part-${i}`, style: { width: `${(100 * each.rows) / rows}%` } }),
    );
    const items = shown.map((each, i) =>
      element(
        "li",
        {},
        element("span", { class: `swatch part-${i}` }),
        answerElement(judged, each.answer),
        ` ${percent(each.rows, rows)}`,
      ),
    );
    if (rest) items.push(element("li", {}, element("span", { class: "swatch" }), `others ${percent(rest, rows)}`));
    return element(
      "div",
      { class: "goes" },
      element(
        "h3",
        {},
        nameElement(sample.classes[column]),
        element("span", { class: "hint" }, ` ${countOf(rows, "row")}`),
      ),
      element("div", { class: "bar", "aria-hidden": "true" }, bar),
      element("ul", { class: "parts" }, items.length ? items : element("li", {}, "no rows in the sample")),
    );
  });
  fill("goes-rows", rows);
}

/** Draw the changed answers as a matrix, from old answers to new ones, both largest first. */
function drawMatrix(sample, judged) {
  const moves = movesOf(sample, judged);
  document.getElementById("no-moves").hidden = moves.length > 0;
  document.getElementById("matrix-box").hidden = !moves.length;
  const from = totals(moves, "from");
  const to = totals(moves, "to");
  const rows = grouped(from);
  const columns = grouped(to);
  const cells = new Map();
  for (const move of moves) {
    const at = `${rows.place.get(move.from)} ${columns.place.get(move.to)}`;
    cells.set(at, (cells.get(at) ?? 0) + move.rows);
  }
  const largest = Math.max(...cells.values(), 1);
  const head = element(
    "tr",
    {},
    element(
      "th",
      { scope: "col" },
      "from ",
      element("span", { "aria-hidden": "true" }, "↓ "),
      "to ",
      element("span", { "aria-hidden": "true" }, "→"),
    ),
    columns.shown.map((answer) =>
      element("th", { scope: "col" }, answer === null ? `${columns.others} others` : answerElement(judged, answer)),
    ),
    element("th", { scope: "col" }, "all"),
  );
  const body = rows.shown.map((label, i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, label === null ? `${rows.others} others` : nameElement(sample.classes[label])),
      columns.shown.map((_, j) => cellOf(cells.get(`${i} ${j}`) ?? 0, largest)),
      element("td", { class: "total" }, count(rows.sizes[i])),
    ),
  );
  fill("matrix", moves.length ? [element("thead", {}, head), element("tbody", {}, body)] : []);
}

function cellOf(rows, largest) {
  const strength = rows ? 12 + Math.round((68 * rows) / largest) : 0;
  const style = rows ? { "--strength": `${strength}%` } : {};
  return element("td", { class: strength > 45 ? "strong" : null, style }, rows ? count(rows) : "");
}

function totals(moves, side) {
  const rows = new Map();
  for (const move of moves) rows.set(move[side], (rows.get(move[side]) ?? 0) + move.rows);
  return [...rows].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

/** Keep the largest of sorted totals, and put the others together at the end, as null. */
function grouped(sorted) {
  const whole = sorted.length <= MOST_IN_MATRIX + 1 ? sorted : sorted.slice(0, MOST_IN_MATRIX);
  const rest = sorted.slice(whole.length);
  const shown = whole.map(([each]) => each);
  const sizes = whole.map(([, rows]) => rows);
  if (rest.length) {
    shown.push(null);
    sizes.push(rest.reduce((sum, [, rows]) => sum + rows, 0));
  }
  const place = new Map(sorted.map(([each], i) => [each, Math.min(i, whole.length)]));
  return { shown, sizes, place, others: rest.length };
}

/** Draw the accuracy of each of the result's labels before and after, the largest differences first. */
function drawAccuracy(judged, showAll) {
  const labels = accuracyByLabel(judged);
  const difference = ({ rows, before, after }) => Math.abs(after - before) / rows;
  labels.sort((a, b) => difference(b) - difference(a) || b.rows - a.rows);
  const shown = firstOf(labels, showAll, "accuracy-all");
  const lowest = Math.min(...shown.map(({ rows, before, after }) => Math.min(before, after) / rows), 1);
  const start = 10 * Math.floor(Math.min(lowest, 0.9) * 10);
  const at = (right, rows) => (100 * ((100 * right) / rows - start)) / (100 - start);
  fill("accuracy-ends", element("span", {}, `${start}%`), element("span", {}, "100%"));
  const rows = shown.map(({ label, rows, before, after }) =>
    element(
      "tr",
      { class: after > before ? "better" : after < before ? "worse" : null },
      element("th", { scope: "row" }, nameElement(label)),
      element("td", { class: "number" }, count(rows)),
      element("td", { class: "plot", "aria-hidden": "true" }, dots(at(before, rows), at(after, rows))),
      element("td", { class: "number" }, percent(before, rows)),
      element("td", { class: "number" }, percent(after, rows)),
    ),
  );
  fill("accuracy-rows", rows);
}

/** Give the first of a list of labels, and say on a button how many there are, unless all are shown. */
function firstOf(labels, showAll, button) {
  const shown = showAll ? labels : labels.slice(0, MOST_LABELS);
  document.getElementById(button).hidden = shown.length === labels.length;
  document.getElementById(button).textContent = `Show all ${count(labels.length)} labels`;
  return shown;
}

function dots(before, after) {
  const line = element("span", {
    class: "line",
    style: { left: `${Math.min(before, after)}%`, width: `${Math.abs(after - before)}%` },
  });
  const at = (value, name) => element("span", { class: `dot ${name}`, style: { left: `${value}%` } });
  return element("div", { class: "dots" }, line, at(before, "before"), at(after, "after"));
}

/** Draw the suggestions; `merge` is called with the pair of labels of the result that is chosen. */
function drawSuggestions(judged, merge) {
  const found = suggestMerges(judged, MOST_SUGGESTIONS);
  document.getElementById("no-suggestions").hidden = found.length > 0;
  const { classes } = judged.outcome;
  const items = found.map(({ pair, confused, gain }) => {
    const [first, second] = pair.map((column) => classes[column]);
    const button = element(
      "button",
      { type: "button", "aria-label": `Merge ${nameOf(second)} into ${nameOf(first)}` },
      "Merge",
    );
    button.addEventListener("click", () => merge(pair));
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, nameElement(first), " and ", nameElement(second)),
      element("td", { class: "number" }, count(confused)),
      element(
        "td",
        { class: "number" },
        signed(gain),
        element("small", {}, ` ${pointsOf(gain, judged.counts.judged)}`),
      ),
      element("td", {}, button),
    );
  });
  fill("suggestion-rows", items);
}

function pointsOf(gain, rows) {
  const points = (100 * gain) / rows;
  return `(${points < 0 ? "\u2212" : "+"}${Math.abs(points).toFixed(2)} points)`;
}

const KINDS = {
  all: () => true,
  corrected: (judged, row) => judged.rightAfter[row] > judged.rightBefore[row],
  regressed: (judged, row) => judged.rightBefore[row] > judged.rightAfter[row],
  unknown: (judged, row) => judged.answers[row] === judged.outcome.classes.length,
};

/** Draw the rows whose answer changes, as many as are asked for. */
function drawRows(sample, judged, kind, most) {
  const found = [];
  judged.changed.forEach((is, row) => is && KINDS[kind](judged, row) && found.push(row));
  const rows = found.slice(0, most).map((row) => {
    const is = ["corrected", "regressed"].find((name) => KINDS[name](judged, row));
    const m = judged.outcome.classes.length;
    const before = sample.confidences[row * sample.n + sample.answers[row]];
    const answer = judged.answers[row];
    const after = answer < m ? judged.result.confidences[row * m + answer] : judged.result.removedMass[row];
    return element(
      "tr",
      { class: is },
      element(
        "th",
        { scope: "row" },
        sample.ids?.[row] ? nameElement(sample.ids[row]) : `row ${count(sample.numbers[row])}`,
      ),
      sample.truth && element("td", {}, sample.truth[row] < 0 ? "–" : nameElement(sample.classes[sample.truth[row]])),
      element(
        "td",
        {},
        nameElement(sample.classes[sample.answers[row]]),
        " ",
        element("small", {}, percent(before, 1)),
      ),
      element("td", {}, answerElement(judged, answer), " ", element("small", {}, percent(after, 1))),
      sample.truth && element("td", {}, is ?? ""),
    );
  });
  fill("row-rows", rows);
  document.getElementById("row-count").textContent =
    `${countOf(found.length, "row")}${found.length > rows.length ? `, of which ${count(rows.length)} are shown` : ""}.`;
  document.getElementById("row-more").hidden = found.length <= rows.length;
}
