// SPDX-License-Identifier: Apache-2.0
// How the search orders its results (Sphinx's html_search_scorer). Pages whose titles have the query come first, then
// pages with such a section. Among equals, pages that answer questions come before the reference.
var Scorer = {
  // Added to the scores of pages, by the beginnings of their names.
  places: { "help/": 8, "tutorial/": 4, "python/classes/": -30, "python/": -6, "c/": -8, "migration": -8, "release-notes": -8 },

  // Returns how well a title has the query: 0 to 1.
  inTitle: (title) => {
    const query = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    const text = title.toLowerCase();
    if (query === "" || !query.split(/\s+/).every((word) => text.includes(word))) return 0;
    return text.includes(query) ? 0.5 + (0.5 * query.length) / text.length : 0.25;
  },

  score: ([page, title, , , score, file, kind]) => {
    if (kind === "object") return score;
    const place = Object.keys(Scorer.places).find((start) => page.startsWith(start));
    const added = place ? Scorer.places[place] : 0;
    if (kind === "title") return 80 * Scorer.inTitle(title.split(" > ").pop()) + added;
    const { alltitles, filenames } = Search._index;
    const sections = Object.entries(alltitles).filter(([, uses]) => uses.some(([index]) => filenames[index] === file));
    const best = Math.max(0, ...sections.map(([section]) => Scorer.inTitle(section)));
    return Math.min(score, 20) + 100 * Scorer.inTitle(title) + 40 * best + added;
  },

  objNameMatch: 60, // the whole name was given
  objPartialMatch: 4,
  objPrio: { 0: 4, 1: 2, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
