/* Elements made of text and other elements: names and ids are never read as HTML. */

/** Make an element; attributes that are undefined, null or false are left out. */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "style") Object.entries(value).forEach(([key, text]) => made.style.setProperty(key, text));
    else if (value !== undefined && value !== null && value !== false)
      made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children.flat().filter((child) => child !== null));
}

const LONGEST = 80;

// Control characters, and those that would turn the text around them.
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu;

/** Write a name so that it is short enough and leaves the text around it as it is. */
function nameOf(label) {
  const clean = label.replace(UNPRINTABLE, "\ufffd");
  const letters = [...clean];
  const half = LONGEST / 2;
  const short =
    letters.length > LONGEST ? [...letters.slice(0, half), "…", ...letters.slice(1 - half)].join("") : clean;
  return short.trim() ? short : "(empty)";
}

function nameElement(label) {
  const name = nameOf(label);
  return element("bdi", { class: "name", title: name === label ? null : label.slice(0, 1000) }, name);
}

const WHOLE = new Intl.NumberFormat("en");

function count(number) {
  return WHOLE.format(number);
}

function countOf(number, one, several = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : several}`;
}

/** Write a share as a percentage with three digits; all and none only if it is. */
function percent(part, whole) {
  if (!whole) return "–";
  const value = (100 * part) / whole;
  if (part > 0 && value < 0.05) return "<0.1%";
  if (part < whole && value >= 99.95) return ">99.9%";
  return `${value.toFixed(value > 0 && value < 99.95 ? 1 : 0)}%`;
}

function signed(number) {
  return number > 0 ? `+${count(number)}` : number < 0 ? `\u2212${count(-number)}` : "0";
}
