/* The method, as in unlabel/_method/recipe.py, plain.py and statistics.py: a recipe is fitted, then applied.

   The labels of a recipe stand in an order of their own: the removed ones first, in the order of their
   removal, then the retained ones. So a step leaves a suffix of a row. */

const NOTHING = 1e-290; // a mass up to this counts as none
const SPARE = 1 - 1e-9;
const ROUNDING = 256 * Number.EPSILON;

/** Fit the removal of labels on the sample's own rows; a mask has no steps. */
function fitRecipe(sample, outcome, method) {
  const order = Int32Array.from([...outcome.removed, ...outcome.retained]);
  const steps = [];
  if (method === "osr") {
    outcome.removed.forEach((column, step) => {
      const rows = sample.rowsOf[column].map((row) => {
        const values = take(sample, row, order, new Float64Array(sample.n));
        redistribute(values, steps);
        return values.subarray(step);
      });
      // A label without rows is fitted on one that is certain of it, which makes its step a mask.
      if (!rows.length) rows.push(Float64Array.from({ length: sample.n - step }, (_, i) => Number(i === 0)));
      steps.push(fitStep(rows, step));
    });
  }
  return { order, steps, n_removed: outcome.removed.length };
}

/** Apply a recipe to every row, and add the confidences up by destination. */
function applyRecipe(sample, recipe, outcome) {
  const { order, steps, n_removed } = recipe;
  const { sources, targets, weights } = outcome;
  const m = outcome.classes.length;
  const confidences = new Float64Array(sample.rows * m);
  const removedMass = new Float64Array(sample.rows);
  const values = new Float64Array(sample.n);
  const rests = new Float64Array(steps.length);
  for (let row = 0; row < sample.rows; row++) {
    const start = row * m;
    take(sample, row, order, values);
    const removed = sumOf(values, 0, n_removed);
    const kept = sumOf(values, n_removed, values.length);
    removedMass[row] = removed / (removed + kept);
    redistribute(values, steps, rests);
    // Without steps nothing replaces a row of which nothing is left.
    if (!steps.length && !(kept > NOTHING)) values.fill(1, n_removed);
    for (let i = 0; i < sources.length; i++) {
      confidences[start + targets[i]] += weights[i] * values[n_removed + sources[i]];
    }
    divide(confidences, sumOf(confidences, start, start + m), start, start + m);
  }
  return { confidences, removedMass };
}

/** Take a row's confidences in a recipe's order. */
function take(sample, row, order, values) {
  const { confidences, n } = sample;
  const start = row * n;
  for (let i = 0; i < n; i++) values[i] = confidences[start + order[i]];
  return values;
}

/** Take a row, in the recipe's order, through the steps. What they leave of it sums to 1. */
function redistribute(row, steps, rests = new Float64Array(steps.length)) {
  const k = steps.length;
  const n = row.length;
  if (k === 0) return;
  sumUp(row, k, rests);
  for (let i = 0; i < k; i++) {
    const { residualWeights, share, diagonal, complement, noResidualBelow, shareSum } = steps[i];
    const label = row[i];
    const rest = rests[i];
    if (rest > NOTHING && label <= noResidualBelow * rest) continue; // a sum is enough to rule a residual out
    let own = 0;
    let given = 1;
    if (rest > NOTHING) {
      let along = 0;
      for (let j = i + 1; j < n; j++) along += residualWeights[j] * row[j];
      const residual = (diagonal * label - along) * shareSum;
      if (!(residual > 0)) continue; // the step only rescales, and no sum depends on the scale
      // The mass without the residual, added up: a subtraction would lose digits.
      const remainder = complement * label + rest + along;
      own = remainder / (remainder + residual) / rest;
      given = residual / (remainder + residual);
    }
    for (let j = i + 1; j < n; j++) row[j] = own * row[j] + given * share[j];
    sumUp(row, k, rests);
  }
  divide(row, sumOf(row, k, n), k, n);
}

/** Sum up what each step leaves of a row, from the end. */
function sumUp(row, k, rests) {
  let sum = sumOf(row, k, row.length);
  for (let i = k - 1; i >= 0; i--) {
    rests[i] = sum;
    sum += row[i];
  }
}

/** Fit a step on the rows of its label, whose own entry is the first. */
function fitStep(rows, step) {
  const n = rows[0].length;
  const mean = new Float64Array(n);
  for (const row of rows) for (let j = 0; j < n; j++) mean[j] += row[j];
  divide(mean, rows.length);
  const label = mean[0];
  let squares = 0;
  let least = Infinity;
  for (let j = 1; j < n; j++) {
    squares += mean[j] * mean[j];
    least = Math.min(least, mean[j]);
  }
  const square = squares + label * label;
  const diagonal = squares / square;
  const pull = label / square;
  const share = direction(rows, mean, squares, square);
  const shareSum = sumOf(share);
  const below = diagonal > 0 ? ((pull * least) / diagonal) * SPARE : Infinity;
  return {
    residualWeights: inPlace(mean, step, pull),
    share: inPlace(share, step, 1 / shareSum),
    diagonal,
    complement: label * pull,
    noResidualBelow: Math.min(below, 1 / NOTHING),
    shareSum,
  };
}

/** Lay statistics of the labels that are left out in the recipe's order, multiplied by a number. */
function inPlace(values, step, factor) {
  const placed = new Float64Array(step + values.length);
  for (let j = 1; j < values.length; j++) placed[step + j] = values[j] * factor;
  return placed;
}

/** Return the average direction in which rows leave their mean, without the label's own entry. */
function direction(rows, mean, squares, square) {
  const n = mean.length;
  const label = mean[0];
  const share = new Float64Array(n);
  const away = new Float64Array(n);
  let informative = 0;
  for (const row of rows) {
    let along = 0;
    for (let j = 1; j < n; j++) along += row[j] * mean[j];
    const part = (along + row[0] * label) / square;
    // The label's own entry is not subtracted from a number that is close to it.
    away[0] = Math.abs(row[0] * squares - label * along) / square;
    for (let j = 1; j < n; j++) away[j] = Math.abs(row[j] - part * mean[j]);
    const length = sumOf(away);
    if (length <= ROUNDING) continue;
    informative++;
    for (let j = 1; j < n; j++) share[j] += away[j] / length;
  }
  if (informative) divide(share, informative);
  for (const fallback of [mean, new Float64Array(n).fill(1)]) {
    if (sumOf(share) > NOTHING) break;
    share.set(fallback);
    share[0] = 0;
    divide(share, sumOf(share) || 1);
  }
  return share;
}
