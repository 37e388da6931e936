/* The loops for one type of rows; `loops.c` includes this once per type.
 *
 * REAL is the type, EXPONENTIAL its exponential, SCALED an entry divided by a sum, NEEDS_DOUBLE
 * whether a row must be filtered as doubles, and NAME(name) a name of its own.
 */

/* Rows as positive masses: probabilities as they are, logits as exponentials. Retained labels have
 * a scale of their own, so what a softmax would lose next to a removed label is kept. */
typedef struct {
    const REAL *masses;            /* in the order of the model's labels */
    double kept, removed;          /* the masses of the retained and of the removed labels */
    double scale;                  /* what the retained masses are to be multiplied by */
    int is_valid;
} NAME(Row);

INLINE double NAME(sum)(const double *values, Py_ssize_t n)
{
    double sums[SUMS] = {0}, total = 0.0;
    Py_ssize_t j = 0;
    for (; j + SUMS <= n; j += SUMS)
        for (int s = 0; s < SUMS; s++) sums[s] += values[j + s];
    for (; j < n; j++) total += values[j];
    JOIN(sums, SUM)
    return total + sums[0];
}

INLINE double NAME(product)(const double *a, const double *b, Py_ssize_t n)
{
    double sums[SUMS] = {0}, total = 0.0;
    Py_ssize_t j = 0;
    for (; j + SUMS <= n; j += SUMS)
        for (int s = 0; s < SUMS; s++) sums[s] += a[j + s] * b[j + s];
    for (; j < n; j++) total += a[j] * b[j];
    JOIN(sums, SUM)
    return total + sums[0];
}

/* Sum up the masses of a row, `keep` being 1 for a retained label and 0 for a removed one. */
INLINE void NAME(weigh)(NAME(Row) *row, const REAL *keep, Py_ssize_t n)
{
    double kept[SUMS] = {0}, removed[SUMS] = {0}, last_kept = 0.0, last_removed = 0.0;
    REAL low[SUMS] = {0}, lowest = 0;
    const REAL *x = row->masses;
    Py_ssize_t j = 0;
    for (; j + SUMS <= n; j += SUMS) {
        for (int s = 0; s < SUMS; s++) kept[s] += x[j + s] * keep[j + s];
        for (int s = 0; s < SUMS; s++) removed[s] += x[j + s] * (1 - keep[j + s]);
        for (int s = 0; s < SUMS; s++) low[s] = SMALLER(low[s], x[j + s]);
    }
    for (; j < n; j++) {
        last_kept += x[j] * keep[j];
        last_removed += x[j] * (1 - keep[j]);
        lowest = SMALLER(lowest, x[j]);
    }
    JOIN(kept, SUM)
    JOIN(removed, SUM)
    JOIN(low, SMALLER)
    row->kept = last_kept + kept[0];
    row->removed = last_removed + removed[0];
    row->is_valid = lowest >= 0 && low[0] >= 0;
}

/* Turn logits into masses: each part relative to its largest logit. */
INLINE void NAME(raise)(NAME(Row) *row, const REAL *x, const REAL *keep, Py_ssize_t n, REAL *masses)
{
    REAL tops[SUMS], kept_tops[SUMS], top = -INFINITY, kept_top = -INFINITY;
    Py_ssize_t j = 0;
    for (int s = 0; s < SUMS; s++) tops[s] = kept_tops[s] = -INFINITY;
    for (; j + SUMS <= n; j += SUMS) {
        for (int s = 0; s < SUMS; s++) tops[s] = LARGER(tops[s], x[j + s]);
        for (int s = 0; s < SUMS; s++) {
            REAL entry = keep[j + s] > 0 ? x[j + s] : -INFINITY;
            kept_tops[s] = LARGER(kept_tops[s], entry);
        }
    }
    for (; j < n; j++) {
        REAL entry = keep[j] > 0 ? x[j] : -INFINITY;
        top = LARGER(top, x[j]);
        kept_top = LARGER(kept_top, entry);
    }
    JOIN(tops, LARGER)
    JOIN(kept_tops, LARGER)
    top = LARGER(top, tops[0]);
    kept_top = LARGER(kept_top, kept_tops[0]);
    row->scale = kept_top == top ? 1.0 : scale_of(kept_top, top);
    if (kept_top == -INFINITY) kept_top = 0;
    for (j = 0; j < n; j++) masses[j] = EXPONENTIAL(x[j] - (keep[j] > 0 ? kept_top : top));
    row->masses = masses;
    NAME(weigh)(row, keep, n);
    row->is_valid = top > -INFINITY && row->kept + row->removed < INFINITY;
}

