// Suggestions below a text field, chosen with the arrows and taken with Tab or Enter.

import { h, replace } from "../dom.js";

let lists = 0;

// `suggest(text)` answers with whole texts.
export function complete(input, suggest) {
  lists += 1;
  const id = `suggestions-${lists}`;
  const list = h("ul", { class: "suggestions", role: "listbox", id, hidden: true });
  let found = [];
  let chosen = -1;
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", id);
  input.setAttribute("aria-expanded", "false");

  function draw() {
    const is = document.activeElement === input && found.length > 0;
    list.hidden = !is;
    input.setAttribute("aria-expanded", String(is));
    replace(list, found.map((text, index) => h("li", {
      role: "option", id: `${id}-${index}`, "aria-selected": String(index === chosen),
      // Before the field loses the focus.
      onmousedown: (event) => { event.preventDefault(); take(index); },
    }, text)));
    if (chosen >= 0) input.setAttribute("aria-activedescendant", `${id}-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function look() {
    found = suggest(input.value);
    chosen = -1;
    if (!list.isConnected) input.after(list);
    list.style.setProperty("left", `${input.offsetLeft}px`);
    list.style.setProperty("top", `${input.offsetTop + input.offsetHeight}px`);
    list.style.setProperty("min-width", `${input.offsetWidth}px`);
    draw();
  }

  function take(index) {
    input.value = found[index];
    look();
  }

  input.addEventListener("input", look);
  input.addEventListener("focus", look);
  input.addEventListener("blur", () => { list.hidden = true; });
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = Math.max(-1, Math.min(found.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
      draw();
    } else if ((event.key === "Enter" && chosen >= 0) || (event.key === "Tab" && !event.shiftKey && found.length)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      take(Math.max(0, chosen));
    } else if (event.key === "Escape") {
      event.stopImmediatePropagation();
      list.hidden = true;
    }
  }, { capture: true });
}
