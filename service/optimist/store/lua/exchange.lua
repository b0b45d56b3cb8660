-- uses: prelude settling opening
-- keys: counts
-- args: channel experiment remembered batches*(number digest rows body nonce measures)

-- Settles batches, then opens picks where `groups` names any. remembered: how many ended picks are remembered.
-- Answers the mark before all steps, the answer of each step, and the mark after them.
local before = redis.call('HGET', counts, 'mark') or ''
local answer = {'ok', before}
for i, batch in ipairs(batches) do
  answer[2 + i] = settle(batch.number, batch.digest, batch.rows, batch.body, batch.nonce, batch.measures, channel,
    experiment, remembered)
end
if #groups > 0 then
  answer[#answer + 1] = open(before)
end
answer[#answer + 1] = mark or before
return answer