/* The next step whose label may have a residual: the others' mass is at least what is kept. */
INLINE Py_ssize_t NAME(next_step)(const Recipe *r, const double *v, double kept, Py_ssize_t t)
{
    for (; t + SUMS <= r->steps; t += SUMS) {
        int has_residual = 0;
        for (int s = 0; s < SUMS; s++) has_residual |= v[t + s] > r->no_residual_below[t + s] * kept;
        if (has_residual) break;
    }
    while (t < r->steps && v[t] <= r->no_residual_below[t] * kept) t++;
    return t;
}

/* Take a row along the steps. Gives the sum of what they keep, or 0 where none has a residual:
 * then the row is only to be divided, and `v` has no more than its removed labels. */
INLINE double NAME(follow)(const Recipe *r, const NAME(Row) *row, double *v)
{
    Py_ssize_t n = r->labels, k = r->steps, m = n - k;
    double kept = row->kept * row->scale;
    int gathered = 0;
    if (!(kept > NOTHING)) kept = 0.0; /* so that every label is ahead of it */
    for (Py_ssize_t j = 0; j < k; j++) v[j] = row->masses[r->order[j]];
    for (Py_ssize_t t = NAME(next_step)(r, v, kept, 0); t < k; t = NAME(next_step)(r, v, kept, t)) {
        double own, given, rest = kept + NAME(sum)(v + t + 1, k - t - 1);
        const double *share = r->shares + t * n, *pull = r->residual_weights + t * n;
        double label = v[t++];
        if (label <= r->no_residual_below[t - 1] * rest && rest > NOTHING) continue;
        if (!gathered)
            for (Py_ssize_t j = k; j < n; j++) v[j] = row->masses[r->order[j]] * row->scale;
        gathered = 1;
        double along = NAME(product)(pull + t, v + t, n - t);
        mixing(r, t - 1, label, rest, along, &own, &given);
        if (given == 0.0) continue;
        for (Py_ssize_t j = t; j < n; j++) v[j] = own * v[j] + given * share[j];
        kept = NAME(sum)(v + k, m);
        if (!(kept > NOTHING)) kept = 0.0;
    }
    return gathered ? kept : 0.0;
}

/* Add up masses by result, given the place of each source, and give the sum of the results: another
 * sum of the same masses could be less than one of these, by rounding. */
INLINE double NAME(merge)(const Recipe *r, const int64_t *places, const REAL *masses, double *sums)
{
    for (Py_ssize_t j = 0; j < r->results; j++) {
        Py_ssize_t e = r->starts[j], end = r->starts[j + 1];
        double sum = masses[places[e]] * r->weights[e];
        if (++e + 8 <= end) {
            double more[8] = {0};
            for (; e + 8 <= end; e += 8)
                for (int s = 0; s < 8; s++) more[s] += masses[places[e + s]] * r->weights[e + s];
            for (int width = 4; width > 0; width /= 2)
                for (int s = 0; s < width; s++) more[s] += more[s + width];
            sum += more[0];
        }
        for (; e < end; e++) sum += masses[places[e]] * r->weights[e];
        sums[j] = sum;
    }
    return NAME(sum)(sums, r->results);
}

INLINE void NAME(write)(const Recipe *r, double *v, double total, REAL *out)
{
    Py_ssize_t n = r->results;
    double inverse = 1.0 / total;
    (void)inverse;
    for (Py_ssize_t j = 0; j < n; j++) out[j] = (REAL)SCALED(v[j], total, inverse);
}

/* Write the retained part of a row that has no residual: run by run, or label by label. */
INLINE void NAME(rescale)(const Recipe *r, const NAME(Row) *row, const Runs *runs, REAL *out)
{
    const REAL *x = row->masses;
    Py_ssize_t n = r->labels - r->removed, done = 0;
    double total = row->kept, inverse = 1.0 / total;
    (void)inverse;
    if (4 * runs->number > n) {
        for (Py_ssize_t j = 0; j < n; j++) out[j] = x[r->order[r->removed + j]];
        for (Py_ssize_t j = 0; j < n; j++) out[j] = (REAL)SCALED(out[j], total, inverse);
        return;
    }
    for (Py_ssize_t run = 0; run < runs->number; run++) {
        const REAL *from = x + runs->starts[run];
        Py_ssize_t length = runs->lengths[run];
        for (Py_ssize_t j = 0; j < length; j++)
            out[done + j] = (REAL)SCALED(from[j], total, inverse);
        done += length;
    }
}

