/* Plans: a mapping from labels to destinations, what becomes of the model's labels, and plans as TOML.

   A plan is { title, note, changes }, changes a Map from labels to the parts of their destinations: [] for a
   removed label, else pairs of a label and a weight. */

const REMOVED = -1;
const SPLIT = -2;
const NO_PLAN = { title: "", note: "", changes: new Map() };
const WEIGHT_TOLERANCE = 1e-3; // of weights that people rounded

/** Work out what becomes of the model's labels, or throw a sentence that says why the plan does not fit. */
function outcomeOf(classes, plan) {
  refuseMisfits(classes, plan.changes);
  const columnOf = new Map(classes.map((label, column) => [label, column]));
  const removed = [...plan.changes].filter(([, parts]) => !parts.length).map(([label]) => columnOf.get(label));
  const isRemoved = new Set(removed);
  const retained = classes.map((_, column) => column).filter((column) => !isRemoved.has(column));
  const columns = new Int32Array(classes.length).fill(REMOVED);
  const numbers = new Map();
  const sources = []; // among the retained labels
  const targets = []; // among the result's
  const weights = [];
  retained.forEach((column, source) => {
    const parts = plan.changes.get(classes[column]) ?? [[classes[column], 1]];
    const total = parts.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [label, weight] of parts) {
      if (!numbers.has(label)) numbers.set(label, numbers.size);
      sources.push(source);
      targets.push(numbers.get(label));
      weights.push(weight / total);
    }
    columns[column] = parts.length === 1 ? numbers.get(parts[0][0]) : SPLIT;
  });
  return { removed, retained, classes: [...numbers.keys()], sources, targets, weights, columns };
}

function refuseMisfits(classes, changes) {
  const known = new Set(classes);
  const removed = new Set();
  for (const [label, parts] of changes) {
    if (!known.has(label)) throw new Error(`The model has no label ${quoted(label)}.`);
    if (!parts.length) removed.add(label);
  }
  for (const [label, parts] of changes) {
    const to = parts.find(([name]) => removed.has(name));
    if (to) {
      throw new Error(
        `The plan sends ${quoted(label)} to ${quoted(to[0])}, which it removes: send it elsewhere, or do not ` +
          `remove ${quoted(to[0])}.`,
      );
    }
  }
  if (removed.size === classes.length) {
    throw new Error(`All ${classes.length} labels would be removed: at least one must remain.`);
  }
}

/** Send labels to one destination: null to remove them, their own name to keep them. */
function withChanges(plan, labels, to) {
  const changes = new Map(plan.changes);
  for (const label of labels) {
    changes.delete(label); // so that a label removed later comes later
    if (to === null) changes.set(label, []);
    else if (to !== label) changes.set(label, [[to, 1]]);
  }
  return { ...plan, changes };
}

function withoutChanges(plan, labels) {
  const changes = new Map(plan.changes);
  for (const label of labels) changes.delete(label);
  return { ...plan, changes };
}

/** Merge two of the result's labels: what goes to the second, in part too, goes to the first. */
function withMerged(plan, classes, first, second) {
  const changes = new Map(plan.changes);
  for (const label of classes) {
    const parts = changes.get(label) ?? [[label, 1]];
    if (!parts.some(([name]) => name === second)) continue;
    const weights = new Map();
    for (const [name, weight] of parts) {
      const to = name === second ? first : name;
      weights.set(to, (weights.get(to) ?? 0) + weight);
    }
    changes.delete(label);
    const [[to]] = weights;
    if (weights.size > 1) changes.set(label, [...weights]);
    else if (to !== label) changes.set(label, [[to, 1]]);
  }
  return { ...plan, changes };
}

/** Name the label that another one would be merged into, were it dropped on this one. */
function destinationOf(plan, label) {
  const parts = plan.changes.get(label);
  if (!parts) return label;
  if (parts.length === 1) return parts[0][0];
  throw new Error(`${quoted(label)} is ${parts.length ? "split" : "removed"}: choose another label to merge with.`);
}

/** Write a plan as the TOML that `unlabel fit --plan plan.toml` takes. */
function asToml(plan) {
  const lines = ["title", "note"].filter((name) => plan[name]).map((name) => `${name} = ${quoted(plan[name])}`);
  if (lines.length) lines.push("");
  lines.push("[changes]");
  for (const [label, parts] of plan.changes) lines.push(`${quoted(label)} = ${tomlOf(parts)}`);
  return lines.join("\n") + "\n";
}

