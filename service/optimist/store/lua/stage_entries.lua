-- uses: entry
-- other keys: staged
-- args: seconds keep_log entries*(seq pick rows digest chain bytes body record is_retraction is_answer prompts indices counted context seconds)

-- Adds entries to a log that is being imported, under a key that expires after `seconds`. Entries that it has already
-- are skipped. keep_log: '1' if entries have records.
local last = redis.call('XREVRANGE', staged, '+', '-', 'COUNT', 1)[1]
local seen = last and tonumber(last[1]:match('^%d+')) or 0
for _, new in ipairs(entries) do
  if tonumber(new.seq) > seen then
    if new.is_retraction == '1' then
      new = {retracts = 1, seq = new.seq, digest = new.digest, chain = new.chain, bytes = new.bytes}
    elseif new.is_answer == '1' then
      new = {answers = 1, seq = new.seq, digest = new.digest, chain = new.chain, bytes = new.bytes, body = new.body}
    elseif keep_log ~= '1' then
      new.record = nil
    end
    redis.call('XADD', staged, new.seq .. '-0', unpack(entry_of(new)))
  end
end
redis.call('EXPIRE', staged, seconds)
return {'ok'}