/* Filter rows one after another. Gives the first that is not valid, or -1. */
CLONED static Py_ssize_t NAME(filter_wide)(const Recipe *r, const REAL *rows, Py_ssize_t n_rows,
                                           REAL *out, double *mass, const Runs *runs,
                                           const int64_t *columns, double *v, double *merged)
{
    Py_ssize_t n = r->labels, first = r->removed, m = r->results, bad = -1;
    REAL *keep = (REAL *)(v + n), *raised = keep + n, *cooled = (REAL *)(v + 5 * n);
    double sharpness = 1.0 / r->temperature;
    for (Py_ssize_t j = 0; j < n; j++) keep[r->order[j]] = j >= first;
    for (Py_ssize_t i = 0; i < n_rows; i++) {
        const REAL *x = rows + i * n;
        REAL *result = out + i * m;
        NAME(Row) row = {.masses = x, .scale = 1.0};
        if (r->temperature != 1.0) { /* such rows are doubles */
            int is_valid = 1;
            if (!r->logits) {
                NAME(weigh)(&row, keep, n);
                is_valid = row.is_valid && fabs(row.kept + row.removed - 1.0) <= r->tolerance;
            }
            for (Py_ssize_t j = 0; j < n; j++)
                cooled[j] = (REAL)calibrated(x[j], r->logits, sharpness);
            NAME(raise)(&row, cooled, keep, n, raised);
            row.is_valid &= is_valid;
        } else if (r->logits) {
            NAME(raise)(&row, x, keep, n, raised);
            if (NEEDS_DOUBLE(row.scale)) {
                double *wide = v + 5 * n, *finer = merged + m;
                for (Py_ssize_t j = 0; j < n; j++) wide[j] = x[j];
                Py_ssize_t found = filter_wide_double(r, wide, 1, finer, mass ? mass + i : NULL, runs,
                                                      columns, wide + n, finer + m);
                if (bad < 0 && found == 0) bad = i;
                for (Py_ssize_t j = 0; j < m; j++) result[j] = (REAL)finer[j];
                continue;
            }
        } else {
            NAME(weigh)(&row, keep, n);
            row.is_valid &= fabs(row.kept + row.removed - 1.0) <= r->tolerance;
        }
        double kept = row.kept * row.scale;
        if (mass) mass[i] = row.is_valid ? row.removed / (row.removed + kept) : NAN;
        if (!row.is_valid) {
            if (bad < 0) bad = i;
            for (Py_ssize_t j = 0; j < m; j++) result[j] = NAN;
            continue;
        }
        double total = NAME(follow)(r, &row, v);
        int only_divided = total == 0.0 && kept > NOTHING;
        if (only_divided && r->sources != NULL) {
            total = NAME(merge)(r, columns, row.masses, merged);
            NAME(write)(r, merged, total, result);
            continue;
        }
        if (only_divided) {
            NAME(rescale)(r, &row, runs, result);
            continue;
        }
        if (total == 0.0) { /* where nothing is left, all labels have the same */
            total = kept > NOTHING ? kept : (double)(n - first);
            for (Py_ssize_t j = first; j < n; j++)
                v[j] = kept > NOTHING ? row.masses[r->order[j]] * row.scale : 1.0;
        }
        if (r->sources != NULL) total = merge_double(r, r->sources, v + first, merged);
        NAME(write)(r, r->sources == NULL ? v + first : merged, total, result);
    }
    return bad;
}

/* Leave rows only their allowed labels, in place: divided by their sum, or all the same where they
 * have none. Writes the part of each row that was not allowed, all of it there. */
CLONED static void NAME(restrict)(REAL *rows, Py_ssize_t n_rows, Py_ssize_t n,
                                  const uint8_t *lists, const int64_t *of_row, double *mass)
{
    for (Py_ssize_t i = 0; i < n_rows; i++) {
        REAL *x = rows + i * n;
        const uint8_t *allowed = lists + of_row[i] * n;
        double kept[SUMS] = {0}, lost[SUMS] = {0}, last_kept = 0.0, last_lost = 0.0;
        Py_ssize_t j = 0, number = 0;
        for (; j + SUMS <= n; j += SUMS)
            for (int s = 0; s < SUMS; s++) kept[s] += x[j + s] * (REAL)allowed[j + s];
        for (; j < n; j++) last_kept += x[j] * (REAL)allowed[j];
        JOIN(kept, SUM)
        double total = last_kept + kept[0], inverse = 1.0 / total;
        (void)inverse;
        if (mass) { /* added up: a subtraction would lose digits */
            for (j = 0; j + SUMS <= n; j += SUMS)
                for (int s = 0; s < SUMS; s++) lost[s] += x[j + s] * (REAL)(1 - allowed[j + s]);
            for (; j < n; j++) last_lost += x[j] * (REAL)(1 - allowed[j]);
            JOIN(lost, SUM)
            double others = last_lost + lost[0];
            mass[i] = total <= NOTHING ? 1.0 : others / (others + total);
        }
        if (!(total <= NOTHING)) { /* rows that are not valid stay NaN */
            for (j = 0; j < n; j++) x[j] = (REAL)SCALED(x[j] * (REAL)allowed[j], total, inverse);
        } else {
            for (j = 0; j < n; j++) number += allowed[j];
            for (j = 0; j < n; j++) x[j] = (REAL)(allowed[j] / (double)number);
        }
    }
}

