-- ARGV: number of batches, channel, experiment, how many ended picks are remembered; pick, digest, rows, body, nonce and
--       measures of each batch; then, where picks are to be opened, what `open` takes.
-- Answers with the mark before all steps, the answer of each step, and the mark after them.
local batches, channel, experiment, limit = unpack(ARGV, 1, 4)
local before = redis.call('HGET', counts, 'mark') or ''
local answer, at = {'ok', before}, 4
for i = 1, batches do
  local number, digest, rows, body, nonce, measures = unpack(ARGV, at + 1, at + 6)
  answer[2 + i] = settle(number, digest, rows, body, nonce, measures, channel, experiment, limit)
  at = at + 6
end
if at < #ARGV then
  answer[#answer + 1] = open(at, before)
end
answer[#answer + 1] = mark or before
return answer
