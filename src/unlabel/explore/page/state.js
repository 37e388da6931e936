/* The state of the page, { plan, method, threshold }, in the fragment of a link. */

/** Write a state as the text of its plan and the two settings. */
function fragmentOf({ plan, method, threshold }) {
  const fields = new URLSearchParams({ plan: asToml(plan), method });
  if (threshold !== null) fields.set("unknown", threshold);
  return String(fields);
}

/** Read a state, or give null where the fragment is none; a sentence is thrown that says why a plan does not fit. */
function stateOf(fragment, sample) {
  const fields = new URLSearchParams(fragment);
  if (!fields.has("plan")) return null;
  const threshold = Number.parseFloat(fields.get("unknown"));
  return {
    plan: readPlan(fields.get("plan"), sample.classes),
    method: sample.truth && fields.get("method") !== "mask" ? "osr" : "mask",
    threshold: threshold >= 0 && threshold <= 1 ? threshold : null,
  };
}
