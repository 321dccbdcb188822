"use strict";
// Each chart is a place with data beside it; a select chooses among its variants.
for (const place of document.querySelectorAll(".chart")) {
  const variants = JSON.parse(document.getElementById("data-" + place.id).textContent);
  const select = document.getElementById("choose-" + place.id);
  const narrow = window.innerWidth < 600;
  const show = (label) => {
    const figure = variants[label];
    const layout = Object.assign({}, figure.layout);
    if (narrow) {
      layout.margin = Object.assign({}, layout.margin, { l: 44, r: 8 });
      layout.font = { size: 11 };
    }
    Plotly.react(place, figure.data, layout, {
      responsive: true,
      displaylogo: false,
      displayModeBar: narrow ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    });
  };
  if (!select) {
    show(Object.keys(variants)[0]);
    continue;
  }
  // What was chosen stays so when a page that is served renews itself.
  const key = location.pathname + "#" + select.id;
  const chosen = sessionStorage.getItem(key);
  if (chosen in variants) select.value = chosen;
  show(select.value);
  select.addEventListener("change", () => {
    sessionStorage.setItem(key, select.value);
    show(select.value);
  });
}
// A page that is served looks for a newer one; a page from a file stays as it is.
if (document.body.dataset.version && location.protocol.startsWith("http")) {
  setInterval(async () => {
    const answer = await fetch("version", { cache: "no-store" }).catch(() => null);
    if (answer && answer.ok && (await answer.text()) !== document.body.dataset.version) location.reload();
  }, 2000);
}
