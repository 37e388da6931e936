/* The sample of rows that the page holds. */

/**
 * Read the page's data. A code says how many steps a log-probability lies below the row's largest;
 * the highest code is a probability of 0.
 */
function readSample(text) {
  const packed = JSON.parse(text);
  const bytes = Uint8Array.from(atob(packed.codes), (letter) => letter.charCodeAt(0));
  const codes = packed.bits === 16 ? new Uint16Array(bytes.buffer) : bytes;
  const masses = Float64Array.from({ length: 1 << packed.bits }, (_, code) => Math.exp(-code * packed.step));
  masses[masses.length - 1] = 0;
  const n = packed.classes.length;
  const confidences = Float64Array.from(codes, (code) => masses[code]);
  const answers = new Int32Array(packed.rows);
  for (let row = 0; row < packed.rows; row++) {
    const [start, stop] = [row * n, (row + 1) * n];
    divide(confidences, sumOf(confidences, start, stop), start, stop);
    answers[row] = largestOf(confidences, start, stop);
  }
  const truth = packed.truth && Int32Array.from(packed.truth);
  return {
    ...packed,
    codes: null,
    n,
    confidences,
    answers, // the columns of the model's own answers
    truth,
    // Row numbers by label, of true labels or, without any, of answers.
    rowsOf: groups(truth ?? answers, n),
  };
}

function groups(columns, n) {
  const rows = Array.from({ length: n }, () => []);
  columns.forEach((column, row) => column >= 0 && rows[column].push(row));
  return rows;
}

function sumOf(values, start = 0, stop = values.length) {
  let sum = 0;
  for (let i = start; i < stop; i++) sum += values[i];
  return sum;
}

function divide(values, by, start = 0, stop = values.length) {
  for (let i = start; i < stop; i++) values[i] /= by;
}

/** Find the largest value, the first of several. */
function largestOf(values, start = 0, stop = values.length) {
  let best = start;
  for (let i = start + 1; i < stop; i++) if (values[i] > values[best]) best = i;
  return best - start;
}