/* Lay rows side by side, in the recipe's order, the last one repeated to fill up. */
INLINE void NAME(lay)(const Recipe *r, const REAL *rows, int size, REAL x[][LANES])
{
    int n = (int)r->labels;
    for (int j = 0; j < n; j++) {
        const REAL *entry = rows + r->order[j];
        for (int l = 0; l < size; l++) x[j][l] = entry[l * n];
        for (int l = size; l < LANES; l++) x[j][l] = x[j][size - 1];
    }
}

/* Turn logits into masses, as `raise` does. Writes the scale of the retained ones, NaN where a
 * row has no finite logit. */
INLINE void NAME(raise_lanes)(const Recipe *r, REAL x[][LANES], double scale[LANES])
{
    int n = (int)r->labels, first = (int)r->removed;
    REAL top[LANES], kept_top[LANES];
    EACH_LANE kept_top[l] = -INFINITY;
    for (int j = first; j < n; j++)
        EACH_LANE kept_top[l] = x[j][l] > kept_top[l] ? x[j][l] : kept_top[l];
    EACH_LANE top[l] = kept_top[l];
    for (int j = 0; j < first; j++)
        EACH_LANE top[l] = x[j][l] > top[l] ? x[j][l] : top[l];
    EACH_LANE scale[l] = scale_of(kept_top[l], top[l]);
    EACH_LANE scale[l] = top[l] > -INFINITY ? scale[l] : NAN;
    EACH_LANE kept_top[l] = kept_top[l] > -INFINITY ? kept_top[l] : 0;
    for (int j = 0; j < first; j++) EACH_LANE x[j][l] = EXPONENTIAL(x[j][l] - top[l]);
    for (int j = first; j < n; j++) EACH_LANE x[j][l] = EXPONENTIAL(x[j][l] - kept_top[l]);
}

/* Filter narrow rows side by side, so that a loop over them fills vector registers. Gives the
 * first that is not valid, or -1. */
