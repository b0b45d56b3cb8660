// Words of the page that are explained where they are first met, as `optimist help words` explains them.
import { fill, h } from "./dom.js";

export const MEANINGS = {
  "ask, pick": "A worker asks which generator to sample next. The answer is a pick: a generator, a number of samples, and their seeds.",
  lease: "The time for which a pick is reserved for its worker. A batch that comes later still counts, unless another worker has made the same samples.",
  interval: "With the chance 1 − δ it contains the true score. 0.30 (0.25 to 0.35) is a score of 0.30 with its interval.",
  evidence: "The difference from a rival in standard errors. A decision needs it for every rival; what is needed grows slowly with the number of looks.",
  "worse, as good": "Decided about a rival: it is worse, or within the tolerance. Otherwise it is too close to call, or after the decision may be as good.",
  "below noise": "By chance the estimate is below the smallest possible score, which is shown instead.",
  bracket: "Two values between which the score lies on average, whatever the samples' law.",
  "warming up": "Every generator gets its first batches, before a policy chooses.",
  provisional: "The rule would stop, and answers on their way are waited for.",
  leader: "The generator with the best estimate now.",
  regret: "What was lost by sampling worse generators: the sum over all batches of the gap to the best one.",
  mode: "A group of samples that are alike.",
  "top-two, ucb, ogd, optimistic": "Policies: find the best generator; collect good samples; find the best mixture; send each prompt to a generator.",
};

const meaning = h("div", { id: "meaning", popover: "auto", role: "status" });
document.body.append(meaning);

// A button that shows what a word means, near itself; Escape or a click elsewhere closes that. isNamed: whether it has the word
// itself beside the "?".
export function term(word, isNamed = false) {
  const button = h("button", { type: "button", class: "term", "aria-label": `What does “${word}” mean?`, onclick: () => show(word, button) },
    isNamed && `${word} `, h("span", {}, "?"));
  button.popoverTargetElement = meaning;
  return button;
}

function show(word, button) {
  const { left, top, bottom } = button.getBoundingClientRect();
  const isHigh = top < innerHeight / 2;
  Object.assign(meaning.style, {
    left: `${Math.max(12, Math.min(left - 20, innerWidth - 352))}px`,
    top: isHigh ? `${bottom + 8}px` : "auto", bottom: isHigh ? "auto" : `${innerHeight - top + 8}px`,
  });
  fill(meaning, h("strong", {}, word), ": ", MEANINGS[word]);
}
