/* What a change does to the answers: as in unlabel/evaluation/impact.py, on the sample's rows.

   An answer is the top label, or unknown where the removed labels had more than a threshold. It has changed if it
   is not the destination of the old answer. The old answer was right if its destination is the new true label. */

const EPSILON = 1e-12; // the least that a probability counts as inside a logarithm

/** Judge the result of a recipe; answers are columns of the result, and their number stands for unknown. */
function judge(sample, outcome, result, threshold) {
  const m = outcome.classes.length;
  const isPart = new Set(outcome.sources.map((source, i) => outcome.retained[source] * m + outcome.targets[i]));
  const answers = new Int32Array(sample.rows);
  const changed = new Uint8Array(sample.rows);
  const truth = new Int32Array(sample.rows).fill(REMOVED - 2); // not known
  const rightBefore = new Uint8Array(sample.rows);
  const rightAfter = new Uint8Array(sample.rows);
  const counts = { rows: sample.rows, changed: 0, unknown: 0, judged: 0, rightBefore: 0, rightAfter: 0 };
  Object.assign(counts, { corrected: 0, regressed: 0, removed: 0, caught: 0, lost: 0, logLoss: 0 });
  for (let row = 0; row < sample.rows; row++) {
    const top = largestOf(result.confidences, row * m, (row + 1) * m);
    const isUnknown = threshold !== null && result.removedMass[row] > threshold;
    answers[row] = isUnknown ? m : top;
    changed[row] = Number(isUnknown || !isPart.has(sample.answers[row] * m + top));
    counts.changed += changed[row];
    counts.unknown += Number(isUnknown);
    if (!sample.truth || sample.truth[row] < 0) continue;
    truth[row] = outcome.columns[sample.truth[row]];
    if (truth[row] === REMOVED) {
      counts.removed++;
      counts.caught += Number(isUnknown);
    }
    if (truth[row] < 0) continue;
    rightBefore[row] = Number(outcome.columns[sample.answers[row]] === truth[row]);
    rightAfter[row] = Number(answers[row] === truth[row]);
    counts.judged++;
    counts.lost += Number(isUnknown);
    counts.rightBefore += rightBefore[row];
    counts.rightAfter += rightAfter[row];
    counts.corrected += Number(rightAfter[row] > rightBefore[row]);
    counts.regressed += Number(rightBefore[row] > rightAfter[row]);
    counts.logLoss -= Math.log(Math.max(result.confidences[row * m + truth[row]], EPSILON));
  }
  counts.logLoss = counts.judged ? counts.logLoss / counts.judged : null;
  return { outcome, result, answers, changed, truth, rightBefore, rightAfter, counts };
}

/** Count the rows of each of the result's labels, and how many of them were and are right. */
function accuracyByLabel(judged) {
  const labels = judged.outcome.classes.map((label) => ({ label, rows: 0, before: 0, after: 0 }));
  judged.truth.forEach((column, row) => {
    if (column < 0) return;
    labels[column].rows++;
    labels[column].before += judged.rightBefore[row];
    labels[column].after += judged.rightAfter[row];
  });
  return labels.filter(({ rows }) => rows);
}

/** Count the changed answers from one label to another, largest first. */
function movesOf(sample, judged) {
  const width = judged.outcome.classes.length + 1;
  const rows = new Map();
  judged.changed.forEach((is, row) => {
    if (!is) return;
    const code = sample.answers[row] * width + judged.answers[row];
    rows.set(code, (rows.get(code) ?? 0) + 1);
  });
  return [...rows]
    .map(([code, count]) => ({ from: Math.floor(code / width), to: code % width, rows: count }))
    .sort((a, b) => b.rows - a.rows || a.from - b.from || a.to - b.to);
}

/** Count the answers to the inputs of each removed label, the most common first. */
function destinationsOf(sample, judged) {
  return judged.outcome.removed.map((column) => {
    const rows = new Map();
    for (const row of sample.rowsOf[column]) rows.set(judged.answers[row], (rows.get(judged.answers[row]) ?? 0) + 1);
    const to = [...rows].map(([answer, count]) => ({ answer, rows: count }));
    return {
      column,
      rows: sample.rowsOf[column].length,
      to: to.sort((a, b) => b.rows - a.rows || a.answer - b.answer),
    };
  });
}

/** Find, for each label of the model, the label that its inputs are most often taken for. */
function confusionsOf(sample) {
  return sample.rowsOf.map((rows, column) => {
    const counts = new Map();
    let right = 0;
    for (const row of rows) {
      if (sample.answers[row] === column) right++;
      else counts.set(sample.answers[row], (counts.get(sample.answers[row]) ?? 0) + 1);
    }
    let most = { column: -1, rows: 0 };
    for (const [other, count] of counts) if (count > most.rows) most = { column: other, rows: count };
    return { rows: rows.length, right, most };
  });
}

/** Suggest pairs of the result's labels to merge: those most confused, with the answers that would become right. */
function suggestMerges(judged, most) {
  const m = judged.outcome.classes.length;
  const rows = new Map();
  judged.truth.forEach((column, row) => {
    const answer = judged.answers[row];
    if (column < 0 || answer === m || answer === column) return;
    const code = Math.min(column, answer) * m + Math.max(column, answer);
    rows.set(code, (rows.get(code) ?? 0) + 1);
  });
  return [...rows]
    .sort((a, b) => b[1] - a[1] || a[0] - b[0])
    .slice(0, m > 2 ? most : 0)
    .map(([code, confused]) => {
      const pair = [Math.floor(code / m), code % m];
      return { pair, confused, gain: gainOf(judged, pair) };
    })
    .sort((a, b) => b.gain - a.gain || b.confused - a.confused);
}

/** Count how many more answers would be right if two of the result's labels were merged. */
function gainOf(judged, [first, second]) {
  const m = judged.outcome.classes.length;
  const values = judged.result.confidences;
  let gain = 0;
  judged.truth.forEach((column, row) => {
    if (column < 0 || judged.answers[row] === m) return;
    const start = row * m;
    const sum = values[start + first] + values[start + second];
    let best = -1; // the largest of the others; the merged label stands in the place of the first
    for (let j = 0; j < m; j++) {
      if (j !== first && j !== second && (best < 0 || values[start + j] > values[start + best])) best = j;
    }
    const largest = values[start + best];
    const isMerged = sum > largest || (sum === largest && first < best);
    const isRight = column === first || column === second ? isMerged : !isMerged && best === column;
    gain += Number(isRight) - judged.rightAfter[row];
  });
  return gain;
}
