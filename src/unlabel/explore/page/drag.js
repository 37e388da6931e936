/* Labels that are dragged with a mouse, a pen or a finger. */

const EDGE = 30; // pixels on both sides of the list's ends where a held pointer scrolls it
const SCROLLED = 12; // pixels per frame
const NUDGE = 6; // pixels that a hand may move while it clicks

/** Follow a pointer that went down on a label; `onDrop` is called with the label or button it is released on. */
function followPointer(down, list, content, onDrop) {
  const from = down.target.closest("li");
  const follower = element("div", { class: "follower", "aria-hidden": "true" }, content);
  let at = down;
  let target = null;
  let isDragging = false;
  let isOver = false;

  const aim = () => {
    const found = document.elementFromPoint(at.clientX, at.clientY)?.closest("#labels li, [data-drop]");
    target?.classList.remove("target");
    target = found && found !== from ? found : null;
    target?.classList.add("target");
  };
  const follow = () => {
    if (isOver) return;
    const { top, bottom } = list.getBoundingClientRect();
    if (Math.abs(at.clientY - top) < EDGE) list.scrollBy(0, -SCROLLED);
    if (Math.abs(at.clientY - bottom) < EDGE) list.scrollBy(0, SCROLLED);
    const [x, y] = [Math.min(at.clientX + 12, innerWidth - 180), at.clientY + 8];
    follower.style.transform = `translate(${x}px, ${y}px)`;
    aim();
    requestAnimationFrame(follow);
  };
  const start = () => {
    isDragging = true;
    document.body.classList.add("dragging");
    document.body.append(follower);
    follow();
  };
  const stop = () => {
    isOver = true;
    follower.remove();
    target?.classList.remove("target");
    document.body.classList.remove("dragging");
  };
  const listeners = {
    pointermove(event) {
      if (event.pointerId !== down.pointerId || isOver) return;
      at = event;
      if (!isDragging && Math.hypot(at.clientX - down.clientX, at.clientY - down.clientY) >= NUDGE) start();
    },
    keydown(event) {
      if (event.key === "Escape") stop();
    },
    pointerup(event) {
      if (event.pointerId !== down.pointerId) return;
      at = event;
      if (isDragging && !isOver) aim();
      end(isOver ? null : target);
      if (isDragging) ignoreClick();
    },
    pointercancel(event) {
      if (event.pointerId === down.pointerId) end(null);
    },
  };
  const end = (to) => {
    for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener);
    stop();
    if (to) onDrop(to);
  };
  for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener);
}

/** Ignore the click that follows when a drag ends on the label that it began on. */
function ignoreClick() {
  const ignore = (event) => event.preventDefault();
  addEventListener("click", ignore, { capture: true, once: true });
  setTimeout(() => removeEventListener("click", ignore, { capture: true }));
}
