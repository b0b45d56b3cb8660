#!/bin/sh
# Makes promptfoo/results.json with promptfoo itself and providers that answer by a rule: run it where `npx promptfoo` is.
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cat > "$work/provider.js" <<'JS'
module.exports = class {
  constructor(options) { this.skill = options.config.skill; this.providerId = options.id; this.calls = {}; }
  id() { return this.providerId; }
  async callApi(prompt) {
    const number = Number(prompt.match(/\d+/)[0]);
    if (this.skill < 1 && number === 7) return { error: 'no answer in time' };
    const call = this.calls[prompt] = (this.calls[prompt] || 0) + 1;
    const right = (number * 7 + call * 3) % 10 < 10 * this.skill;
    return { output: `${right ? 2 * number : 2 * number + 1}`, cost: 0.001 * this.skill,
             tokenUsage: { total: 12, prompt: 10, completion: 2 } };
  }
};
JS
cat > "$work/promptfooconfig.yaml" <<'YAML'
description: doubles
prompts: ["Twice {{number}}?"]
providers:
  - {id: "file://provider.js", label: large, config: {skill: 1.0}}
  - {id: "file://provider.js", label: small, config: {skill: 0.6}}
defaultTest:
  assert: [{type: equals, value: "{{answer}}"}, {type: javascript, value: "1 / output.length", metric: brevity}]
tests:
YAML
for n in 0 1 2 3 4 5 6 7 8 9; do echo "  - {vars: {number: $n, answer: \"$((2 * n))\"}}" >> "$work/promptfooconfig.yaml"; done
mkdir -p "$here/promptfoo"
export PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 PROMPTFOO_CONFIG_DIR="$work/state"
npx promptfoo eval -c "$work/promptfooconfig.yaml" --repeat 2 --no-cache --no-table -o "$here/promptfoo/results.json" || test $? = 100
rm -r "$work"
