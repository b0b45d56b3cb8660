// What groups of prompts are called.

const COMMON = 0.3; // of a group's texts at least have a word that names it
const RARER = 0.2; // by how much smaller the part of the other texts is that have it
const WORDS = 3;

// For each group of texts its most distinctive frequent words, such as "python, list"; "" where there are none.
export function named(groups) {
  const found = groups.map((texts) => texts.map(wordsOf));
  const part = (sets, word) => (sets.length ? sets.filter((words) => words.has(word)).length / sets.length : 0);
  return found.map((sets, place) => {
    const others = found.filter((_, i) => i !== place).flat();
    return [...new Set(sets.flatMap((words) => [...words]))]
      .map((word) => [word, part(sets, word), part(sets, word) - part(others, word)])
      .filter(([, within, rarer]) => within >= COMMON && rarer >= RARER)
      .sort(([a, , one], [b, , other]) => other - one || b.length - a.length)
      .slice(0, WORDS).map(([word]) => word).join(", ");
  });
}

const wordsOf = (text) => new Set(text.toLowerCase().match(/\p{L}{3,}/gu) ?? []);