CLONED static Py_ssize_t NAME(filter_narrow)(const Recipe *r, const REAL *rows, Py_ssize_t n_rows,
                                             REAL *out, double *mass)
{
    const int n = (int)r->labels, k = (int)r->steps, first = (int)r->removed, m = (int)r->results;
    const int are_logits = r->logits || r->temperature != 1.0;
    const double sharpness = 1.0 / r->temperature;
    Py_ssize_t bad = -1;
    REAL x[NARROW][LANES];
    double v[NARROW][LANES], rest[NARROW + 1][LANES];
    for (Py_ssize_t start = 0; start < n_rows; start += LANES) {
        int size = n_rows - start < LANES ? (int)(n_rows - start) : LANES;
        double scale[LANES], lead[LANES], kept[LANES], gone[LANES], valid[LANES];
        REAL low[LANES];
        NAME(lay)(r, rows + start * n, size, x);
        EACH_LANE kept[l] = gone[l] = 0.0;
        EACH_LANE low[l] = 0;
        EACH_LANE valid[l] = 1.0;
        if (r->temperature != 1.0) {
            double total[LANES] = {0};
            for (int j = 0; j < n && !r->logits; j++) {
                EACH_LANE total[l] += x[j][l];
                EACH_LANE valid[l] = x[j][l] >= 0 ? valid[l] : NAN;
            }
            EACH_LANE valid[l] = r->logits || fabs(total[l] - 1.0) <= r->tolerance ? valid[l] : NAN;
            for (int j = 0; j < n; j++)
                EACH_LANE x[j][l] = (REAL)calibrated(x[j][l], r->logits, sharpness);
        }
        if (are_logits)
            NAME(raise_lanes)(r, x, scale);
        else
            EACH_LANE scale[l] = 1.0;
        EACH_LANE lead[l] = scale[l];
        for (int j = 0; j < first; j++) {
            EACH_LANE v[j][l] = x[j][l];
            EACH_LANE gone[l] += v[j][l];
        }
        for (int j = first; j < n; j++) {
            EACH_LANE v[j][l] = x[j][l] * scale[l];
            EACH_LANE kept[l] += v[j][l];
        }
        for (int j = 0; j < n; j++) EACH_LANE low[l] = SMALLER(low[l], x[j][l]);
        double tolerance = are_logits ? INFINITY : r->tolerance;
        /* 1 for a row that is valid, NaN for one that is not. */
        EACH_LANE valid[l] = low[l] >= 0 ? valid[l] : NAN;
        EACH_LANE valid[l] = kept[l] + gone[l] < INFINITY ? valid[l] : NAN;
        EACH_LANE valid[l] = fabs(kept[l] + gone[l] - 1.0) <= tolerance ? valid[l] : NAN;
        for (int l = 0; l < size && mass; l++) mass[start + l] = gone[l] / (gone[l] + kept[l]) * valid[l];
        EACH_LANE rest[k][l] = kept[l];
        for (int j = k; j > 0; j--) EACH_LANE rest[j - 1][l] = rest[j][l] + v[j - 1][l];
        for (int t = 0; t < k; t++) {
            const double *pull = r->residual_weights + t * n, *share = r->shares + t * n;
            double along[LANES], own[LANES], given[LANES];
            int64_t no_residual = 1; /* as wide as a double, so that the loop fills vectors */
            EACH_LANE no_residual &= v[t][l] <= r->no_residual_below[t] * rest[t + 1][l];
            EACH_LANE no_residual &= rest[t + 1][l] > NOTHING;
            if (no_residual) continue;
            EACH_LANE along[l] = 0.0;
            for (int j = t + 1; j < n; j++) EACH_LANE along[l] += pull[j] * v[j][l];
            EACH_LANE mixing(r, t, v[t][l], rest[t + 1][l], along[l], &own[l], &given[l]);
            for (int j = t + 1; j < n; j++)
                EACH_LANE v[j][l] = own[l] * v[j][l] + given[l] * share[j];
            EACH_LANE rest[k][l] = 0.0;
            for (int j = first; j < n; j++) EACH_LANE rest[k][l] += v[j][l];
            for (int j = k; j > t + 1; j--) EACH_LANE rest[j - 1][l] = rest[j][l] + v[j - 1][l];
        }
        /* Where nothing is left, all labels have the same. */
        EACH_LANE gone[l] = rest[k][l] > NOTHING ? 0.0 : 1.0 / (n - first);
        EACH_LANE kept[l] = (rest[k][l] > NOTHING ? rest[k][l] : 1.0) * valid[l];
        EACH_LANE scale[l] = 1.0 / kept[l];
        for (int j = first; j < n; j++)
            EACH_LANE v[j][l] = SCALED(v[j][l], kept[l], scale[l]) + gone[l];
        double(*w)[LANES] = v + first;
        if (r->sources != NULL) {
            w = rest;
            EACH_LANE kept[l] = 0.0;
            for (int j = 0; j < m; j++) {
                EACH_LANE w[j][l] = 0.0;
                for (Py_ssize_t e = r->starts[j]; e < r->starts[j + 1]; e++)
                    EACH_LANE w[j][l] += v[first + r->sources[e]][l] * r->weights[e];
                EACH_LANE kept[l] += w[j][l];
            }
            EACH_LANE scale[l] = 1.0 / kept[l];
            for (int j = 0; j < m; j++) EACH_LANE w[j][l] = SCALED(w[j][l], kept[l], scale[l]);
        }
        for (int l = 0; l < size; l++) {
            REAL *result = out + (start + l) * m;
            if (bad < 0 && !(valid[l] == 1.0)) bad = start + l;
            for (int j = 0; j < m; j++) result[j] = (REAL)w[j][l];
        }
        if (r->logits)
            for (int l = 0; l < size; l++)
                if (NEEDS_DOUBLE(lead[l])) { /* never with a temperature, where rows are doubles */
                    double wide[NARROW], finer[NARROW];
                    for (int j = 0; j < n; j++) wide[j] = rows[(start + l) * n + j];
                    filter_narrow_double(r, wide, 1, finer, mass ? mass + start + l : NULL);
                    for (int j = 0; j < m; j++) out[(start + l) * m + j] = (REAL)finer[j];
                }
    }
    return bad;
}
