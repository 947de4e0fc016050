"use strict";
// Puts in place what the server has rendered anew. The page works without it, by loading again.
const own = document.currentScript;
const away = document.getElementById("link");
const stream = new EventSource(own.dataset.stream);
stream.addEventListener("open", () => (away.hidden = true));
stream.addEventListener("error", () => (away.hidden = false));
stream.addEventListener("fragment", (event) => {
  const { id, html } = JSON.parse(event.data);
  const panel = document.getElementById(id);
  const place = panel.querySelector(".live");
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  place.innerHTML = html;
  panel.hidden = html === "";
  if (focused) place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
});
