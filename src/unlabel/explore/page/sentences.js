/* Sentences about the change, and about the rows that the page holds. */

function sentenceOf(judged, changes) {
  const { counts, outcome } = judged;
  if (!changes.size) return ["Nothing has changed yet: remove, merge or rename labels."];
  const removed = outcome.removed.length;
  const others = changes.size - removed;
  const what = [
    removed ? `${countOf(removed, "label")} removed` : "",
    others ? `${removed ? count(others) : countOf(others, "label")} merged, renamed or split` : "",
  ];
  const before = percent(counts.rightBefore, counts.judged);
  const after = percent(counts.rightAfter, counts.judged);
  return [
    `With ${what.filter(Boolean).join(" and ")}, `,
    element("b", {}, percent(counts.changed, counts.rows)),
    " of the answers change.",
    counts.judged ? ` ${after} of the answers are right where the new label is known, before ${before}.` : "",
  ];
}

/** State how many rows the page holds, and how exact they are. */
function contentOf({ rows, of, bits, rounding, step }) {
  const held =
    rows === of
      ? `${of > 1 ? "all " : ""}${countOf(of, "row")}`
      : `${count(rows)} of ${count(of)} rows, drawn at random from each label in proportion to its size`;
  const off = Number(rounding.toPrecision(2));
  const ofResult = Number(Math.tanh(step / 2).toPrecision(2));
  return (
    `This page holds ${held}. Log-probabilities are rounded to ${bits} bits: ` +
    `the confidences are off by up to ${off}, those of a result by up to about ${ofResult}.`
  );
}

function asideOf({ aside }) {
  if (!aside) return "";
  return `${countOf(aside, "row")} had true labels that the model does not have: they count as rows without one.`;
}
