-- ARGV: number of batches, channel, experiment, how many ended picks are remembered; pick, digest, rows, body and terms
--       of each batch; then, where picks are to be opened, what `open` takes. Answers with the answer of each step.
local batches, channel, experiment, limit = unpack(ARGV, 1, 4)
local answer, at = {'ok'}, 4
for i = 1, batches do
  local number, digest, rows, body, terms = unpack(ARGV, at + 1, at + 5)
  answer[1 + i] = settle(number, digest, rows, body, terms, channel, experiment, limit)
  at = at + 5
end
if at < #ARGV then
  answer[#answer + 1] = open(at)
end
return answer
