/* SPDX-License-Identifier: Apache-2.0 */
/* Cells get the heads of their columns: a phone shows a table as a list of its rows (width.css). */

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table.docutils")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, column) => {
        if (heads[column] && cell.textContent.trim()) {
          cell.dataset.label = heads[column];
        }
      });
    }
  }
});
