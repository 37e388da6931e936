/* The compiled loops of `unlabel._method`: the recipe executed row by row, for float and double. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "loops.h"

/* The scale of the retained masses, given their largest logit and the largest of all. A lead
 * counts up to a bound: beyond it the result is the same, and masses would be lost. */
INLINE double scale_of(double kept_top, double top)
{
    double below = kept_top - top;
    return kept_top == -INFINITY ? 0.0 : exponential_double(below < -640.0 ? -640.0 : below);
}

#define REAL double
#define NAME(name) name##_double
#define EXPONENTIAL exponential_double
#define SCALED(value, total, inverse) ((value) / (total))
#define NEEDS_DOUBLE(scale) ((scale) < 0.0) /* they are */
#include "rows.h"
#undef REAL
#undef NAME
#undef EXPONENTIAL
#undef SCALED
#undef NEEDS_DOUBLE

#define REAL float
#define NAME(name) name##_float
#define EXPONENTIAL exponential_float
#define SCALED(value, total, inverse) ((value) * (inverse)) /* as exact, rounded to a float */
/* Where removed labels lead by this much, a float's exponential would lose some that decide. */
#define NEEDS_DOUBLE(scale) ((scale) < 1e-26)
#include "rows.h"

static const char filter_rows_doc[] =
    "filter_rows(rows, out, mass, order, residual_weights, shares, numbers, sources, starts, weights,\n"
    "removed, item_size, logits, temperature, tolerance)\n--\n\n"
    "Write the filtered rows, NaN for one that is not valid, and return the first such row or -1.";

static PyObject *filter_rows(PyObject *self, PyObject *args)
{
    enum { ROWS, OUT, MASS, ORDER, RESIDUALS, SHARES, STEPS, SOURCES, STARTS, WEIGHTS, BUFFERS };
    Py_buffer given[BUFFERS];
    Py_ssize_t item, n_rows, bad = -1;
    Recipe r;
    double *scratch = NULL;
    (void)self;
    memset(given, 0, sizeof given);
    if (!PyArg_ParseTuple(args, "y*w*z*y*y*y*y*z*z*z*nnpdd", &given[ROWS], &given[OUT],
                          &given[MASS], &given[ORDER], &given[RESIDUALS], &given[SHARES], &given[STEPS],
                          &given[SOURCES], &given[STARTS], &given[WEIGHTS], &r.removed, &item,
                          &r.logits, &r.temperature, &r.tolerance))
        return NULL;
    r.labels = given[ORDER].len / 8;
    r.steps = given[STEPS].len / (8 * 4);
    r.order = given[ORDER].buf;
    r.residual_weights = given[RESIDUALS].buf;
    r.shares = given[SHARES].buf;
    r.diagonal = given[STEPS].buf;
    r.complement = r.diagonal + r.steps;
    r.no_residual_below = r.complement + r.steps;
    r.share_sums = r.no_residual_below + r.steps;
    r.sources = given[SOURCES].buf;
    r.starts = given[STARTS].buf;
    r.weights = given[WEIGHTS].buf;
    r.entries = given[SOURCES].len / 8;
    r.results = r.sources == NULL ? r.labels - r.removed : given[STARTS].len / 8 - 1;
    n_rows = r.labels > 0 && (item == 4 || item == 8) ? given[ROWS].len / (r.labels * item) : -1;
    int fits = n_rows >= 0 && r.removed >= 0 && r.removed < r.labels &&
               (r.steps == 0 || r.steps == r.removed) &&
               given[ROWS].len == n_rows * r.labels * item &&
               given[OUT].len == n_rows * r.results * item &&
               (given[MASS].buf == NULL || given[MASS].len == 8 * n_rows) &&
               given[RESIDUALS].len == 8 * r.steps * r.labels &&
               given[SHARES].len == given[RESIDUALS].len && given[WEIGHTS].len == 8 * r.entries;
    for (Py_ssize_t j = 0; j < r.labels && fits; j++)
        fits = r.order[j] >= 0 && r.order[j] < r.labels;
    for (Py_ssize_t e = 0; e < r.entries && fits; e++)
        fits = r.sources[e] >= 0 && r.sources[e] < r.labels - r.removed;
    for (Py_ssize_t j = 0; j < r.results && r.sources != NULL && fits; j++)
        fits = r.starts[j] >= 0 && r.starts[j] < r.starts[j + 1] && r.starts[j + 1] <= r.entries;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        goto done;
    }
    scratch = PyMem_Malloc((size_t)(r.labels * 10 + r.results * 3 + r.entries) * sizeof(double));
    if (scratch == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    void *out = given[OUT].buf, *mass = given[MASS].buf;
    const void *rows = given[ROWS].buf;
    Runs runs = {0, (Py_ssize_t *)(scratch + 3 * r.labels), (Py_ssize_t *)(scratch + 4 * r.labels)};
    int64_t *columns = (int64_t *)(scratch + 10 * r.labels + 3 * r.results);
    find_runs(&r, &runs);
    for (Py_ssize_t e = 0; e < r.entries; e++) columns[e] = r.order[r.removed + r.sources[e]];
    if (r.labels <= NARROW && r.results <= NARROW)
        bad = item == 4 ? filter_narrow_float(&r, rows, n_rows, out, mass)
                        : filter_narrow_double(&r, rows, n_rows, out, mass);
    else
        bad = item == 4 ? filter_wide_float(&r, rows, n_rows, out, mass, &runs, columns, scratch,
                                            scratch + 10 * r.labels)
                        : filter_wide_double(&r, rows, n_rows, out, mass, &runs, columns, scratch,
                                             scratch + 10 * r.labels);
    Py_END_ALLOW_THREADS
done:
    PyMem_Free(scratch);
    for (int i = 0; i < BUFFERS; i++) PyBuffer_Release(&given[i]);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(bad);
}

static const char restrict_doc[] =
    "restrict(rows, lists, of_row, mass, item_size)\n--\n\n"
    "Leave rows only the labels that their lists allow, in place, and write the mass of the others.";

static PyObject *restrict_rows(PyObject *self, PyObject *args)
{
    Py_buffer rows = {0}, lists = {0}, of_row = {0}, mass = {0};
    Py_ssize_t item, n = 0, n_rows;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*y*y*z*n", &rows, &lists, &of_row, &mass, &item))
        return NULL;
    n_rows = of_row.len / 8;
    if ((item == 4 || item == 8) && n_rows > 0) n = rows.len / (n_rows * item);
    const int64_t *number = of_row.buf;
    int fits = rows.len == n_rows * n * item && (mass.buf == NULL || mass.len == 8 * n_rows);
    for (Py_ssize_t i = 0; i < n_rows && fits; i++)
        fits = number[i] >= 0 && (number[i] + 1) * n <= lists.len;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
    else {
        Py_BEGIN_ALLOW_THREADS
        if (item == 4)
            restrict_float(rows.buf, n_rows, n, lists.buf, number, mass.buf);
        else
            restrict_double(rows.buf, n_rows, n, lists.buf, number, mass.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&lists);
    PyBuffer_Release(&of_row);
    PyBuffer_Release(&mass);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"filter_rows", filter_rows, METH_VARARGS, filter_rows_doc},
                                {"restrict", restrict_rows, METH_VARARGS, restrict_doc},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_loops", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__loops(void)
{
    return PyModuleDef_Init(&definition);
}
