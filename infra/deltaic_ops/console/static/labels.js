// Name the column in each cell, so that narrow screens can show each row of a table as a list.
for (const table of document.querySelectorAll("table")) {
  const labels = [...table.querySelectorAll("th")].map((head) => head.textContent);
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => (cell.dataset.label = labels[at]));
}