function tomlOf(parts) {
  if (parts.length === 0) return "false";
  if (parts.length === 1) return parts[0][0] === "" ? '[""]' : quoted(parts[0][0]);
  return `{ ${parts.map(([label, weight]) => `${quoted(label)} = ${weight}`).join(", ")} }`;
}

// Valid in JSON but not in TOML, or a change of direction that could disguise what follows.
const TO_ESCAPE = /[\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Put a text in quotes, which are JSON's and TOML's. */
function quoted(text) {
  const escaped = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(TO_ESCAPE, escaped);
}

/** Read a plan from TOML; a sentence is thrown that says what is wrong with it. */
function readPlan(text, classes) {
  let content;
  try {
    content = TOML.parse(inOrder(text.replace(/^\ufeff/, "")), { integersAsBigInt: true });
  } catch (error) {
    const [reason] = error.message.replace("Invalid TOML document: ", "").split("\n");
    throw new Error(`It is not TOML: ${reason}${error.line ? ` in line ${error.line}` : ""}.`);
  }
  const { title = "", note = "", unlisted = "keep", changes, ...others } = content;
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new Error(`It has the key ${quoted(labelOf(other))}: labels are listed under [changes].`);
  if (typeof title !== "string" || typeof note !== "string") throw new Error("Its title or note is not a text.");
  if (!["keep", "remove", "error"].includes(unlisted)) {
    throw new Error('Its key "unlisted" is not "keep", "remove" or "error".');
  }
  if (!isTable(changes)) {
    throw new Error("It has no table [changes]: list the labels and destinations in one.");
  }
  const pairs = Object.entries(changes).map(([label, to]) => [labelOf(label), partsOf(labelOf(label), to)]);
  const plan = { title: labelOf(title), note: labelOf(note), changes: new Map(pairs) };
  const missing = classes.filter((label) => !plan.changes.has(label));
  if (unlisted === "error" && missing.length) {
    throw new Error(`The plan does not list ${quoted(missing[0])}: list every label of the model.`);
  }
  if (unlisted === "remove") for (const label of missing) plan.changes.set(label, []);
  for (const [label, parts] of plan.changes) {
    if (parts.length === 1 && parts[0][0] === label) plan.changes.delete(label);
  }
  outcomeOf(classes, plan); // refuses what does not fit
  return plan;
}

// Comments, texts in quotes, and keys without quotes that are whole numbers.
const TOKENS =
  /#[^\n]*|"""[^]*?"""|'''[^]*?'''|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?<=(?:^|[\n{,.])[ \t]*)\d+(?=[ \t]*[=.\]])/g;

/**
 * Mark texts that are whole numbers: objects would move such keys to the front, and labels are removed in the order
 * given. `labelOf` takes the mark away.
 */
function inOrder(text) {
  return text.replace(TOKENS, (token) =>
    /^(["']?)\d+\1$/.test(token) ? token.replace(/^["']?(\d+)["']?$/, '"\\u0000$1"') : token,
  );
}

function labelOf(text) {
  return text.replace(/^\0(?=\d+$)/, "");
}

function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

function partsOf(label, to) {
  const name = quoted(label);
  if (to === false) return [];
  if (Array.isArray(to) && to.length > 1) {
    throw new Error(`It splits ${name} without weights: give each destination a weight.`);
  }
  const [only] = Array.isArray(to) ? to : [to];
  if (typeof only === "bigint") return [[String(only), 1]];
  if (typeof only === "string" && to !== "") return [[labelOf(only), 1]];
  if (!isTable(to)) throw new Error(`${name} goes to something that is not a label: write false to remove it.`);
  const parts = Object.entries(to).map(([label, weight]) => [labelOf(label), weight]);
  const isNumber = ([, weight]) => typeof weight === "number" || typeof weight === "bigint";
  if (parts.length === 1 || !parts.every(isNumber)) {
    // of a label with dots that is written without quotes
    throw new Error(`${name} goes to a table that is not weights: write labels with dots in quotes.`);
  }
  const weights = parts.map(([label, weight]) => [label, Number(weight)]);
  const isWeight = ([, weight]) => weight > 0 && weight <= 1 + WEIGHT_TOLERANCE;
  if (!weights.length || !weights.every(isWeight)) {
    throw new Error(`The weights of ${name} are not numbers above 0 and up to 1.`);
  }
  const sum = weights.reduce((total, [, weight]) => total + weight, 0);
  if (Math.abs(sum - 1) > WEIGHT_TOLERANCE) throw new Error(`The weights of ${name} do not sum to 1.`);
  return weights;
}
